#include "camber/nuscenes/rig.h"

#include <algorithm>
#include <set>
#include <stdexcept>

namespace camber::nuscenes {
namespace {

void check_sensor(const RigSensor& sensor) {
  const auto refuse = [&sensor](const std::string& what) {
    throw std::invalid_argument("[Rig] sensor '" + sensor.channel + "': " + what);
  };
  const auto check_length = [&](const char* field, const std::vector<double>& list, std::size_t length) {
    if (list.size() != length)
      refuse(std::string(field) + " must have " + std::to_string(length) + " numbers, got " +
             std::to_string(list.size()));
  };
  if (sensor.channel.empty()) refuse("channel must have a name");
  check_length("translation", sensor.translation, 3);
  check_length("rotation", sensor.rotation, 4);
  sensor.to_ego();  // refuses a quaternion of length 0
  if (sensor.modality != Modality::kCamera) return;
  check_length("intrinsic", sensor.intrinsic, 9);
  constexpr std::int64_t kLargest = 65535;  // JPEG's
  if (std::min(sensor.width, sensor.height) < 1 || std::max(sensor.width, sensor.height) > kLargest)
    refuse("width and height must be between 1 and " + std::to_string(kLargest) + ", got " +
           std::to_string(sensor.width) + " x " + std::to_string(sensor.height));
}

}  // namespace

geometry::RigidTransform RigSensor::to_ego() const {
  return geometry::RigidTransform::from(
      geometry::Quaternion{rotation[0], rotation[1], rotation[2], rotation[3]}.normalized(),
      {translation[0], translation[1], translation[2]});
}

void Rig::validate() const {
  std::set<std::string> channels;
  for (const RigSensor& sensor : sensors) {
    check_sensor(sensor);
    if (!channels.insert(sensor.channel).second)
      throw std::invalid_argument("[Rig] every channel must stand once, got '" + sensor.channel + "' twice");
  }
}

Rig Rig::of(const Dataset& dataset, Index sample) {
  Rig rig;
  for (const Sensor& sensor : dataset.tables().sensor) {
    const Index row = dataset.key_frame(sample, sensor.channel);
    if (row == kNone) continue;
    const SampleData& data = dataset.tables().sample_data[row];
    const CalibratedSensor& calibration = dataset.calibration_of(data);
    const geometry::Quaternion& q = calibration.rotation;
    RigSensor entry{.channel = std::string(sensor.channel),
                    .modality = sensor.modality,
                    .translation = {calibration.translation.begin(), calibration.translation.end()},
                    .rotation = {q.w, q.x, q.y, q.z},
                    .width = data.width,
                    .height = data.height};
    if (calibration.intrinsic) entry.intrinsic.assign(calibration.intrinsic->begin(), calibration.intrinsic->end());
    rig.sensors.push_back(std::move(entry));
  }
  return rig;
}

geometry::RigidTransform Rig::lidar_to_ego() const {
  for (const RigSensor& sensor : sensors)
    if (sensor.modality == Modality::kLidar) return sensor.to_ego();
  return {};
}

std::vector<geometry::Camera> Rig::cameras(std::int64_t width, std::int64_t height, std::int64_t feature_stride) const {
  validate();
  if (feature_stride < 1 || width < feature_stride || height < feature_stride)
    throw std::invalid_argument("[Rig] the network's image must be at least one feature cell wide and high, got " +
                                std::to_string(width) + " x " + std::to_string(height) + " in cells of " +
                                std::to_string(feature_stride));
  std::vector<geometry::Camera> result;
  for (const RigSensor& sensor : sensors) {
    if (sensor.modality != Modality::kCamera) continue;
    geometry::Matrix3 intrinsic{};
    std::copy(sensor.intrinsic.begin(), sensor.intrinsic.end(), intrinsic.begin());
    result.push_back({.name = sensor.channel,
                      .width = width,
                      .height = height,
                      .columns = width / feature_stride,
                      .rows = height / feature_stride,
                      .lidar_to_image = geometry::lidar_to_image(
                          lidar_to_ego(), {}, sensor.to_ego(), {}, intrinsic,
                          geometry::ImageTransform::fit_bottom(sensor.width, sensor.height, width, height))});
  }
  return result;
}

}  // namespace camber::nuscenes
