#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <fmt/format.h>

#include "camber/config/description.h"
#include "camber/config/names.h"
#include "camber/config/numbers.h"
#include "camber/config/options.h"
#include "camber/config/renamed.h"

namespace camber::config {
namespace {

using Kind = Description::Kind;

std::string label(const Source& source, const std::string& path) {
  return source.kind == Source::Kind::kCommandLine ? "--" + path : path;
}

[[noreturn]] void refuse(const Value& value, const std::string& path, const Description& description,
                         const std::string& hint = "") {
  throw std::invalid_argument(fmt::format("[config] {}: {} must be {}, got {}{}", value.source.text(),
                                          label(value.source, path), allowed(description), value.quoted(), hint));
}

void collect_paths(const Description& table, const std::string& path, std::vector<std::string>& paths) {
  for (const Description& field : table.fields) {
    const std::string here = child_path(path, field.name);
    paths.push_back(here);
    if (field.kind == Kind::kTable) collect_paths(field, here, paths);
  }
}

// The same name in another table is nearer than a similar one in this.
std::string nearest_path(const std::string& key, const std::string& path, const Description& table,
                         const Description& root) {
  std::vector<std::string> everywhere, here;
  collect_paths(root, "", everywhere);
  const std::string suffix = "." + key;
  for (const std::string& known : everywhere)
    if (known == key || known.ends_with(suffix)) return known;
  for (const Description& field : table.fields) here.push_back(field.name);
  return child_path(path, nearest_name(key, here));
}

void refuse_renamed(const Entry& entry, const std::string& path, const Description& table) {
  const auto now = present_name(entry.key);
  const auto is_now = [now](const Description& field) { return field.name == *now; };
  if (!now || std::none_of(table.fields.begin(), table.fields.end(), is_now)) return;
  throw std::invalid_argument(fmt::format("[config] {}: {} is called {} now", entry.source.text(),
                                          label(entry.source, child_path(path, entry.key)),
                                          label(entry.source, child_path(path, std::string(*now)))));
}

std::string nearest_choice(const std::string& word, const Description& description) {
  if (const auto now = present_value(description.name, word)) return fmt::format("; it is called \"{}\" now", *now);
  return "; the nearest is " + nearest_name(word, description.choices);
}

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t length = lead < 0x80 ? 1 : lead >> 5 == 6 ? 2 : lead >> 4 == 14 ? 3 : lead >> 3 == 30 ? 4 : 0;
    if (length == 0 || i + length > text.size()) return false;
    for (std::size_t k = 1; k < length; ++k)
      if (static_cast<unsigned char>(text[i + k]) >> 6 != 2) return false;
    i += length;
  }
  return true;
}

class Checker {
 public:
  explicit Checker(const Description& root) : root_(root) {}

  void check(Value& value, const Description& description, const std::string& path) const {
    switch (description.kind) {
      case Kind::kTable:
        return check_table(value, description, path);
      case Kind::kList:
        return check_list(value, description, path);
      case Kind::kBoolean:
        return check_boolean(value, description, path);
      case Kind::kInteger:
        return check_integer(value, description, path);
      case Kind::kNumber:
        return check_number(value, description, path);
      case Kind::kString:
        return check_string(value, description, path);
      case Kind::kChoice:
        return check_choice(value, description, path);
    }
  }

 private:
  void check_table(Value& value, const Description& description, const std::string& path) const {
    auto* table = std::get_if<Table>(&value.data);
    if (table == nullptr) {
      const bool on_command_line = std::holds_alternative<Unparsed>(value.data) && !description.fields.empty();
      refuse(value, path, description,
             on_command_line
                 ? fmt::format("; set its parts, as in --{}=...", child_path(path, description.fields[0].name))
                 : "");
    }
    for (Entry& entry : *table) {
      const auto field = std::find_if(description.fields.begin(), description.fields.end(),
                                      [&](const Description& known) { return known.name == entry.key; });
      const std::string here = child_path(path, entry.key);
      if (field == description.fields.end()) {
        refuse_renamed(entry, path, description);
        throw std::invalid_argument(fmt::format("[config] {}: unknown option {}; the nearest known is {}",
                                                entry.source.text(), label(entry.source, here),
                                                nearest_path(entry.key, path, description, root_)));
      }
      check(entry.value, *field, here);
    }
  }

  void check_list(Value& value, const Description& description, const std::string& path) const {
    if (const auto* unparsed = std::get_if<Unparsed>(&value.data))
      value.data = split(*unparsed, value, description, path);
    auto* list = std::get_if<List>(&value.data);
    if (list == nullptr) refuse(value, path, description);
    for (std::size_t i = 0; i < list->size(); ++i)
      check((*list)[i], description.element[0], fmt::format("{}[{}]", path, i));
  }

