#include "camber/sensors/points.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "camber/storage/file.h"

namespace camber::sensors {
namespace {

constexpr std::size_t kPointBytes = 20;
static_assert(std::endian::native == std::endian::little, "point files are little-endian");

bool is_near(const LidarPoint& point, double distance) {
  return std::abs(point.x) < distance && std::abs(point.y) < distance;
}

// Moves the points of one sweep into the reference frame; double in between, because poses are kilometres long.
void append_sweep(const std::vector<LidarPoint>& sweep, const geometry::RigidTransform& to_reference, double time_lag,
                  double minimum_distance, SweepArithmetic arithmetic, std::vector<LidarPoint>& points) {
  const bool twice = arithmetic == SweepArithmetic::kMmdet3d;
  for (LidarPoint point : sweep) {
    if (is_near(point, minimum_distance)) continue;
    geometry::Vector3 moved = to_reference.rotate({point.x, point.y, point.z});
    for (std::size_t i = 0; i < 3; ++i)
      moved[i] = (twice ? static_cast<float>(moved[i]) : moved[i]) + to_reference.translation[i];
    point.x = static_cast<float>(moved[0]);
    point.y = static_cast<float>(moved[1]);
    point.z = static_cast<float>(moved[2]);
    point.time_lag = static_cast<float>(time_lag);
    points.push_back(point);
  }
}

double seconds(std::int64_t timestamp, SweepArithmetic arithmetic) {
  const auto microseconds = static_cast<double>(timestamp);
  return arithmetic == SweepArithmetic::kMmdet3d ? microseconds / 1e6 : 1e-6 * microseconds;
}

}  // namespace

std::vector<LidarPoint> read_lidar_file(const std::filesystem::path& path, std::int64_t* left_out) {
  const std::string bytes = storage::read_file(path);
  if (bytes.size() % kPointBytes != 0)
    throw std::runtime_error("[read_lidar_file] " + path.string() + " must hold whole points of 20 bytes, got " +
                             std::to_string(bytes.size()) + " bytes: the file is cut off or of another format");
  std::vector<LidarPoint> points;
  points.reserve(bytes.size() / kPointBytes);
  for (std::size_t i = 0; i < bytes.size(); i += kPointBytes) {
    std::array<float, 5> values{};
    std::memcpy(values.data(), bytes.data() + i, kPointBytes);
    if (std::isfinite(values[0]) && std::isfinite(values[1]) && std::isfinite(values[2]) && std::isfinite(values[3]))
      points.push_back({values[0], values[1], values[2], values[3], values[4], 0});
  }
  if (left_out != nullptr) *left_out = static_cast<std::int64_t>(bytes.size() / kPointBytes - points.size());
  return points;
}

std::vector<LidarPoint> aggregate_sweeps(const nuscenes::Dataset& dataset, nuscenes::Index sample,
                                         const std::vector<std::string>& channels, const std::string& reference_channel,
                                         const SweepOptions& options) {
  const nuscenes::Tables& tables = dataset.tables();
  const nuscenes::Index reference_row = dataset.key_frame(sample, reference_channel);
  if (reference_row == nuscenes::kNone)
    throw std::invalid_argument("[aggregate_sweeps] reference_channel must have a key frame in sample '" +
                                std::string(tables.sample[sample].token) + "', got '" + reference_channel + "'");
  const nuscenes::SampleData& reference = tables.sample_data[reference_row];
  const geometry::RigidTransform from_global = dataset.pose_of(reference).sensor_to_global().inverse();
  const double reference_time = seconds(reference.timestamp, options.arithmetic);
  std::vector<LidarPoint> points;
  const auto append = [&](nuscenes::Index row, double distance) {
    const nuscenes::SampleData& data = tables.sample_data[row];
    const std::vector<LidarPoint> cloud = read_lidar_file(dataset.path_of(data));
    const bool is_reference = row == reference_row;
    append_sweep(cloud,
                 is_reference ? geometry::RigidTransform{} : from_global * dataset.pose_of(data).sensor_to_global(),
                 is_reference ? 0 : reference_time - seconds(data.timestamp, options.arithmetic), distance,
                 options.arithmetic, points);
  };
  for (const std::string& channel : channels) {
    const nuscenes::Index key_frame = dataset.key_frame(sample, channel);
    if (key_frame == nuscenes::kNone) continue;
    append(key_frame, options.filter_key_frame ? options.minimum_distance : 0);
    nuscenes::Index row = tables.sample_data[key_frame].previous;
    const bool repeats = options.repeat_key_frame && row == nuscenes::kNone;
    for (std::int64_t sweep = 0; sweep < options.previous && (repeats || row != nuscenes::kNone); ++sweep) {
      append(repeats ? key_frame : row, options.minimum_distance);
      if (!repeats) row = tables.sample_data[row].previous;
    }
  }
  return points;
}

void PointRange::validate() const {
  const auto check = [](const char* axis, double low, double high) {
    if (!(low < high))
      throw std::invalid_argument(std::string("[PointRange] ") + axis + "_min must lie below " + axis + "_max, got " +
                                  std::to_string(low) + " and " + std::to_string(high));
  };
  check("x", x_min, x_max);
  check("y", y_min, y_max);
  check("z", z_min, z_max);
}

void keep_range(std::vector<LidarPoint>& points, const PointRange& range) {
  std::erase_if(
      points, [&range](const LidarPoint& point) { return !range.contains(point); });
}

}  // namespace camber::sensors
