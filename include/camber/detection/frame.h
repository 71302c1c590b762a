#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "camber/detection/detector_options.h"
#include "camber/geometry/transform.h"
#include "camber/sensors/cues.h"
#include "camber/sensors/image.h"
#include "camber/sensors/sensor_frame.h"

namespace camber::detection {

/// Points that somebody else owns: `count` of them, `stride` floats apart, each beginning x, y, z (metres, LiDAR
/// frame), then, where the indices are given, intensity and time lag.
struct PointCloudView {
  const float* data = nullptr;
  std::int64_t count = 0;
  std::int64_t stride = 5;
  std::int64_t intensity_index = 3;    ///< -1: none, taken as 0
  double intensity_scale = 1.0 / 255;  ///< times the stored number gives 0..1
  std::int64_t time_lag_index = -1;    ///< seconds before the frame; -1: none, taken as 0
};

using sensors::ChannelOrder;
using sensors::ImageView;

struct CameraInput {
  std::string name{};
  ImageView image{};
  geometry::Matrix3 intrinsic = geometry::kIdentity3;  ///< of that image
  geometry::RigidTransform lidar_to_camera{};          ///< at the two sensors' own times
  std::int64_t timestamp = 0;                          ///< microseconds
  bool available = true;
};

/// What a car's sensors delivered, borrowed for the length of a call. Absent sensors are ordinary: available = false
/// (such a camera needs neither image nor size), or no camera at all.
///
///   Frame frame{.points = {.data = xyzi.data(), .count = n, .stride = 4}};
///   frame.cameras.push_back({.image = {.data = rgb, .width = 1600, .height = 900}, .intrinsic = k,
///                            .lidar_to_camera = t});
struct Frame {
  PointCloudView points{};
  bool lidar_available = true;
  std::int64_t lidar_timestamp = 0;  ///< microseconds, as the LiDAR states it
  std::vector<CameraInput> cameras{};
  /// Evidence about the LiDAR and each camera in turn, for all of them; empty: neutral. A DetectorSession computes it.
  std::vector<sensors::SensorCues> cues{};

  // What only a DetectorSession looks at, for the cues.
  /// The time that the frame stands for, microseconds; without it the newest that an available sensor states.
  std::optional<std::int64_t> timestamp{};
  geometry::RigidTransform lidar_to_ego{};   ///< z of the ego frame is the height above the ground
  geometry::RigidTransform ego_to_global{};  ///< where the car is; the same at every frame: it is taken to stand
};

/// The time that the frame stands for: as given, or the newest that an available sensor states; nothing when there is
/// neither.
std::optional<std::int64_t> time_of(const Frame& frame);

/// The frame as the data room knows it, each image read once and in the network's size (resized and cut as in
/// training); points as they come, without those that are no numbers. Throws std::invalid_argument with one sentence
/// for an image without size, pointers that are null or a calibration that is not finite.
sensors::SensorFrame to_sensor_frame(const Frame& frame, const DetectorOptions& options);

}  // namespace camber::detection