  // `1,2,3` for simple elements, TOML's own notation for everything else.
  static List split(const Unparsed& unparsed, const Value& value, const Description& description,
                    const std::string& path) {
    if (unparsed.text.starts_with('[')) {
      const auto parsed = parse_toml_value(unparsed.text, value.source);
      if (!parsed || !std::holds_alternative<List>(parsed->data)) refuse(value, path, description);
      return std::get<List>(parsed->data);
    }
    const Kind kind = description.element[0].kind;
    if (kind == Kind::kTable || kind == Kind::kList)
      refuse(value, path, description, fmt::format("; write it as --{}=[...]", path));
    List list;
    for (std::size_t begin = 0; begin < unparsed.text.size();) {
      const std::size_t end = std::min(unparsed.text.find(',', begin), unparsed.text.size());
      list.push_back({.data = Unparsed{unparsed.text.substr(begin, end - begin)}, .source = value.source});
      begin = end + 1;
    }
    return list;
  }

  static void check_boolean(Value& value, const Description& description, const std::string& path) {
    if (const auto* unparsed = std::get_if<Unparsed>(&value.data)) {
      if (unparsed->text != "true" && unparsed->text != "false") refuse(value, path, description);
      value.data = unparsed->text == "true";
    }
    if (!std::holds_alternative<bool>(value.data)) refuse(value, path, description);
  }

  static void check_integer(Value& value, const Description& description, const std::string& path) {
    std::int64_t number = 0;
    if (const auto* unparsed = std::get_if<Unparsed>(&value.data)) {
      const auto read = read_integer(unparsed->text);
      if (!read) refuse(value, path, description);
      number = *read;
    } else if (const auto* integer = std::get_if<std::int64_t>(&value.data)) {
      number = *integer;
    } else {
      refuse(value, path, description);
    }
    Description tight = description;
    tight.range = {std::max(description.range.min, description.limits.min),
                   std::min(description.range.max, description.limits.max)};
    const auto real = static_cast<double>(number);
    if (real < description.range.min || real > description.range.max) refuse(value, path, description);
    if (real < tight.range.min || real > tight.range.max) refuse(value, path, tight);
    value.data = number;
  }

  static void check_number(Value& value, const Description& description, const std::string& path) {
    double number = 0;
    if (const auto* unparsed = std::get_if<Unparsed>(&value.data)) {
      const auto read = read_number(unparsed->text);
      if (!read) refuse(value, path, description);
      number = *read;
    } else if (const auto* real = std::get_if<double>(&value.data)) {
      number = *real;
    } else if (const auto* integer = std::get_if<std::int64_t>(&value.data)) {
      number = static_cast<double>(*integer);
    } else {
      refuse(value, path, description);
    }
    const bool inside = number >= description.range.min && number <= description.range.max;  // NaN lies nowhere
    if (!inside || !std::isfinite(number)) refuse(value, path, description);
    value.data = number;
  }

  static void check_string(Value& value, const Description& description, const std::string& path) {
    if (const auto* unparsed = std::get_if<Unparsed>(&value.data)) value.data = std::string(unparsed->text);
    const auto* text = std::get_if<std::string>(&value.data);
    if (text == nullptr) refuse(value, path, description);
    if (!is_utf8(*text))
      throw std::invalid_argument(fmt::format("[config] {}: {} must be UTF-8 text, got other bytes",
                                              value.source.text(), label(value.source, path)));
  }

  static void check_choice(Value& value, const Description& description, const std::string& path) {
    std::string word;
    if (const auto* unparsed = std::get_if<Unparsed>(&value.data))
      word = unparsed->text;
    else if (const auto* text = std::get_if<std::string>(&value.data))
      word = *text;
    else
      refuse(value, path, description);
    if (std::find(description.choices.begin(), description.choices.end(), word) == description.choices.end())
      refuse(value, path, description, nearest_choice(word, description));
    value.data = std::move(word);
  }

  const Description& root_;
};

std::string readable(double number) {
  std::string text = write_number(number);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

}  // namespace

std::string readable_range(const Range& range) {
  const bool below = std::isfinite(range.min), above = std::isfinite(range.max);
  if (below && above) return fmt::format("from {} to {}", readable(range.min), readable(range.max));
  if (below) return fmt::format("of at least {}", readable(range.min));
  if (above) return fmt::format("of at most {}", readable(range.max));
  return "";
}

std::string allowed(const Description& description) {
  const std::string limits = readable_range(description.range);
  const std::string tail = limits.empty() ? "" : " " + limits;
  switch (description.kind) {
    case Kind::kBoolean:
      return "true or false";
    case Kind::kInteger:
      return "a whole number" + tail;
    case Kind::kNumber:
      return "a number" + tail;
    case Kind::kString:
      return "a text";
    case Kind::kChoice:
      return join_names(description.choices);
    case Kind::kTable:
      return "a table";
    case Kind::kList:
      break;
  }
  return "a list, each element " + allowed(description.element[0]);
}

void check(Value& tree, const Description& description) {
  Checker(description).check(tree, description, "");
}

void detail::validate_at(const Value& value, const std::string& path, void (*validate)(const void*),
                         const void* options) {
  try {
    validate(options);
  } catch (const std::invalid_argument& error) {
    // Nothing of it was read from a file or an override: there is no place to name.
    if (value.source.kind == Source::Kind::kDefaults && path.empty()) throw;
    throw std::invalid_argument(
        fmt::format("[config] {}: {}{}{}", value.source.text(), path, path.empty() ? "" : ": ", error.what()));
  }
}

}  // namespace camber::config
