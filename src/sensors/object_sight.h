#pragma once
#include <array>
#include <string_view>
#include <vector>

#include "camber/sensors/frame.h"
#include "camber/sensors/gates.h"

namespace camber::sensors {

/// What the sensors deliver of one object, as features for probes.
struct ObjectSight {
  std::string_view category{};
  nuscenes::Index scene = nuscenes::kNone;
  std::int64_t points = 0;
  double pixels = 0, visible = 0, contrast = 0;
  std::array<float, 3> size{};
  std::array<float, 5> cloud{};  ///< empty (zeros) with fewer than 3 points
  std::array<float, 3> color{};
  std::vector<float> patch{};  ///< empty when the object is too small or no camera sees it whole

  bool lidar_well(const GateOptions& options) const { return points >= options.min_points; }
  bool camera_well(const GateOptions& options) const {
    return visible >= options.min_visible && pixels >= options.min_pixels && contrast >= options.min_contrast;
  }
};

/// The objects of a clean frame within `range`, with a point.
std::vector<ObjectSight> sights_of(const KeyFrame& frame, nuscenes::Index scene, double range);

}  // namespace camber::sensors
