#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "camber/sensors/fault.h"
#include "camber/sensors/frame.h"

namespace camber::sensors {

/// Points that are at most this old belong to the key frame's own sweep, in seconds.
constexpr float kKeySweepLag = 0.02F;

/// What a sensor says of itself at a key frame, and what is true of it.
struct SensorState {
  bool available = true;       ///< it says that it delivers
  std::int64_t timestamp = 0;  ///< as stated, microseconds
  double quality = 1;          ///< true, for labels alone: the fault's stated quality q, 1 when it is sound
  nuscenes::Index source = nuscenes::kNone;  ///< true: the sample whose reading it repeats; nuscenes::kNone: its own
  std::int64_t held = 0;                     ///< true: key frames before this one at which it delivered the same
};

/// A key frame as the sensors delivered it. The objects are the clean ones, whatever happened to the sensors.
struct SensorFrame {
  KeyFrame frame{};
  std::vector<SensorState> sensors{};  ///< the LiDAR (all of them merged), then the cameras in the frame's order
  std::vector<Fault> faults{};
};

/// The key frame without any fault.
SensorFrame clean_sensor_frame(KeyFrame frame);

/// Loads a key frame and lets the faults happen to it, one after the other.
///
/// - Faults that repeat (frozen, stale) take another frame's image or cloud as it is: it is paired with this frame's
///   calibration and pose, as a pipeline does that believes in its sensors. True timestamps tell its age, false ones
///   are this frame's. The sensor has delivered the same for as many key frames as its severity says (as many as the
///   scene has so far); a scene's first frame, which has no past, takes another scene's.
/// - Which cameras fail, where a shift points and how a camera is turned is drawn once a scene; the rest once a frame.
/// - Objects, their boxes and point counts stay those of the clean data.
///
/// `pool` are the samples from which other scenes are taken: the split's, so that nothing leaks between splits. The
/// same stream gives the same bytes.
///
///   const SensorFrame sensor_frame = load_sensor_frame(dataset, sample, options, {{parse_fault("frozen:3")}},
///                                                      split.samples, random::Stream(seed, "faults"));
SensorFrame load_sensor_frame(const nuscenes::Dataset& dataset, nuscenes::Index sample, const FrameOptions& options,
                              std::span<const Fault> faults, std::span<const nuscenes::Index> pool,
                              const random::Stream& stream);

/// Throws what load_sensor_frame would throw for one of the samples for want of a frame to repeat or of cameras; reads
/// no file.
void check_faults(const nuscenes::Dataset& dataset, std::span<const nuscenes::Index> samples,
                  std::span<const Fault> faults, std::span<const nuscenes::Index> pool, const random::Stream& stream);

/// What the labels of trust say of one object: 2 * min(1, ln(1 + n) / ln(21)) - 1 for the LiDAR, n the points of the
/// key frame's sweep inside its box after the fault, less where the stated quality is lower (the first factor times q);
/// 2 * v * q - 1 for the cameras, v the visible share and q the best quality among the available cameras that see its
/// centre, v = 0 when there is none.
struct TrustLabel {
  double lidar = -1, camera = -1;
};
std::vector<TrustLabel> trust_labels(const SensorFrame& sensor_frame);

}  // namespace camber::sensors
