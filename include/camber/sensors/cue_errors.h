#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "camber/config/field.h"
#include "camber/random/stream.h"
#include "camber/sensors/cues.h"

namespace camber::sensors {

/// Cues of age above it are alarms.
constexpr double kAlarmAge = 0.5;

/// Faults of the cues themselves: how often they cry wolf, stay silent, or accuse the wrong sensor. LiDAR and the
/// cameras as a group each err on their own. Ages change, levels stay:
///
///   false_alarms   a sound sensor's age becomes 1, with this chance
///   misses         an alarm's age becomes 0
///   wrong_culprit  where one of the two alarms alone, the alarm goes to the other
///
/// With a burst of n frames errors begin at random and last n frames of their scene, with the same shares.
struct CueErrorOptions {
  double false_alarms = 0;
  double misses = 0;
  double wrong_culprit = 0;
  std::int64_t burst = 1;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("false_alarms", false_alarms, "chance that a sound sensor's cue of age becomes an alarm",
            config::Range{0, 1});
    visitor("misses", misses, "chance that an alarm is lost", config::Range{0, 1});
    visitor("wrong_culprit", wrong_culprit, "chance that a lone alarm accuses the other sensor", config::Range{0, 1});
    visitor("burst", burst, "frames that an error lasts", config::Range{1, 1000});
  }
  bool any() const { return false_alarms > 0 || misses > 0 || wrong_culprit > 0; }
  /// "none", or the form that parse_cue_errors reads: "false_alarms:0.1,misses:0.05".
  std::string text() const;
  bool operator==(const CueErrorOptions&) const = default;
};

/// One row of the only table of cue errors: parsing, help and documentation read it.
struct CueErrorRow {
  std::string_view name{};
  std::string_view parameter{};
  double CueErrorOptions::*chance = nullptr;  ///< none: how long errors last
  std::string_view meaning{};
};

std::span<const CueErrorRow> cue_error_table();
/// The table for the documentation.
std::string cue_error_table_markdown();
/// Whether a fault of this name ("misses", "misses:0.1") is one of the cues, and of no sensor.
bool is_cue_error(std::string_view name);

/// Refuses a list of faults ("frozen:4,misses:0.1") that names an error of the cues where there are no cues to err:
/// "[faults] --faults must be faults of sensors, got the cue error 'misses:0.1': a copy of a data set has no cues".
void refuse_cue_errors(std::string_view faults, const std::string& argument, const std::string& reason);

/// Reads a list such as "false_alarms:0.1,misses:0.1,burst:4"; "none" is no error. std::invalid_argument for anything
/// else, with the nearest known word.
CueErrorOptions parse_cue_errors(std::string_view text);

/// Lets the cues of one frame err, LiDAR first. `scene` is the stream of the frame's scene (and epoch), `frame` its
/// number in the scene: the same give the same errors. Sensors that say that they deliver nothing are left alone.
///
///   apply_cue_errors(cues, {.false_alarms = 0.1}, random::Stream(seed, "data.cue_errors").at(scene), frame);
void apply_cue_errors(std::vector<SensorCues>& cues, const CueErrorOptions& options, const random::Stream& scene,
                      std::int64_t frame);

}  // namespace camber::sensors
