// Frames of the simulated world as a car's own arrays, for tests of sessions.
#pragma once
#include <gtest/gtest.h>

#include "camber/detection/detector_session.h"
#include "detection/example_batch.h"
#include "sensors/simulated_world.h"

namespace camber::detection::examples {

// A router that listens to its cues, with windows and segments.
inline Detector listening_detector() {
  auto options = tiny_options();
  options.router.mode = nn::RouterMode::kLearned;
  options.bias.segments = true;
  Detector detector(options, 1);
  const torch::NoGradGuard guard;
  for (auto& parameter : detector->named_parameters())
    if (parameter.key().ends_with("age_gain") || parameter.key().ends_with("level_gain")) parameter.value().fill_(2);
  detector->eval();
  return detector;
}

// A key frame of the world as a car's own arrays.
inline Frame borrow(const sensors::SensorFrame& sensor_frame) {
  const auto& dataset = tests::simulated_world().dataset;
  const auto& loaded = sensor_frame.frame;
  Frame frame;
  frame.lidar_available = sensor_frame.sensors[0].available;
  if (!loaded.points.empty())
    frame.points = {.data = &loaded.points[0].x,
                    .count = std::ssize(loaded.points),
                    .stride = sizeof(sensors::LidarPoint) / sizeof(float),
                    .time_lag_index = 5};
  frame.lidar_timestamp = sensor_frame.sensors[0].timestamp;
  frame.timestamp = loaded.timestamp;
  frame.lidar_to_ego = loaded.reference.sensor_to_ego;
  frame.ego_to_global = loaded.reference.ego_to_global;
  for (std::size_t i = 0; i < loaded.cameras.size(); ++i) {
    const auto& view = loaded.cameras[i];
    const auto& row = dataset.tables().sample_data[view.sample_data];
    const auto pose = dataset.pose_of(row);
    frame.cameras.push_back({.name = view.camera.name,
                             .image = view.image.view(),
                             .intrinsic = *dataset.calibration_of(row).intrinsic,
                             .lidar_to_camera = pose.sensor_to_ego.inverse() * pose.ego_to_global.inverse() *
                                                frame.ego_to_global * frame.lidar_to_ego,
                             .timestamp = sensor_frame.sensors[i + 1].timestamp,
                             .available = view.available});
  }
  return frame;
}

inline std::vector<nuscenes::Index> scene_of_test_split(std::size_t scene) {
  const auto& world = tests::simulated_world();
  std::vector<nuscenes::Index> samples;
  for (const nuscenes::Index sample : world.test.samples) {
    if (world.dataset.tables().sample[sample].previous == nuscenes::kNone && scene-- == 0) samples.push_back(sample);
    if (!samples.empty() && samples.back() != sample &&
        world.dataset.tables().sample[sample].previous == samples.back())
      samples.push_back(sample);
  }
  return samples;
}

inline sensors::SensorFrame sensor_frame_of(nuscenes::Index sample) {
  auto options = tiny_options().frame_options();
  options.range = sensors::PointRange::everywhere();
  return sensors::clean_sensor_frame(sensors::load_key_frame(tests::simulated_world().dataset, sample, options));
}

inline ::testing::AssertionResult same_boxes(const std::vector<Detection>& a, const std::vector<Detection>& b) {
  if (a.size() != b.size()) return ::testing::AssertionFailure() << a.size() << " boxes against " << b.size();
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto &p = a[i].box, &q = b[i].box;
    const bool same = p.center == q.center && p.length == q.length && p.width == q.width && p.height == q.height &&
                      p.yaw == q.yaw && a[i].velocity == b[i].velocity && a[i].score == b[i].score &&
                      a[i].label == b[i].label && a[i].query == b[i].query && a[i].trust == b[i].trust;
    if (!same) return ::testing::AssertionFailure() << "box " << i << ": score " << a[i].score << ", " << b[i].score;
  }
  return ::testing::AssertionSuccess();
}

// The first frames of a scene, for tests of what may change between them.
struct Drive {
  std::vector<sensors::SensorFrame> sensor_frames;
  std::vector<Frame> frames;
  Detector detector = listening_detector();

  explicit Drive(std::size_t count = 4) {
    const auto samples = scene_of_test_split(0);
    for (std::size_t i = 0; i < count; ++i) sensor_frames.push_back(sensor_frame_of(samples[i]));
    for (const auto& sensor_frame : sensor_frames) frames.push_back(borrow(sensor_frame));
  }
  // What a single call finds that is told the session's cues.
  std::vector<Detection> told(Frame frame, const DetectorSession& session) const {
    frame.cues = session.cues();
    return detector.detect(frame);
  }
};

}  // namespace camber::detection::examples
