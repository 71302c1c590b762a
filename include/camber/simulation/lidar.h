#pragma once
#include <cstdint>
#include <vector>

#include "camber/simulation/rig.h"
#include "camber/simulation/scene.h"

namespace camber::simulation {

/// One return in the LiDAR's frame. `actor` says what was met: an index into Scene::actors, or -1 for the ground.
struct LidarReturn {
  float x = 0, y = 0, z = 0;
  float intensity = 0;  ///< 0 to 255
  std::int32_t ring = 0;
  std::int32_t actor = -1;
};

/// One sweep, ray-cast at one instant: nearest solid or the ground within max_range, range noise along the ray,
/// returns lost by material (glass 60 %, leaves 30 %, else `drop_out`).
///
/// A dark actor keeps 1 to 4 of its returns in a key frame's sweep and at most one in the others. In a key frame an
/// actor that is in sight but slips between the rays gives one glancing return, as a beam of finite width would: the
/// metric drops objects without any point.
std::vector<LidarReturn> sweep(const Scene& scene, const LidarOptions& lidar, double seconds, bool key_frame,
                               const random::Stream& stream);

}  // namespace camber::simulation
