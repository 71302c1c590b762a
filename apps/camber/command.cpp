#include "apps/camber/command.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include "camber/config/names.h"
#include "camber/config/numbers.h"
#include "camber/config/renamed.h"

namespace camber::app {
namespace {

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> items(1);
  for (const char letter : text)
    if (letter == ',')
      items.emplace_back();
    else if (letter != ' ')
      items.back() += letter;
  return items;
}

std::string join_numbers(const std::vector<double>& numbers) {
  std::string text;
  for (const double number : numbers) text += fmt::format("{}{:g}", text.empty() ? "" : ",", number);
  return text;
}

}  // namespace

void refuse_without(const CommonOptions& common, const std::string& command, const std::string& main,
                    const std::vector<std::string>& options) {
  if (common.given.contains(main)) return;
  for (const std::string& option : options)
    if (common.given.contains(option))
      throw std::invalid_argument(fmt::format("[{}] {} must come with {}, got it alone", command, option, main));
}

void check_ending(const std::string& command, const std::string& option, const std::string& file,
                  const std::vector<std::string>& endings) {
  const bool known = std::any_of(endings.begin(), endings.end(), [&file](const std::string& ending) {
    return file.size() > ending.size() && file.ends_with(ending);
  });
  if (!known)
    throw std::invalid_argument(
        fmt::format("[{}] {} must end in {}, got '{}'", command, option, config::join_names(endings), file));
}

Command::Command(CommandText text, std::string path) : text_(std::move(text)), path_(std::move(path)) {}

Command& Command::add(const CommandText& text) {
  const std::string path = path_.empty() ? text.name : path_ + " " + text.name;
  return *commands_.emplace_back(std::make_unique<Command>(text, path));
}

void Command::refuse(std::string_view name, std::string_view allowed, std::string_view given) const {
  throw std::invalid_argument(fmt::format("{}{} must be {}, got '{}'", title(), name, allowed, given));
}

void Command::option(const std::string& name, bool& value, const std::string& meaning) {
  arguments_.push_back({.name = name, .meaning = meaning, .take = [&value](std::string_view) { value = true; }});
}

void Command::option(const std::string& name, std::int64_t& value, const std::string& meaning, Presence presence) {
  arguments_.push_back({.name = name,
                        .placeholder = "N",
                        .standard = std::to_string(value),
                        .meaning = meaning,
                        .presence = presence,
                        .take =
                            [this, name, &value](std::string_view text) {
                              const auto number = config::read_integer(text);
                              if (!number) refuse(name, "a whole number", text);
                              value = *number;
                            }});
}

void Command::option(const std::string& name, std::uint64_t& value, const std::string& meaning, Presence presence) {
  arguments_.push_back({.name = name,
                        .placeholder = "N",
                        .standard = std::to_string(value),
                        .meaning = meaning,
                        .presence = presence,
                        .take =
                            [this, name, &value](std::string_view text) {
                              const auto number = config::read_unsigned(text);
                              if (!number) refuse(name, "a whole number of at least 0", text);
                              value = *number;
                            }});
}

void Command::option(const std::string& name, double& value, const std::string& meaning, Presence presence) {
  arguments_.push_back({.name = name,
                        .placeholder = "X",
                        .standard = fmt::format("{:g}", value),
                        .meaning = meaning,
                        .presence = presence,
                        .take =
                            [this, name, &value](std::string_view text) {
                              const auto number = config::read_number(text);
                              if (!number || !std::isfinite(*number))
                                refuse(name, number ? "a finite number" : "a number", text);
                              value = *number;
                            }});
}

void Command::option(const std::string& name, std::optional<double>& value, const std::string& meaning) {
  arguments_.push_back({.name = name,
                        .placeholder = "X",
                        .standard = value ? fmt::format("{:g}", *value) : "none",
                        .meaning = meaning,
                        .take =
                            [this, name, &value](std::string_view text) {
                              value = config::read_number(text);
                              if (value ? !std::isfinite(*value) : text != "none")
                                refuse(name, value ? "a finite number or none" : "a number or none", text);
                            }});
}

void Command::option(const std::string& name, std::string& value, const std::string& meaning, Presence presence) {
  arguments_.push_back({.name = name,
                        .placeholder = "TEXT",
                        .standard = value,
                        .meaning = meaning,
                        .presence = presence,
                        .take =
                            [this, name, &value](std::string_view text) {
                              if (text.empty()) refuse(name, "a name or text", text);
                              value = text;
                            }});
}

