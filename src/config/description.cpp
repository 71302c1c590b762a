#include "camber/config/description.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "camber/config/names.h"

namespace camber::config {
namespace {

using Kind = Description::Kind;

constexpr std::size_t kCommentColumn = 40;

bool is_list_of_tables(const Description& field) {
  return field.kind == Kind::kList && field.element[0].kind == Kind::kTable;
}

std::string type_name(const Description& field, bool plural = false) {
  switch (field.kind) {
    case Kind::kBoolean:
      return "true|false";
    case Kind::kInteger:
      return plural ? "whole numbers" : "whole number";
    case Kind::kNumber:
      return plural ? "numbers" : "number";
    case Kind::kString:
      return plural ? "texts" : "text";
    case Kind::kChoice:
      return fmt::format("{}", fmt::join(field.choices, "|"));
    case Kind::kTable:
      return plural ? "tables" : "table";
    case Kind::kList:
      break;
  }
  return (plural ? "lists of " : "list of ") + type_name(field.element[0], true);
}

std::string limits_of(const Description& field) {
  if (field.kind == Kind::kList) return limits_of(field.element[0]);
  if (field.kind == Kind::kChoice) return join_names(field.choices);
  const std::string text = readable_range(field.range);
  return text.starts_with("of ") ? text.substr(3) : text;
}

std::string comment(const Description& field) {
  const std::string limits = limits_of(field);
  std::string names;
  if (is_list_of_tables(field))
    for (const Description& part : field.element[0].fields)
      names += (names.empty() ? "tables with " : ", ") + part.name;
  std::string text = field.meaning;
  if (!limits.empty()) text += " (" + limits + ")";
  if (!names.empty()) text += " (" + names + ")";
  return text;
}

// TOML wants a table's plain keys before its tables.
void write_table(const Description& table, const std::string& path, std::string& text) {
  const auto is_block = [](const Description& field) {
    return field.kind == Kind::kTable || (is_list_of_tables(field) && !field.fields.empty());
  };
  std::size_t column = 0;
  std::map<const Description*, std::string> settings;
  for (const Description& field : table.fields) {
    if (is_block(field)) continue;
    std::string setting = field.name + " = " + write_toml_value(to_value(field));
    if (setting.size() <= kCommentColumn) column = std::max(column, setting.size());
    settings[&field] = std::move(setting);
  }
  for (const Description& field : table.fields) {
    if (is_block(field)) continue;
    const std::string& setting = settings[&field];
    if (setting.size() > kCommentColumn)
      text += fmt::format("# {}\n{}\n", comment(field), setting);
    else
      text += fmt::format("{:<{}}  # {}\n", setting, column, comment(field));
  }
  for (const Description& field : table.fields) {
    if (!is_block(field)) continue;
    const std::string here = child_path(path, field.name);
    if (field.kind == Kind::kTable) {
      text += fmt::format("{}[{}]  # {}\n", text.empty() ? "" : "\n", here, field.meaning);
      write_table(field, here, text);
    } else {
      for (const Description& element : field.fields) {
        text += fmt::format("{}[[{}]]  # {}\n", text.empty() ? "" : "\n", here, field.meaning);
        write_table(element, here, text);
      }
    }
  }
}

OptionRow preset_row(const Description& table, const std::string& path) {
  std::vector<std::string> names, fields;
  for (const Preset& preset : table.presets) names.push_back(preset.name);
  for (const Entry& entry : table.presets[0].values) fields.push_back(entry.key);
  return {.path = child_path(path, "preset"),
          .type = fmt::format("{}", fmt::join(names, "|")),
          .standard = "",
          .limits = "",
          .meaning = fmt::format("a named choice of {}; one of these written beside it, or later, wins over it",
                                 fmt::join(fields, ", "))};
}

void add_rows(const Description& table, const std::string& path, std::vector<OptionRow>& rows) {
  if (!table.presets.empty()) rows.push_back(preset_row(table, path));
  for (const Description& field : table.fields) {
    const std::string here = child_path(path, field.name);
    if (field.kind == Kind::kTable) {
      add_rows(field, here, rows);
      continue;
    }
    rows.push_back({.path = here,
                    .type = type_name(field),
                    .standard = write_toml_value(to_value(field)),
                    .limits = field.kind == Kind::kChoice ? "" : limits_of(field),
                    .meaning = field.meaning});
    if (is_list_of_tables(field)) add_rows(field.element[0], here + "[]", rows);
  }
}

std::string escape_cell(std::string text) {
  for (std::size_t at = text.find('|'); at != std::string::npos; at = text.find('|', at + 2)) text.insert(at, "\\");
  return text;
}

}  // namespace

Value to_value(const Description& description) {
  Value value = description.value;
  if (description.kind == Kind::kTable) {
    Table table;
    for (const Description& field : description.fields) {
      Entry& entry = table.emplace_back();
      entry.key = field.name;
      entry.value = to_value(field);
    }
    value.data = std::move(table);
  } else if (description.kind == Kind::kList) {
    List list;
    for (const Description& element : description.fields) list.push_back(to_value(element));
    value.data = std::move(list);
  }
  return value;
}

std::vector<OptionRow> option_rows(const Description& description) {
  std::vector<OptionRow> rows;
  add_rows(description, "", rows);
  return rows;
}

std::string write_toml(const Description& description) {
  std::string text;
  write_table(description, "", text);
  return text;
}

std::string write_markdown(const Description& description) {
  std::string text = "| option | type | default | allowed | meaning |\n|---|---|---|---|---|\n";
  for (const OptionRow& row : option_rows(description))
    text += fmt::format("| `{}` | {} | `{}` | {} | {} |\n", row.path, escape_cell(row.type), escape_cell(row.standard),
                        row.limits, escape_cell(row.meaning));
  return text;
}

std::vector<Difference> differences(const Description& first, const Description& second) {
  std::vector<Difference> found;
  const auto first_rows = option_rows(first), second_rows = option_rows(second);
  for (std::size_t i = 0; i < first_rows.size(); ++i)
    if (first_rows[i].standard != second_rows.at(i).standard)
      found.push_back({.path = first_rows[i].path, .first = first_rows[i].standard, .second = second_rows[i].standard});
  return found;
}

}  // namespace camber::config
