#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "camber/config/field.h"
#include "camber/random/stream.h"

namespace camber::sensors {

/// What can go wrong with a sensor. The off-faults are known: availability says so. All others are silent: the sensor
/// claims to work.
enum class FaultKind : std::uint8_t {
  kLidarOff,
  kCamerasOff,
  kCameraOff,
  kBlack,
  kEmpty,
  kFrozen,
  kStale,
  kDark,
  kNoise,
  kBlur,
  kRain,
  kGhost,
  kBeams,
  kLimitedView,
  kDroppedObjects,
  kDroppedPoints,
  kShift,
  kCalibration
};

/// Where a frozen camera's image or a stale LiDAR's cloud comes from. `mixed` draws one of the other two.
enum class FaultSource : std::uint8_t { kMixed, kEarlier, kOtherScene };

constexpr int kSeverities = 5;
/// The parameter of faults whose severity says how many cameras they befall.
constexpr std::string_view kShareOfCameras = "share of cameras";

/// One row of the only table of faults: code, help and documentation read it.
struct FaultRow {
  FaultKind kind{};
  std::string_view name{};
  std::string_view sensor{};  ///< "LiDAR" or "cameras"
  bool known = false;
  std::string_view parameter{};               ///< what the five numbers are
  std::array<double, kSeverities> value{};    ///< by severity
  std::array<double, kSeverities> quality{};  ///< stated quality q by severity
  std::string_view meaning{};
};

std::span<const FaultRow> fault_table();
const FaultRow& fault_row(FaultKind kind);
/// The table for the documentation.
std::string fault_table_markdown();

/// One fault as it is applied: "frozen", "frozen:4", "frozen:4:other_scene:false_timestamps", "stale:2:earlier",
/// "frozen:5:cameras=2".
struct Fault {
  FaultKind kind = FaultKind::kLidarOff;
  int severity = 3;
  FaultSource source = FaultSource::kMixed;
  bool false_timestamps = false;  ///< frozen and stale only: the time stamp claims that the reading is fresh
  /// How many cameras it befalls, drawn once a scene: fewer are among those that more would be. 0: all, or the share
  /// that the table gives.
  int cameras = 0;

  bool is_lidar() const { return fault_row(kind).sensor == "LiDAR"; }
  /// Whether it repeats an old reading.
  bool repeats() const { return kind == FaultKind::kFrozen || kind == FaultKind::kStale; }
  /// Whether it may befall a given number of cameras: all cameras suffer it unless told otherwise.
  bool counts_cameras() const { return !is_lidar() && fault_row(kind).parameter != kShareOfCameras; }
  double value() const { return fault_row(kind).value[static_cast<std::size_t>(severity - 1)]; }
  /// The one form in which faults are printed: kind and severity; source, false timestamps and the number of cameras
  /// where they are not the default.
  std::string text() const;
  bool operator==(const Fault&) const = default;
};

/// Reads the form above; refuses unknown words with the nearest known one.
Fault parse_fault(std::string_view text);
/// A comma-separated list; "none" is empty, "all" every fault of the table at the severity of `standard`.
std::vector<Fault> parse_faults(std::string_view text, int standard = 3);

/// Refuses faults that cannot befall one frame together: the same kind twice, or one that leaves nothing of its sensor
/// (off, black, empty) beside another of the same sensor.
void check_together(std::span<const Fault> faults);

/// Which faults training meets, drawn per sample.
struct FaultOptions {
  double share = 0.5;
  std::vector<std::string> kinds = {"lidar_off", "cameras_off", "camera_off", "black", "empty",       "frozen",
                                    "stale",     "ghost",       "dark",       "beams", "limited_view"};
  std::vector<double> weights = {};
  std::int64_t min_severity = 1, max_severity = 3;
  double other_scene_share = 0.5;
  double false_timestamp_share = 0;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("share", share, "share of samples with a fault", config::Range{0, 1});
    visitor("kinds", kinds, "the faults to draw from");
    visitor("weights", weights, "their weights; empty: all alike");
    visitor("min_severity", min_severity, "mildest severity", config::Range{1, kSeverities});
    visitor("max_severity", max_severity, "gravest severity", config::Range{1, kSeverities});
    visitor("other_scene_share", other_scene_share, "share of frozen and stale ones that come from another scene",
            config::Range{0, 1});
    visitor("false_timestamp_share", false_timestamp_share, "share of frozen and stale ones with false timestamps",
            config::Range{0, 1});
  }
  /// Refuses unknown kinds and lists of unequal length.
  void validate() const;
};

/// The faults of one sample: none or one. The same stream draws the same.
std::vector<Fault> draw_faults(const FaultOptions& options, random::Stream stream);

}  // namespace camber::sensors

template <>
inline constexpr auto camber::config::enum_names<camber::sensors::FaultSource> =
    std::array{std::pair{camber::sensors::FaultSource::kMixed, std::string_view("mixed")},
               std::pair{camber::sensors::FaultSource::kEarlier, std::string_view("earlier")},
               std::pair{camber::sensors::FaultSource::kOtherScene, std::string_view("other_scene")}};
