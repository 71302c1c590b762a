#pragma once
#include <span>

#include "camber/data/dataset.h"
#include "camber/data/fault.h"
#include "camber/geometry/camera.h"

namespace camber::data {

/// One fault at one key frame, and the draws that belong to it.
struct FaultOccasion {
  const Dataset& dataset;
  std::span<const Index> pool;  ///< where other scenes are taken from
  Fault fault;
  Index sample;
  random::Stream scene;  ///< draws that stay the same over a scene
  random::Stream frame;

  /// `position` is the fault's number in the list of those that happen together.
  FaultOccasion(const Dataset& dataset, std::span<const Index> pool, const Fault& fault, std::size_t position,
                Index sample, const random::Stream& stream);
};

/// The key frame that a repeating fault delivers again.
struct Repeated {
  Index sample = kNone;
  std::int64_t held = 0;
  bool other_scene = false;
};
Repeated frame_to_repeat(const FaultOccasion& occasion);

/// The stated quality of the fault's sensor; 0 for what comes from another scene.
double stated_quality(const Fault& fault, bool other_scene = false);

/// Where the calibration of a camera believes it to be after the fault: turned about its own vertical axis.
geometry::RigidTransform believed_mount(const FaultOccasion& occasion, const geometry::RigidTransform& camera_to_ego,
                                        std::size_t camera);

}  // namespace camber::data
