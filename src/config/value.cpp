#include "camber/config/value.h"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "camber/config/numbers.h"

namespace camber::config {
namespace {

std::string quoted_string(std::string_view text) {
  std::string quoted = "\"";
  for (const char letter : text) {
    const auto code = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\')
      (quoted += '\\') += letter;
    else if (letter == '\n')
      quoted += "\\n";
    else if (letter == '\t')
      quoted += "\\t";
    else if (code < 0x20 || code == 0x7F)
      quoted += fmt::format("\\u{:04X}", code);
    else
      quoted += letter;
  }
  return quoted + '"';
}

bool is_bare_key(std::string_view key) {
  return !key.empty() && std::all_of(
                             key.begin(), key.end(),
                             [](char letter) {
                               return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                                      (letter >= '0' && letter <= '9') || letter == '_' || letter == '-';
                             });
}

Value& element(Value& list_value, std::string_view index_text, const std::string& path) {
  auto& list = std::get<List>(list_value.data);
  const auto index = read_unsigned(index_text);
  if (!index || *index >= list.size())
    throw std::invalid_argument(
        fmt::format("[config] command line: --{} is a list of {}, so that its elements are 0 to {}, got '{}'", path,
                    list.size(), static_cast<std::int64_t>(list.size()) - 1, index_text));
  return list[*index];
}

Value& member(Value& table_value, std::string_view key, const Source& source) {
  auto& table = std::get<Table>(table_value.data);
  if (Entry* entry = find(table, key)) return entry->value;
  // A key that is not there yet may be unknown: whoever reads the tree says so, with the nearest known name.
  table.push_back({.key = std::string(key), .source = source, .value = {.data = Table{}, .source = source}});
  return table.back().value;
}

}  // namespace

std::string Source::text() const {
  switch (kind) {
    case Kind::kDefaults:
      return "defaults";
    case Kind::kCommandLine:
      return "command line";
    case Kind::kFile:
      break;
  }
  return line == 0 ? file : fmt::format("{}:{}:{}", file, line, column);
}

std::filesystem::path file_at(const std::string& name, const Source& source) {
  if (name.empty() || source.kind == Source::Kind::kDefaults) return name;
  std::filesystem::path here = std::filesystem::absolute(name).lexically_normal();
  if (source.kind == Source::Kind::kCommandLine) return here;
  const auto folder = std::filesystem::absolute(source.file).parent_path();
  std::filesystem::path beside = (folder / name).lexically_normal();
  return std::filesystem::exists(beside) || !std::filesystem::exists(here) ? beside : here;
}

Entry* find(Table& table, std::string_view key) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const Entry& entry) { return entry.key == key; });
  return found == table.end() ? nullptr : &*found;
}

const Entry* find(const Table& table, std::string_view key) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const Entry& entry) { return entry.key == key; });
  return found == table.end() ? nullptr : &*found;
}

std::string Value::quoted() const {
  if (const auto* unparsed = std::get_if<Unparsed>(&data)) return "'" + unparsed->text + "'";
  if (const auto* text = std::get_if<std::string>(&data)) return "the text " + quoted_string(*text);
  if (std::holds_alternative<List>(data)) return "a list";
  if (std::holds_alternative<Table>(data)) return "a table";
  return write_toml_value(*this);
}

std::string write_toml_value(const Value& value) {
  struct Writer {
    std::string operator()(bool flag) const { return flag ? "true" : "false"; }
    std::string operator()(std::int64_t number) const { return std::to_string(number); }
    std::string operator()(double number) const { return write_number(number); }
    std::string operator()(const std::string& text) const { return quoted_string(text); }
    std::string operator()(const Unparsed& unparsed) const { return quoted_string(unparsed.text); }
    std::string operator()(const List& list) const {
      std::string text;
      for (const Value& item : list) text += (text.empty() ? "" : ", ") + write_toml_value(item);
      return "[" + text + "]";
    }
    std::string operator()(const Table& table) const {
      std::string text;
      for (const Entry& entry : table) {
        const std::string key = is_bare_key(entry.key) ? entry.key : quoted_string(entry.key);
        text += (text.empty() ? "" : ", ") + key + " = " + write_toml_value(entry.value);
      }
      return text.empty() ? "{}" : "{ " + text + " }";
    }
  };
  return std::visit(Writer{}, value.data);
}

void overlay(Value& base, const Value& above) {
  auto* base_table = std::get_if<Table>(&base.data);
  const auto* above_table = std::get_if<Table>(&above.data);
  if (base_table == nullptr || above_table == nullptr) {
    base = above;
    return;
  }
  base.source = above.source;
  for (const Entry& entry : *above_table) {
    if (Entry* known = find(*base_table, entry.key)) {
      known->source = entry.source;
      overlay(known->value, entry.value);
    } else {
      base_table->push_back(entry);
    }
  }
}

void overlay_argument(Value& base, std::string_view argument) {
  const Source source{.kind = Source::Kind::kCommandLine};
  const std::size_t equals = argument.find('=');
  std::string_view path = argument.substr(0, equals);
  while (path.starts_with('-')) path.remove_prefix(1);
  if (equals == std::string_view::npos || path.empty())
    throw std::invalid_argument(
        fmt::format("[config] command line: an option must be given as --name=value, got '{}'", argument));
  if (base.source.kind == Source::Kind::kDefaults) base.source = source;
  Value* position = &base;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    const std::string before(path.substr(0, begin == 0 ? 0 : begin - 1));
    if (std::holds_alternative<List>(position->data))
      position = &element(*position, part, before);
    else if (std::holds_alternative<Table>(position->data))
      position = &member(*position, part, source);
    else
      throw std::invalid_argument(
          fmt::format("[config] command line: --{} is one value and has no part '{}'", before, part));
    if (position->source.kind == Source::Kind::kDefaults) position->source = source;
    begin = end + 1;
  }
  *position = {.data = Unparsed{std::string(argument.substr(equals + 1))}, .source = source};
}

}  // namespace camber::config
