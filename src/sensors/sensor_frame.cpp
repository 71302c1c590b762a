#include "camber/sensors/sensor_frame.h"

#include <algorithm>
#include <cmath>

#include "camber/sensors/fault_effects.h"
#include "sensors/fault_occasion.h"
#include "sensors/fixed_box.h"

namespace camber::sensors {
namespace {

void state_fault(SensorState& state, double quality) {
  state.quality = std::min(state.quality, quality);
}

void repeat_cameras(SensorFrame& sensor_frame, const FaultOccasion& occasion, FrameOptions options) {
  const Repeated repeated = frame_to_repeat(occasion);
  options.load_points = false;
  KeyFrame old = load_key_frame(occasion.dataset, repeated.sample, options);
  const std::vector<bool> hit = cameras_hit(occasion.fault, sensor_frame.frame.cameras.size(), occasion.scene);
  for (std::size_t i = 0; i < sensor_frame.frame.cameras.size(); ++i) {
    CameraView& view = sensor_frame.frame.cameras[i];
    CameraView& other = old.cameras[i];
    SensorState& state = sensor_frame.sensors[i + 1];
    if (!hit[i] || !view.available || !other.available) continue;
    view.image = std::move(other.image);
    if (!occasion.fault.false_timestamps) view.timestamp = state.timestamp = other.timestamp;
    state.source = repeated.sample;
    state.held = repeated.held;
    state_fault(state, stated_quality(occasion.fault, repeated.other_scene));
  }
}

void repeat_lidar(SensorFrame& sensor_frame, const FaultOccasion& occasion, FrameOptions options) {
  if (!sensor_frame.frame.lidar_available) return;
  const Repeated repeated = frame_to_repeat(occasion);
  options.load_images = false;
  KeyFrame old = load_key_frame(occasion.dataset, repeated.sample, options);
  sensor_frame.frame.points = std::move(old.points);
  SensorState& state = sensor_frame.sensors[0];
  if (!occasion.fault.false_timestamps) state.timestamp = old.timestamp;
  state.source = repeated.sample;
  state.held = repeated.held;
  state_fault(state, stated_quality(occasion.fault, repeated.other_scene));
}

void turn_camera(CameraView& view, const KeyFrame& frame, const FaultOccasion& occasion, std::size_t camera) {
  const nuscenes::SampleData& data = occasion.dataset.tables().sample_data[view.sample_data];
  const nuscenes::SensorPose pose = occasion.dataset.pose_of(data);
  view.camera.lidar_to_image =
      geometry::lidar_to_image(frame.reference.sensor_to_ego, frame.reference.ego_to_global,
                               believed_mount(occasion, pose.sensor_to_ego, camera), pose.ego_to_global,
                               *occasion.dataset.calibration_of(data).intrinsic, view.transform);
}

void degrade_cameras(SensorFrame& sensor_frame, const FaultOccasion& occasion) {
  const Fault& fault = occasion.fault;
  const std::vector<bool> hit = cameras_hit(fault, sensor_frame.frame.cameras.size(), occasion.scene);
  for (std::size_t i = 0; i < sensor_frame.frame.cameras.size(); ++i) {
    CameraView& view = sensor_frame.frame.cameras[i];
    if (!hit[i] || !view.available) continue;
    state_fault(sensor_frame.sensors[i + 1], stated_quality(fault));
    if (fault_row(fault.kind).known) {
      view.available = sensor_frame.sensors[i + 1].available = false;
      view.image = {};
    } else if (fault.kind == FaultKind::kCalibration) {
      turn_camera(view, sensor_frame.frame, occasion, i);
    } else {
      degrade_image(view.image, fault, occasion.frame.at("camera").at(i));
    }
  }
}

void degrade_lidar(SensorFrame& sensor_frame, const FaultOccasion& occasion, const FrameOptions& options) {
  KeyFrame& frame = sensor_frame.frame;
  if (!frame.lidar_available) return;
  state_fault(sensor_frame.sensors[0], stated_quality(occasion.fault));
  if (fault_row(occasion.fault.kind).known) {
    frame.lidar_available = sensor_frame.sensors[0].available = false;
    frame.points.clear();
    return;
  }
  std::vector<geometry::Box> boxes;
  boxes.reserve(frame.objects.size());
  for (const FrameObject& object : frame.objects) boxes.push_back(object.box);
  const CloudSurroundings surroundings{.objects = boxes,
                                       .ahead = frame.reference.sensor_to_ego.inverse().rotate({1, 0, 0})};
  degrade_points(frame.points, occasion.fault, surroundings, occasion.scene, occasion.frame);
  keep_range(frame.points, options.range);
}

}  // namespace

SensorFrame clean_sensor_frame(KeyFrame frame) {
  SensorFrame sensor_frame{.frame = std::move(frame)};
  sensor_frame.sensors.push_back(
      {.available = sensor_frame.frame.lidar_available, .timestamp = sensor_frame.frame.timestamp});
  for (const CameraView& view : sensor_frame.frame.cameras)
    sensor_frame.sensors.push_back({.available = view.available, .timestamp = view.timestamp});
  return sensor_frame;
}

SensorFrame load_sensor_frame(const nuscenes::Dataset& dataset, nuscenes::Index sample, const FrameOptions& options,
                              std::span<const Fault> faults, std::span<const nuscenes::Index> pool,
                              const random::Stream& stream) {
  SensorFrame sensor_frame = clean_sensor_frame(load_key_frame(dataset, sample, options));
  for (std::size_t i = 0; i < faults.size(); ++i) {
    const FaultOccasion occasion(dataset, pool, faults[i], i, sample, stream);
    if (faults[i].repeats())
      faults[i].is_lidar() ? repeat_lidar(sensor_frame, occasion, options)
                           : repeat_cameras(sensor_frame, occasion, options);
    else
      faults[i].is_lidar() ? degrade_lidar(sensor_frame, occasion, options) : degrade_cameras(sensor_frame, occasion);
    sensor_frame.faults.push_back(faults[i]);
  }
  return sensor_frame;
}

void check_faults(const nuscenes::Dataset& dataset, std::span<const nuscenes::Index> samples,
                  std::span<const Fault> faults, std::span<const nuscenes::Index> pool, const random::Stream& stream) {
  for (std::size_t i = 0; i < faults.size(); ++i) {
    check_cameras(faults[i], dataset.channels(nuscenes::Modality::kCamera).size());
    if (!faults[i].repeats()) continue;
    for (const nuscenes::Index sample : samples)
      frame_to_repeat(FaultOccasion(dataset, pool, faults[i], i, sample, stream));
  }
}

std::vector<TrustLabel> trust_labels(const SensorFrame& sensor_frame) {
  const KeyFrame& frame = sensor_frame.frame;
  std::vector<TrustLabel> labels;
  for (const FrameObject& object : frame.objects) {
    const FixedBox box(object.box);
    const auto points = std::count_if(frame.points.begin(), frame.points.end(), [&box](const LidarPoint& p) {
      return p.time_lag <= kKeySweepLag && box.contains(p);
    });
    const double seen =
        frame.lidar_available ? std::min(1.0, std::log1p(static_cast<double>(points)) / std::log(21.0)) : 0;
    double quality = 0;
    for (std::size_t i = 0; i < frame.cameras.size(); ++i)
      if (frame.cameras[i].available && frame.cameras[i].camera.cell_at(object.box.center))
        quality = std::max(quality, sensor_frame.sensors[i + 1].quality);
    labels.push_back({.lidar = 2 * seen * sensor_frame.sensors[0].quality - 1,
                      .camera = 2 * object.visible_share.value_or(0) * quality - 1});
  }
  return labels;
}

}  // namespace camber::sensors