void Command::option(const std::string& name, std::vector<double>& value, const std::string& meaning,
                     Presence presence) {
  arguments_.push_back(
      {.name = name,
       .placeholder = "X,X,...",
       .standard = join_numbers(value),
       .meaning = meaning,
       .presence = presence,
       .list = true,
       .take =
           [this, name, &value](std::string_view text) {
             value.clear();
             for (const std::string& item : split_list(text)) {
               const auto number = config::read_number(item);
               if (!number || !std::isfinite(*number))
                 refuse(name, number ? "a comma-separated list of finite numbers" : "a comma-separated list of numbers",
                        text);
               value.push_back(*number);
             }
           }});
}

void Command::option(const std::string& name, std::vector<std::string>& value, const std::string& meaning,
                     Presence presence) {
  arguments_.push_back({.name = name,
                        .placeholder = "WORD,...",
                        .standard = fmt::format("{}", fmt::join(value, ",")),
                        .meaning = meaning,
                        .presence = presence,
                        .take =
                            [this, name, &value](std::string_view text) {
                              value = split_list(text);
                              if (std::find(value.begin(), value.end(), "") != value.end())
                                refuse(name, "a comma-separated list of words", text);
                            }});
}

void Command::choice(const std::string& name, const std::vector<std::string>& words, std::size_t standard,
                     std::function<void(std::size_t)> choose, const std::string& meaning) {
  arguments_.push_back({.name = name,
                        .placeholder = fmt::format("{}", fmt::join(words, "|")),
                        .standard = words.at(standard),
                        .meaning = meaning,
                        .take =
                            [this, name, words, choose = std::move(choose)](std::string_view text) {
                              const auto found = std::find(words.begin(), words.end(), text);
                              if (found == words.end())
                                throw std::invalid_argument(fmt::format("{}{} must be {}, got '{}'; the nearest is {}",
                                                                        title(), name, config::join_names(words), text,
                                                                        config::nearest_name(text, words)));
                              choose(static_cast<std::size_t>(found - words.begin()));
                            }});
}

void Command::run(Run function, const std::vector<Format>& formats) {
  const std::size_t own_arguments = arguments_.size();
  std::vector<std::string> words;
  words.reserve(formats.size());
  for (const Format format : formats)
    words.emplace_back(format == Format::kText ? "text" : format == Format::kJson ? "json" : "csv");
  choice(
      "--format", words, 0, [this, formats](std::size_t index) { common_.format = formats[index]; },
      "form of the answer on standard output");
  option("--threads", common_.threads, "worker threads, asleep while they wait; 0: as many as the machine has");
  option("--seed", common_.seed, "seed of all random streams");
  option("--quiet", common_.quiet, "no progress line and no notes on standard error");
  for (std::size_t i = own_arguments; i < arguments_.size(); ++i) arguments_[i].shared = true;
  run_ = std::move(function);
}

void Command::refuse_moved(const std::vector<std::string>& words) const {
  for (const auto& [option, form] : moved_)
    for (const std::string& word : words)
      if (word.starts_with(option))
        throw std::invalid_argument(
            fmt::format("{}{} is now given as '{}'", title(), word.substr(0, word.find('=')), form));
}

void Command::refuse_unknown(const std::string& given) const {
  const bool is_option = given.starts_with('-');
  std::vector<std::string> known;
  if (is_option) {
    for (const Argument& argument : arguments_) known.push_back(argument.name);
    known.emplace_back("--help");
    if (path_.empty()) known.emplace_back("--version");
    if (configuration_.describe)
      for (const config::OptionRow& row : config::option_rows(configuration_.describe()))
        known.push_back("--" + row.path);
  } else {
    for (const auto& command : commands_) known.push_back(command->text_.name);
  }
  if (known.empty())
    throw std::invalid_argument(fmt::format("{}takes options alone, got the argument '{}'", title(), given));
  if (const auto now = config::present_name(given.substr(given.find_first_not_of('-'))))
    if (const std::string name = "--" + std::string(*now); std::find(known.begin(), known.end(), name) != known.end())
      throw std::invalid_argument(fmt::format("{}{} is called {} now", title(), given, name));
  std::string sentence = fmt::format("{}unknown {} '{}'; the nearest is {}", title(),
                                     is_option ? "option" : "sub-command", given, config::nearest_name(given, known));
  if (!is_option) sentence += "; known are " + config::join_names(known, " and ");
  throw std::invalid_argument(sentence);
}

}  // namespace camber::app
