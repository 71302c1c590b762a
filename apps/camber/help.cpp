#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "apps/camber/command.h"

namespace camber::app {
namespace {

constexpr std::size_t kColumns = 80;
constexpr std::size_t kMeaningColumn = 26;

// Two columns, the second one wrapped at the terminal's width; a long first one gets a line of its own.
std::string entry(const std::string& left, const std::string& meaning) {
  std::string text = "  " + left;
  std::size_t column = text.size();
  if (column + 2 > kMeaningColumn) {
    text += '\n';
    column = 0;
  }
  text.append(kMeaningColumn - column, ' ');
  column = kMeaningColumn;
  for (std::size_t begin = 0; begin < meaning.size();) {
    const std::size_t end = std::min(meaning.find(' ', begin), meaning.size());
    const std::string word = meaning.substr(begin, end - begin);
    if (column > kMeaningColumn && column + 1 + word.size() > kColumns) {
      text += '\n' + std::string(kMeaningColumn, ' ');
      column = kMeaningColumn;
    }
    if (column > kMeaningColumn) {
      text += ' ';
      ++column;
    }
    text += word;
    column += word.size();
    begin = end + 1;
  }
  return text + '\n';
}

}  // namespace

std::string Command::help() const {
  const std::string name = path_.empty() ? "camber" : "camber " + path_;
  std::string usage = "usage: " + name + (commands_.empty() ? "" : " SUB-COMMAND");
  std::string positional, own, shared;
  for (const Argument& argument : arguments_) {
    if (!argument.name.starts_with('-')) {
      usage += " " + argument.name;
      positional += entry(argument.name, argument.meaning);
      continue;
    }
    const bool required = argument.presence == Presence::kRequired;
    if (required) usage += fmt::format(" {} {}", argument.name, argument.placeholder);
    const std::string note = required                    ? " (required)"
                             : argument.standard.empty() ? ""
                                                         : fmt::format(" [{}]", argument.standard);
    const std::string left = argument.placeholder.empty() ? argument.name : argument.name + " " + argument.placeholder;
    (argument.shared ? shared : own) += entry(left, argument.meaning + note);
  }
  std::string text = usage + (commands_.empty() ? " [options]" : "") + "\n\n" + text_.summary + "\n";
  if (!commands_.empty()) {
    text += "\nsub-commands:\n";
    for (const auto& command : commands_) text += entry(command->text_.name, command->text_.summary);
  }
  if (!positional.empty()) text += "\narguments:\n" + positional;
  if (!own.empty()) text += "\noptions:\n" + own;
  if (configuration_.describe) {
    text += "\nconfiguration, in the file of --config or on the command line:\n";
    for (const config::OptionRow& row : config::option_rows(configuration_.describe())) {
      const std::string limits = row.limits.empty() ? "" : fmt::format(" ({})", row.limits);
      const std::string standard = row.standard.empty() ? "" : fmt::format(" [{}]", row.standard);
      text += entry(fmt::format("--{}={}", row.path, row.type), fmt::format("{}{}{}", row.meaning, limits, standard));
    }
  }
  shared += entry("--help", "this text");
  if (path_.empty()) shared += entry("--version", "the program's version");
  text += "\ncommon options:\n" + shared;
  return text + "\nexample:\n  " + text_.example + "\n";
}

}  // namespace camber::app
