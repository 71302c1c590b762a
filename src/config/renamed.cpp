#include "camber/config/renamed.h"

#include <algorithm>
#include <array>

namespace camber::config {
namespace {

struct RenamedOption {
  std::string_view before, now;
};

constexpr std::array kOptions = {
    RenamedOption{"picture", "image"},
    RenamedOption{"pictures", "images"},
    RenamedOption{"picture_width", "image_width"},
    RenamedOption{"picture_height", "image_height"},
    RenamedOption{"picture_noise", "image_noise"},
    RenamedOption{"picture_flip", "image_flip"},
    RenamedOption{"picture_rotation", "image_rotation"},
    RenamedOption{"picture_scale_min", "image_scale_min"},
    RenamedOption{"picture_scale_max", "image_scale_max"},
    RenamedOption{"lying_share", "false_timestamp_share"},
};

struct RenamedValue {
  std::string_view option, before, now;
};

constexpr std::array kValues = {
    RenamedValue{"query_start", "place", "position"},
    RenamedValue{"kind", "picture_folders", "image_folders"},
};

constexpr std::array kConditionParts = {RenamedOption{":lying", ":false_timestamps"},
                                        RenamedOption{":honest", ":true_timestamps"}};

void translate(Value& value, std::string_view option) {
  if (auto* table = std::get_if<Table>(&value.data)) {
    for (Entry& entry : *table) {
      if (const auto now = present_name(entry.key)) entry.key = *now;
      translate(entry.value, entry.key);
    }
  } else if (auto* list = std::get_if<List>(&value.data)) {
    for (Value& element : *list) translate(element, option);
  } else if (auto* text = std::get_if<std::string>(&value.data)) {
    if (const auto now = present_value(option, *text)) *text = *now;
    *text = present_condition(*text);
  }
}

}  // namespace

std::optional<std::string_view> present_name(std::string_view option) {
  const auto* found = std::find_if(kOptions.begin(), kOptions.end(),
                                   [option](const RenamedOption& known) { return known.before == option; });
  return found == kOptions.end() ? std::nullopt : std::optional(found->now);
}

std::optional<std::string_view> present_value(std::string_view option, std::string_view value) {
  const auto* found = std::find_if(kValues.begin(), kValues.end(), [option, value](const RenamedValue& known) {
    return known.option == option && known.before == value;
  });
  return found == kValues.end() ? std::nullopt : std::optional(found->now);
}

std::string present_condition(std::string_view condition) {
  std::string text(condition);
  for (const auto& [before, now] : kConditionParts)
    for (std::size_t at = text.find(before); at != std::string::npos; at = text.find(before, at + 1))
      text.replace(at, before.size(), now);
  return text;
}

std::string present_metric(std::string_view metric) {
  constexpr std::string_view kBefore = "lean/";
  if (!metric.starts_with(kBefore)) return std::string(metric);
  return "effective_bias/" + std::string(metric.substr(kBefore.size()));
}

void translate_stored(Value& tree) {
  translate(tree, "");
}

}  // namespace camber::config
