#include <stdexcept>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "camber/config/value.h"
#include "camber/storage/file.h"

namespace camber::config {
namespace {

Source source_of(const toml::source_region& region, const std::string& name) {
  return {.kind = Source::Kind::kFile, .file = name, .line = region.begin.line, .column = region.begin.column};
}

Value convert(const toml::node& node, const std::string& name) {
  Value value{.data = false, .source = source_of(node.source(), name)};
  if (const auto* flag = node.as_boolean()) {
    value.data = flag->get();
  } else if (const auto* integer = node.as_integer()) {
    value.data = integer->get();
  } else if (const auto* number = node.as_floating_point()) {
    value.data = number->get();
  } else if (const auto* text = node.as_string()) {
    value.data = text->get();
  } else if (const auto* array = node.as_array()) {
    List list;
    for (const toml::node& item : *array) list.push_back(convert(item, name));
    value.data = std::move(list);
  } else if (const auto* table = node.as_table()) {
    Table entries;
    for (const auto& [key, item] : *table)
      entries.push_back(
          {.key = std::string(key.str()), .source = source_of(key.source(), name), .value = convert(item, name)});
    value.data = std::move(entries);
  } else {
    throw std::invalid_argument(
        fmt::format("[config] {}: an option must not be a date or a time", value.source.text()));
  }
  return value;
}

void take_source(Value& value, const Source& source) {
  value.source = source;
  if (auto* list = std::get_if<List>(&value.data))
    for (Value& item : *list) take_source(item, source);
  if (auto* table = std::get_if<Table>(&value.data)) {
    for (Entry& entry : *table) {
      entry.source = source;
      take_source(entry.value, source);
    }
  }
}

// toml++ quotes the text as it stands.
std::string in_one_line(std::string_view text) {
  std::string line(text);
  for (char& letter : line)
    if (static_cast<unsigned char>(letter) < ' ' || letter == 0x7F) letter = '?';
  return line;
}

}  // namespace

Value parse_toml(std::string_view text, const std::string& name) {
  try {
    Value root = convert(toml::parse(text, std::string_view(name)), name);
    root.source = {.kind = Source::Kind::kFile, .file = name};
    return root;
  } catch (const toml::parse_error& error) {
    throw std::invalid_argument(fmt::format("[config] {}: not valid TOML: {}", source_of(error.source(), name).text(),
                                            in_one_line(error.description())));
  }
}

Value read_toml_file(const std::string& path) {
  return parse_toml(storage::read_file(path), path);
}

std::optional<Value> parse_toml_value(std::string_view text, const Source& source) {
  try {
    const toml::table document = toml::parse(fmt::format("value = {}", text));
    if (document.size() != 1) return std::nullopt;
    Value value = convert(*document.get("value"), "");
    take_source(value, source);
    return value;
  } catch (const toml::parse_error&) {
    return std::nullopt;
  }
}

}  // namespace camber::config
