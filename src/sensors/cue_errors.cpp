#include "camber/sensors/cue_errors.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>

#include "camber/config/names.h"
#include "sensors/text_parts.h"

namespace camber::sensors {
namespace {

constexpr CueErrorRow kCueErrors[] = {
    {"false_alarms", "chance a frame", &CueErrorOptions::false_alarms,
     "the age of a sound sensor becomes 1: an alarm about nothing"},
    {"misses", "chance a frame", &CueErrorOptions::misses,
     "the age of a sensor that alarms becomes 0: the alarm is lost"},
    {"wrong_culprit", "chance a frame", &CueErrorOptions::wrong_culprit,
     "where the LiDAR alarms alone, or the cameras do, the alarm goes to the other"},
    {"burst", "frames", nullptr, "beside the others: errors begin at random and last so long, at the same shares"},
};

const CueErrorRow& cue_error_named(std::string_view name) {
  std::vector<std::string> names;
  for (const CueErrorRow& row : kCueErrors) {
    if (row.name == name) return row;
    names.emplace_back(row.name);
  }
  throw std::invalid_argument("[cue errors] a name must be " + config::join_names(names) + ", got '" +
                              std::string(name) + "' (did you mean '" + config::nearest_name(name, names) + "'?)");
}

// Begun with chance p a frame and lasting n frames, an error holds with chance 1 - (1 - p)^n: the share. Frames before
// the scene's first count, so that its first frames err as often as the others.
bool errs(const random::Stream& stream, double share, std::int64_t burst, std::int64_t frame) {
  const double begins = share >= 1 ? 1 : 1 - std::pow(1 - share, 1 / static_cast<double>(burst));
  for (std::int64_t at = frame; at > frame - burst; --at)
    if (stream.at(static_cast<std::uint64_t>(at + burst)).uniform() < begins) return true;
  return false;
}

// The mean age of those that deliver; neutral of none.
double age_of(std::span<const SensorCues> group) {
  double sum = 0, count = 0;
  for (const SensorCues& cues : group) {
    if (!cues.available) continue;
    sum += cues.age;
    ++count;
  }
  return count == 0 ? kAlarmAge : sum / count;
}

void set_age(std::span<SensorCues> group, double age) {
  for (SensorCues& cues : group)
    if (cues.available) cues.age = age;
}

}  // namespace

std::span<const CueErrorRow> cue_error_table() {
  return kCueErrors;
}

std::string cue_error_table_markdown() {
  std::string text = "| cue error | parameter | what happens |\n|---|---|---|\n";
  for (const CueErrorRow& row : kCueErrors)
    text += fmt::format("| {} | {} | {} |\n", row.name, row.parameter, row.meaning);
  return text;
}

bool is_cue_error(std::string_view name) {
  const std::string_view word = name.substr(0, name.find(':'));
  return std::any_of(std::begin(kCueErrors), std::end(kCueErrors),
                     [word](const auto& row) { return row.name == word; });
}

void refuse_cue_errors(std::string_view faults, const std::string& argument, const std::string& reason) {
  for (const std::string_view fault : parts_of(faults, ','))
    if (is_cue_error(fault))
      throw std::invalid_argument(
          fmt::format("{} must be faults of sensors, got the cue error '{}': {}", argument, fault, reason));
}

std::string CueErrorOptions::text() const {
  if (!any()) return "none";
  std::ostringstream text;
  for (const CueErrorRow& row : kCueErrors)
    if (row.chance != nullptr && this->*row.chance > 0)
      text << (text.tellp() > 0 ? "," : "") << row.name << ":" << this->*row.chance;
  if (burst > 1) text << ",burst:" << burst;
  return text.str();
}

CueErrorOptions parse_cue_errors(std::string_view text) {
  CueErrorOptions options;
  if (text.empty() || text == "none") return options;
  for (const std::string_view part : parts_of(text, ',')) {
    const std::size_t colon = std::min(part.find(':'), part.size());
    const CueErrorRow& row = cue_error_named(part.substr(0, colon));
    const std::string_view value = part.substr(std::min(colon + 1, part.size()));
    double number = 0;
    const auto [last, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    const bool whole = error == std::errc() && last == value.data() + value.size();
    const bool fits = row.chance != nullptr ? number >= 0 && number <= 1
                                            : number >= 1 && number <= 1000 && number == std::floor(number);
    if (!whole || !fits)
      throw std::invalid_argument(
          "[cue errors] " + std::string(row.name) + " must be " +
          (row.chance == nullptr ? "a whole number of frames from 1 to 1000" : "a share from 0 to 1") + ", got '" +
          std::string(value) + "'");
    if (row.chance == nullptr)
      options.burst = static_cast<std::int64_t>(number);
    else
      options.*row.chance = number;
  }
  return options;
}

void apply_cue_errors(std::vector<SensorCues>& cues, const CueErrorOptions& options, const random::Stream& scene,
                      std::int64_t frame) {
  if (cues.size() < 2 || !options.any()) return;
  const std::array<std::span<SensorCues>, 2> groups = {std::span(cues).first(1), std::span(cues).subspan(1)};
  std::array<bool, 2> alarms{};
  for (std::size_t i = 0; i < 2; ++i) alarms[i] = age_of(groups[i]) > kAlarmAge;
  if (alarms[0] != alarms[1] && errs(scene.at("wrong_culprit"), options.wrong_culprit, options.burst, frame)) {
    for (std::size_t i = 0; i < 2; ++i) set_age(groups[i], alarms[i] ? 0 : 1);
    return;
  }
  const std::array<const char*, 2> names = {"lidar", "cameras"};
  for (std::size_t i = 0; i < 2; ++i) {
    const auto own = scene.at(names[i]);
    if (alarms[i] ? errs(own.at("miss"), options.misses, options.burst, frame)
                  : errs(own.at("false_alarm"), options.false_alarms, options.burst, frame))
      set_age(groups[i], alarms[i] ? 0 : 1);
  }
}

}  // namespace camber::sensors
