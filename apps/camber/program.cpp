#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>

#include "apps/camber/command.h"
#include "camber/config/names.h"
#include "camber/config/numbers.h"

namespace camber::app {

/// The commands as CLI11 sees them.
class Program::Parser {
 public:
  explicit Parser(const Command& root) : root_(root) {
    declare(root, app_);
    app_.set_version_flag("--version", "");
  }

  void parse(std::vector<std::string> words) {
    join_lists(words, lists_of(words));
    std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
    app_.parse(std::move(words));
  }

  /// The innermost command that the command line named.
  Command& selected(Command& root) const {
    for (const auto& command : root.commands_)
      if (apps_.at(command.get())->parsed()) return selected(*command);
    return root;
  }

  /// Throws for the first word that no command on the way to the selected one takes.
  void refuse_unknown_words(const Command& root) const {
    root.refuse_moved(apps_.at(&root)->remaining());
    for (const std::string& word : apps_.at(&root)->remaining()) {
      const std::string name = word.substr(0, word.find('='));
      if (!names_configuration(root, name)) root.refuse_unknown(name);
      if (name == word)
        throw std::invalid_argument(fmt::format("{}{} must be given as {}=value", root.title(), name, name));
    }
    for (const auto& command : root.commands_)
      if (apps_.at(command.get())->parsed()) refuse_unknown_words(*command);
  }

  void refuse_missing(const Command& command) const {
    for (const Command::Argument& argument : command.arguments_)
      if (argument.presence == Presence::kRequired && !given(command, argument.name))
        throw std::invalid_argument(
            fmt::format("{}{} is required: {}", command.title(), argument.name, argument.meaning));
  }

  bool given(const Command& command, const std::string& name) const { return apps_.at(&command)->count(name) > 0; }

  /// The words that set fields of the command's configuration.
  std::vector<std::string> configuration_words(const Command& command) const { return apps_.at(&command)->remaining(); }

 private:
  // Whether `--a.b` begins with a field of the command's configuration; the rest is checked when that is read.
  static bool names_configuration(const Command& command, const std::string& name) {
    if (!command.configuration_.describe || !name.starts_with("--")) return false;
    const std::string first = name.substr(2, name.find('.') - 2);
    const auto fields = command.configuration_.describe().fields;
    return std::any_of(fields.begin(), fields.end(), [&](const auto& field) { return field.name == first; });
  }

  // The options that take several numbers of the command that the words name; the same word may be a flag elsewhere.
  std::set<std::string> lists_of(const std::vector<std::string>& words) const {
    const Command* command = &root_;
    for (const std::string& word : words) {
      const auto below = std::find_if(command->commands_.begin(), command->commands_.end(),
                                      [&word](const auto& known) { return known->text_.name == word; });
      if (below != command->commands_.end()) command = below->get();
    }
    std::set<std::string> lists;
    for (const Command::Argument& argument : command->arguments_)
      if (argument.list) lists.insert(argument.name);
    return lists;
  }

  // `--scales 1 2.5 5` means `--scales 1,2.5,5`; CLI11 would take `-.6` for an option.
  static void join_lists(std::vector<std::string>& words, const std::set<std::string>& lists) {
    for (std::size_t i = 0; i + 2 < words.size();) {
      const bool number_follows = config::read_number(words[i + 2]).has_value();
      if (lists.contains(words[i]) && number_follows && !words[i + 1].starts_with("--")) {
        words[i + 1] += "," + words[i + 2];
        words.erase(words.begin() + static_cast<std::ptrdiff_t>(i) + 2);
      } else {
        ++i;
      }
    }
  }

  void declare(const Command& command, CLI::App& app) {
    apps_[&command] = &app;
    app.allow_extras();  // they are refused above, with the nearest known name
    for (const Command::Argument& argument : command.arguments_) declare(command, argument, app);
    for (const auto& below : command.commands_) declare(*below, *app.add_subcommand(below->text_.name));
    // One of them at most: a folder may be called like a sub-command (`camber report study`).
    if (!command.commands_.empty()) app.require_subcommand(0, 1);
  }

  static void declare(const Command& command, const Command::Argument& argument, CLI::App& app) {
    if (argument.placeholder.empty()) {
      app.add_flag_callback(argument.name, [&argument] { argument.take(""); })->disable_flag_override();
      return;
    }
    const auto take = [&command, &argument](const CLI::results_t& values) {
      if (values.size() != 1)
        throw std::invalid_argument(
            fmt::format("{}{} must be given once, got it {} times", command.title(), argument.name, values.size()));
      argument.take(values.front());
      return true;
    };
    app.add_option(argument.name, take)
        ->type_size(1)
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }

  CLI::App app_{"", "camber"};
  const Command& root_;
  std::map<const Command*, CLI::App*> apps_;
};

Program::Program(std::string description, std::string version)
    : version_(std::move(version)), root_({.summary = std::move(description), .example = "camber analyze softmax"}) {}

int Program::run(int argument_count, const char* const* arguments) {
  Parser parser(root_);
  try {
    parser.parse({arguments + 1, arguments + argument_count});
  } catch (const CLI::CallForHelp&) {
    parser.refuse_unknown_words(root_);
    print_answer(parser.selected(root_).help());
    return kSuccess;
  } catch (const CLI::CallForVersion&) {
    parser.refuse_unknown_words(root_);
    print_answer("camber " + version_ + "\n");
    return kSuccess;
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string message = error.what();
    const std::string title = parser.selected(root_).title();
    if (message.find("flag override") != std::string::npos)
      throw std::invalid_argument(fmt::format("{}--{} takes no value", title, message.substr(0, message.find(' '))));
    throw std::invalid_argument(fmt::format("{}{} needs a value", title, message.substr(0, message.find(':'))));
  } catch (const CLI::ParseError& error) {
    parser.refuse_unknown_words(root_);
    throw std::invalid_argument(fmt::format("{}{}", parser.selected(root_).title(), error.what()));
  }
  parser.refuse_unknown_words(root_);
  return run(parser, parser.selected(root_));
}

void Program::say_what_stands_twice(const Command& command, const std::vector<std::string>& words) {
  std::map<std::string, std::string> given;
  for (const std::string& word : words) {
    const std::size_t end = word.find('=');
    const auto [entry, first] =
        given.insert_or_assign(word.substr(0, end), word.substr(std::min(end + 1, word.size())));
    if (!first)
      fmt::print(stderr, "{}{} is given more than once: {} holds\n", command.title(), entry->first, entry->second);
  }
}

void Program::refuse_idle(const Command& command) {
  // What a configuration is made of, what a whole command line may carry along, and what is common to all.
  const std::set<std::string> known = {"--config", "--from", "--resume", "--start", "--out"};
  for (const Command::Argument& argument : command.arguments_)
    if (command.common_.given.contains(argument.name) && !argument.shared && !known.contains(argument.name) &&
        !argument.name.starts_with("--print-"))
      throw std::invalid_argument(fmt::format("{}{} changes nothing of a configuration that is printed; leave it out",
                                              command.title(), argument.name));
}

int Program::run(const Parser& parser, Command& command) {
  if (!command.run_) {
    std::vector<std::string> known;
    known.reserve(command.commands_.size());
    for (const auto& below : command.commands_) known.push_back(below->text_.name);
    throw std::invalid_argument(fmt::format("{}needs a sub-command: {}", command.title(), config::join_names(known)));
  }
  const std::int64_t threads = command.common_.threads;
  if (threads < 0 || threads > kMostThreads)
    throw std::invalid_argument(
        threads < 0 ? fmt::format("{}--threads must be at least 0, got {}", command.title(), threads)
                    : fmt::format("{}--threads must be at most {}, got {}", command.title(), kMostThreads, threads));
  constexpr std::uint64_t kLargestSeed = std::numeric_limits<std::int64_t>::max();  // what a configuration can hold
  if (command.common_.seed > kLargestSeed)
    throw std::invalid_argument(
        fmt::format("{}--seed must be at most {}, got {}", command.title(), kLargestSeed, command.common_.seed));
  command.common_.seed_given = parser.given(command, "--seed");
  for (const Command::Argument& argument : command.arguments_)
    if (parser.given(command, argument.name)) command.common_.given.insert(argument.name);
  if (command.configuration_.describe) {
    if (!command.common_.quiet) say_what_stands_twice(command, parser.configuration_words(command));
    command.configuration_.load(
        {.file = command.configuration_.file, .arguments = parser.configuration_words(command)});
    if (command.configuration_.print || command.configuration_.print_table) {
      refuse_idle(command);
      const config::Description description = command.configuration_.describe();
      print_answer(command.configuration_.print ? config::write_toml(description)
                                                : config::write_markdown(description));
      return kSuccess;
    }
  }
  parser.refuse_missing(command);
  return command.run_(command.common_);
}

namespace {
thread_local std::string* captured_answer = nullptr;
}  // namespace

AnswerCapture::AnswerCapture() {
  captured_answer = &text_;
}

AnswerCapture::~AnswerCapture() {
  captured_answer = nullptr;
}

void print_answer(std::string_view text) {
  if (captured_answer != nullptr) {
    *captured_answer += text;
    return;
  }
  const bool whole = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (!whole) throw std::runtime_error("standard output cannot be written");
}

}  // namespace camber::app
