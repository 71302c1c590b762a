#pragma once
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "camber/geometry/transform.h"
#include "camber/nuscenes/dataset.h"

namespace camber::sensors {

/// One LiDAR return: metres in its frame, intensity 0..255, the ring of the laser, and how long before the key frame it
/// was taken, in seconds.
struct LidarPoint {
  float x = 0, y = 0, z = 0;
  float intensity = 0;
  float ring = 0;
  float time_lag = 0;
  bool operator==(const LidarPoint&) const = default;
};

/// Reads a .pcd.bin file: x, y, z, intensity, ring as little-endian float32, 20 bytes a point. A file of another length
/// is refused. An empty file is an empty cloud. Points whose coordinates are not finite are left out, and counted in
/// `left_out` where it is given.
std::vector<LidarPoint> read_lidar_file(const std::filesystem::path& path, std::int64_t* left_out = nullptr);

/// What is rounded on a point's way into the reference frame. once: coordinates after the whole transform, the lag as
/// the difference of 1e-6 * timestamp, as in the devkit. mmdet3d: coordinates after the turn and again after the shift,
/// the lag as the difference of timestamp / 1e6, as in the pipeline with which CMT was trained.
enum class SweepArithmetic { kOnce, kMmdet3d };

/// How earlier sweeps join the key frame.
struct SweepOptions {
  std::int64_t previous = 10;     ///< sweeps before the key frame; fewer are taken where the scene begins
  double minimum_distance = 1;    ///< metres; points with |x| and |y| below it are the car itself
  bool filter_key_frame = false;  ///< whether minimum_distance applies to the key frame too (as in the devkit)
  /// Where a channel has no sweep before the key frame, the key frame stands for each of them (mmdet3d's
  /// pad_empty_sweeps), its points cut by minimum_distance.
  bool repeat_key_frame = false;
  SweepArithmetic arithmetic = SweepArithmetic::kOnce;
};

/// The clouds of several LiDARs, key frame and previous sweeps, in the frame of the reference sensor at its key frame:
///
///   p' = inverse(reference to global) * (sweep's own sensor to global) * p,   time_lag = t_reference - t_sweep,
///
/// rounded as options.arithmetic says. Order: channel by channel, the newest sweep first. A channel that delivered
/// nothing at this sample adds nothing.
std::vector<LidarPoint> aggregate_sweeps(const nuscenes::Dataset& dataset, nuscenes::Index sample,
                                         const std::vector<std::string>& channels, const std::string& reference_channel,
                                         const SweepOptions& options = {});

/// The space that a detector looks at, in metres; its borders belong to it.
struct PointRange {
  double x_min = -51.2, x_max = 51.2;
  double y_min = -51.2, y_max = 51.2;
  double z_min = -5, z_max = 3;

  /// So far out that only points that are no numbers lie outside.
  static PointRange everywhere() {
    constexpr double kFar = 1e9;
    return {-kFar, kFar, -kFar, kFar, -kFar, kFar};
  }
  bool contains(const LidarPoint& point) const {
    return point.x >= x_min && point.x <= x_max && point.y >= y_min && point.y <= y_max && point.z >= z_min &&
           point.z <= z_max;
  }
  void validate() const;
};

/// Drops the points outside of the range, and those that are not numbers; keeps the order.
void keep_range(std::vector<LidarPoint>& points, const PointRange& range);

}  // namespace camber::sensors
