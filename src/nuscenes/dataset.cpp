#include "camber/nuscenes/dataset.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "camber/storage/file.h"

namespace camber::nuscenes {

using geometry::Quaternion;
using geometry::RigidTransform;
using geometry::Vector3;

Dataset::Dataset(std::filesystem::path root, std::string version, int threads)
    : root_(std::move(root)), version_(std::move(version)), tables_(load_tables(root_, version_, threads)) {}

std::filesystem::path Dataset::path_of(const SampleData& data) const {
  std::filesystem::path path = root_ / data.filename;
  storage::check_inside(root_, path);
  return path;
}

SensorPose Dataset::pose_of(const SampleData& data) const {
  const CalibratedSensor& calibration = tables_.calibrated_sensor[data.calibrated_sensor];
  const EgoPose& ego = tables_.ego_pose[data.ego_pose];
  return {.sensor_to_ego = RigidTransform::from(calibration.rotation, calibration.translation),
          .ego_to_global = RigidTransform::from(ego.rotation, ego.translation)};
}

Index Dataset::key_frame(Index sample, std::string_view channel) const {
  Index found = kNone;
  for (const Index row : tables_.key_frames_of(sample))
    if (sensor_of(tables_.sample_data[row]).channel == channel) found = row;
  return found;
}

std::vector<std::string> Dataset::channels(Modality modality) const {
  std::vector<std::string> names;
  for (const Sensor& sensor : tables_.sensor) {
    if (sensor.modality != modality) continue;
    if (std::find(names.begin(), names.end(), sensor.channel) == names.end()) names.emplace_back(sensor.channel);
  }
  return names;
}

std::string Dataset::reference_channel() const {
  const std::vector<std::string> lidars = channels(Modality::kLidar);
  if (std::find(lidars.begin(), lidars.end(), "LIDAR_TOP") != lidars.end()) return "LIDAR_TOP";
  if (!lidars.empty()) return lidars.front();
  const std::vector<std::string> cameras = channels(Modality::kCamera);
  return cameras.empty() ? "" : cameras.front();
}

Vector3 Dataset::velocity_of(const SampleAnnotation& annotation) const {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  constexpr double kLongestGap = 1.5;
  const bool has_previous = annotation.previous != kNone, has_next = annotation.next != kNone;
  if (!has_previous && !has_next) return {kUnknown, kUnknown, kUnknown};
  const SampleAnnotation& first = has_previous ? tables_.sample_annotation[annotation.previous] : annotation;
  const SampleAnnotation& last = has_next ? tables_.sample_annotation[annotation.next] : annotation;
  const double first_time = 1e-6 * static_cast<double>(tables_.sample[first.sample].timestamp);
  const double last_time = 1e-6 * static_cast<double>(tables_.sample[last.sample].timestamp);
  const double gap = last_time - first_time;
  if (gap > (has_previous && has_next ? 2 * kLongestGap : kLongestGap)) return {kUnknown, kUnknown, kUnknown};
  return {(last.translation[0] - first.translation[0]) / gap, (last.translation[1] - first.translation[1]) / gap,
          (last.translation[2] - first.translation[2]) / gap};
}

geometry::Box Dataset::box_of(const SampleAnnotation& annotation, const SensorPose& sensor) const {
  const RigidTransform from_global = sensor.sensor_to_global().inverse();
  const Quaternion& q = annotation.rotation;
  const bool turned = q.w != 0 || q.x != 0 || q.y != 0 || q.z != 0;
  const geometry::Matrix3 rotation = turned ? q.normalized().matrix() : geometry::kIdentity3;
  const Vector3 heading = from_global.rotate({rotation[0], rotation[3], rotation[6]});
  return {.center = from_global.apply(annotation.translation),
          .length = annotation.size[1],
          .width = annotation.size[0],
          .height = annotation.size[2],
          .yaw = std::atan2(heading[1], heading[0])};
}

}  // namespace camber::nuscenes
