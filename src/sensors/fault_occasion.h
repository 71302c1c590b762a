#pragma once
#include <span>

#include "camber/geometry/camera.h"
#include "camber/nuscenes/dataset.h"
#include "camber/sensors/fault.h"

namespace camber::sensors {

/// One fault at one key frame, and the draws that belong to it.
struct FaultOccasion {
  const nuscenes::Dataset& dataset;
  std::span<const nuscenes::Index> pool;  ///< where other scenes are taken from
  Fault fault;
  nuscenes::Index sample;
  random::Stream scene;  ///< draws that stay the same over a scene
  random::Stream frame;

  /// `position` is the fault's number in the list of those that happen together.
  FaultOccasion(const nuscenes::Dataset& dataset, std::span<const nuscenes::Index> pool, const Fault& fault,
                std::size_t position, nuscenes::Index sample, const random::Stream& stream);
};

/// The key frame that a repeating fault delivers again.
struct Repeated {
  nuscenes::Index sample = nuscenes::kNone;
  std::int64_t held = 0;
  bool other_scene = false;
};
Repeated frame_to_repeat(const FaultOccasion& occasion);

/// The stated quality of the fault's sensor; 0 for what comes from another scene.
double stated_quality(const Fault& fault, bool other_scene = false);

/// Where the calibration of a camera believes it to be after the fault: turned about its own vertical axis.
geometry::RigidTransform believed_mount(const FaultOccasion& occasion, const geometry::RigidTransform& camera_to_ego,
                                        std::size_t camera);

}  // namespace camber::sensors
