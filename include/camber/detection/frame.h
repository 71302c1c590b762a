#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "camber/data/cues.h"
#include "camber/data/delivery.h"
#include "camber/detection/detector_options.h"
#include "camber/geometry/transform.h"

namespace camber::detection {

/// Points that somebody else owns: `count` of them, `stride` floats apart, each beginning x, y, z (metres, LiDAR
/// frame), then, where the places are given, intensity and time lag.
struct PointCloudView {
  const float* data = nullptr;
  std::int64_t count = 0;
  std::int64_t stride = 5;
  std::int64_t intensity_place = 3;    ///< -1: none, taken as 0
  double intensity_scale = 1.0 / 255;  ///< times the stored number gives 0..1
  std::int64_t time_lag_place = -1;    ///< seconds before the frame; -1: none, taken as 0
};

enum class ChannelOrder { kRgb, kBgr };

/// A picture that somebody else owns: bytes, three a pixel, `pitch` bytes from row to row (0: no gap).
struct PictureView {
  const std::uint8_t* data = nullptr;
  std::int64_t width = 0, height = 0;
  std::int64_t pitch = 0;
  ChannelOrder order = ChannelOrder::kRgb;
};

struct CameraInput {
  std::string name{};
  PictureView picture{};
  geometry::Matrix3 intrinsic = geometry::kIdentity3;  ///< of that picture
  geometry::RigidTransform lidar_to_camera{};          ///< at the two sensors' own times
  std::int64_t timestamp = 0;                          ///< microseconds
  bool available = true;
};

/// What a car's sensors delivered, borrowed. Absent sensors are ordinary: available = false (such a camera needs neither
/// picture nor size), or no camera at all.
///
///   Frame frame{.points = {.data = xyzi.data(), .count = n, .stride = 4}};
///   frame.cameras.push_back({.picture = {.data = rgb, .width = 1600, .height = 900}, .intrinsic = k,
///                            .lidar_to_camera = t});
struct Frame {
  PointCloudView points{};
  bool lidar_available = true;
  std::int64_t lidar_timestamp = 0;  ///< microseconds
  std::vector<CameraInput> cameras{};
  /// Evidence about the LiDAR and each camera in turn (data::CueTracker makes it from a running sequence), for all of
  /// them; empty: neutral.
  std::vector<data::SensorCues> cues{};
};

/// The frame as the data room knows it: pictures in the network's size (resized and cut as in training), points in the
/// space. Throws std::invalid_argument with one sentence for a picture without size or pointers that are null.
data::Delivery to_delivery(const Frame& frame, const DetectorOptions& options);

}  // namespace camber::detection
