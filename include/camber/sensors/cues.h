#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "camber/sensors/sensor_frame.h"

namespace camber::sensors {

/// Cheap evidence about one sensor from outside its content, for the router's trust.
struct SensorCues {
  double age = 0.5;   ///< 0 fresh, 1 stale, 0.5 not known: by time stamp and by lack of change
  double change = 1;  ///< change since its last reading over what its past and the car's motion let expect
  double level = 0;   ///< brightness or number of points over the running mean: -1 a quarter or less, +1 four times
  bool available = true;
};

/// What is kept of one sensor's reading to compute cues: a small image, or the occupancy of a coarse grid.
struct SensorSignature {
  bool available = false;
  std::int64_t timestamp = 0;
  double level = 0;                    ///< mean brightness, 0 to 255, or points of the key frame's sweep
  std::vector<std::uint16_t> cells{};  ///< cameras: 20 x 8 means of brightness; LiDAR: 24 x 24 cells of 2 m
};

/// All sensors at one key frame, the LiDAR first, and where the car was.
struct FrameSignature {
  std::int64_t timestamp = 0;
  geometry::RigidTransform ego_to_global{};
  std::vector<SensorSignature> sensors{};
};

FrameSignature signature_of(const SensorFrame& sensor_frame);

/// The cues of the newest sensor frame, from the sequence alone; `history` are the key frames before it, oldest first.
///
///   latency = |frame time - stated time|,    stamp = clamp((latency - 0.1 s) / (interval - 0.1 s), 0, 1),
///   motion  = metres + 10 * radians of the car since the frame before,
///   expected = median over the past of change_i / (motion_i + 0.5), times (motion + 0.5),
///   ratio   = change / expected,    still = clamp(1 - ratio / 0.5, 0, 1),
///   age     = max(stamp, still),    level = clamp(ln((x + e) / (mean + e)) / ln 4, -1, 1).
///
/// change is the mean absolute difference of the cells. A reading that repeats the last one bit for bit has still = 1
/// whatever the past; one that differs while nothing is known of the past has still = 0. Without any earlier reading
/// still is 0.5 and level 0. A brightness below one step of 255 and a cloud without a point have level -1 always. A
/// sensor that is not available has age 1 and level -1.
std::vector<SensorCues> cues_of(std::span<const FrameSignature> history, const FrameSignature& now);

/// How many earlier key frames cues_of looks at.
constexpr std::int64_t kCueHistory = 4;

/// Cues of a running sequence, in the order of time: of what comes now, by what was added before. A new scene begins
/// with reset(). detection::DetectorSession keeps one for whoever detects in a sequence.
class CueTracker {
 public:
  std::vector<SensorCues> cues(const FrameSignature& now) const { return cues_of(history_, now); }
  void add(FrameSignature now);
  /// The cues of the sensor frame; adds it.
  std::vector<SensorCues> next(const SensorFrame& sensor_frame);
  void reset() { history_.clear(); }
  /// The frames that count, oldest first: at most kCueHistory.
  std::span<const FrameSignature> history() const { return history_; }

 private:
  std::vector<FrameSignature> history_;
};

/// Cues of single key frames in any order: looks up what the sensors delivered before them. A sensor that repeats has
/// delivered the same for as long as its state says; before that, and for every other fault, its past is clean: the
/// fault sets in with the frame itself. Clean signatures are kept, so that each frame is read once. Thread-safe.
class CueMaker {
 public:
  CueMaker(const nuscenes::Dataset& dataset, FrameOptions options);
  ~CueMaker();
  std::vector<SensorCues> cues(const SensorFrame& sensor_frame);

 private:
  FrameSignature clean(nuscenes::Index sample);

  struct Store;
  const nuscenes::Dataset& dataset_;
  FrameOptions options_;
  std::unique_ptr<Store> store_;
};

}  // namespace camber::sensors
