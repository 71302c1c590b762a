#include "camber/sensors/cue_errors.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>
#include <sstream>
#include <stdexcept>

#include "camber/config/names.h"

namespace camber::sensors {
namespace {

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

std::string CueErrorOptions::text() const {
  if (!any()) return "none";
  std::ostringstream text;
  const auto add = [&text](const char* name, double value) {
    if (value > 0) text << (text.tellp() > 0 ? "," : "") << name << ":" << value;
  };
  add("false_alarms", false_alarms);
  add("misses", misses);
  add("wrong_culprit", wrong_culprit);
  if (burst > 1) text << ",burst:" << burst;
  return text.str();
}

CueErrorOptions parse_cue_errors(std::string_view text) {
  CueErrorOptions options;
  if (text.empty() || text == "none") return options;
  const std::vector<std::string> names = {"false_alarms", "misses", "wrong_culprit", "burst"};
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string part(text.substr(begin, end - begin));
    begin = end + 1;
    const std::size_t colon = part.find(':');
    const std::string name = part.substr(0, colon), value = colon == std::string::npos ? "" : part.substr(colon + 1);
    double number = 0;
    const auto [last, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    const bool whole = error == std::errc() && last == value.data() + value.size() && !value.empty();
    if (std::find(names.begin(), names.end(), name) == names.end())
      throw std::invalid_argument("[cue errors] a name must be " + config::join_names(names) + ", got '" + name +
                                  "' (did you mean '" + config::nearest_name(name, names) + "'?)");
    const bool is_burst = name == "burst";
    if (!whole ||
        (is_burst ? !(number >= 1 && number <= 1000 && number == std::floor(number)) : !(number >= 0 && number <= 1)))
      throw std::invalid_argument("[cue errors] " + name + " must be " +
                                  (is_burst ? "a whole number of frames from 1 to 1000" : "a share from 0 to 1") +
                                  ", got '" + value + "'");
    if (is_burst)
      options.burst = static_cast<std::int64_t>(number);
    else
      (name == "false_alarms" ? options.false_alarms
       : name == "misses"     ? options.misses
                              : options.wrong_culprit) = number;
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
