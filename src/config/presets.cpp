#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "camber/config/description.h"
#include "camber/config/names.h"
#include "camber/config/options.h"

namespace camber::config {
namespace {

constexpr const char* kPreset = "preset";

[[noreturn]] void refuse_preset(const Value& value, const std::string& path, const std::vector<Preset>& presets) {
  std::vector<std::string> names;
  names.reserve(presets.size());
  for (const Preset& preset : presets) names.push_back(preset.name);
  throw std::invalid_argument(fmt::format("[config] {}: {}{} must be {}, got {}", value.source.text(),
                                          value.source.kind == Source::Kind::kCommandLine ? "--" : "",
                                          child_path(path, kPreset), join_names(names), value.quoted()));
}

const Preset& preset_named_by(const Value& value, const std::string& path, const std::vector<Preset>& presets) {
  const auto* text = std::get_if<std::string>(&value.data);
  if (const auto* unparsed = std::get_if<Unparsed>(&value.data)) text = &unparsed->text;
  const auto found = std::find_if(presets.begin(), presets.end(),
                                  [text](const Preset& preset) { return text != nullptr && preset.name == *text; });
  if (found == presets.end()) refuse_preset(value, path, presets);
  return *found;
}

// Defaults, then the file, then the command line: what is written at the same level as the preset stays.
void put_values(Table& table, const Preset& preset, const Source& source) {
  for (const Entry& given : preset.values) {
    Entry* entry = find(table, given.key);
    if (entry == nullptr)
      entry = &table.emplace_back(given);
    else if (entry->value.source.kind >= source.kind)
      continue;
    entry->value = given.value;
    entry->value.source = source;
  }
}

void apply_presets_at(Value& value, const Description& description, const std::string& path) {
  if (auto* list = std::get_if<List>(&value.data); list != nullptr && description.kind == Description::Kind::kList) {
    for (std::size_t i = 0; i < list->size(); ++i)
      apply_presets_at((*list)[i], description.element[0], fmt::format("{}[{}]", path, i));
    return;
  }
  auto* table = std::get_if<Table>(&value.data);
  if (table == nullptr || description.kind != Description::Kind::kTable) return;  // check() says what is wrong
  if (const Entry* named = find(*table, kPreset); named != nullptr && !description.presets.empty()) {
    const Value name = named->value;
    put_values(*table, preset_named_by(name, path, description.presets), name.source);
    std::erase_if(*table, [](const Entry& entry) { return entry.key == kPreset; });
  }
  for (const Description& field : description.fields)
    if (Entry* entry = find(*table, field.name)) apply_presets_at(entry->value, field, child_path(path, field.name));
}

}  // namespace

void apply_presets(Value& tree, const Description& description) {
  apply_presets_at(tree, description, "");
}

std::vector<Preset> detail::differing_fields(
    const std::vector<std::pair<std::string, std::vector<Description>>>& presets,
    const std::vector<Description>& defaults) {
  std::vector<Preset> result;
  result.reserve(presets.size());
  for (const auto& [name, fields] : presets) result.push_back({.name = name, .values = {}});
  for (std::size_t i = 0; i < defaults.size(); ++i) {
    const std::string standard = write_toml_value(to_value(defaults[i]));
    const bool differs = std::any_of(presets.begin(), presets.end(), [&](const auto& preset) {
      return write_toml_value(to_value(preset.second[i])) != standard;
    });
    for (std::size_t p = 0; differs && p < presets.size(); ++p)
      result[p].values.push_back({.key = defaults[i].name, .source = {}, .value = to_value(presets[p].second[i])});
  }
  return result;
}

}  // namespace camber::config
