#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "camber/config/field.h"
#include "camber/geometry/camera.h"
#include "camber/nuscenes/dataset.h"

template <>
inline constexpr auto camber::config::enum_names<camber::nuscenes::Modality> =
    std::array{std::pair{camber::nuscenes::Modality::kCamera, std::string_view("camera")},
               std::pair{camber::nuscenes::Modality::kLidar, std::string_view("lidar")},
               std::pair{camber::nuscenes::Modality::kRadar, std::string_view("radar")},
               std::pair{camber::nuscenes::Modality::kOther, std::string_view("other")}};

namespace camber::nuscenes {

/// One sensor of a rig and where it sits on the car.
struct RigSensor {
  std::string channel{};
  Modality modality = Modality::kCamera;
  std::vector<double> translation{0, 0, 0};  ///< sensor to ego, metres
  std::vector<double> rotation{1, 0, 0, 0};  ///< w, x, y, z
  std::vector<double> intrinsic{};           ///< cameras: 3 x 3, row by row
  std::int64_t width = 0, height = 0;        ///< cameras: size of their own image

  geometry::RigidTransform to_ego() const;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("channel", channel, "the sensor's name");
    visitor("modality", modality, "camera, lidar, radar or other");
    visitor("translation", translation, "sensor to ego, metres: x, y, z");
    visitor("rotation", rotation, "sensor to ego, quaternion: w, x, y, z");
    visitor("intrinsic", intrinsic, "cameras: the 3 x 3 matrix, row by row");
    visitor("width", width, "cameras: width of their own image", config::Range{.min = 0});
    visitor("height", height, "cameras: height of their own image", config::Range{.min = 0});
  }
};

/// A rig of any shape: any number of cameras with their own sizes, and LiDARs that are merged into the frame of the
/// first. It is read from a data set's tables, or from a configuration:
///
///   [[rig.sensors]]
///   channel = "FRONT"
///   modality = "camera"
///   translation = [1.7, 0.0, 1.5]
///   rotation = [0.5, -0.5, 0.5, -0.5]
///   intrinsic = [1266.0, 0.0, 816.0, 0.0, 1266.0, 491.0, 0.0, 0.0, 1.0]
///   width = 1600
///   height = 900
struct Rig {
  std::vector<RigSensor> sensors{};

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("sensors", sensors, "the sensors, cameras in the order of their keys");
  }
  /// Refuses lists of the wrong length, quaternions of length 0, cameras without size or matrix, a channel twice.
  void validate() const;

  /// The rig as it stood at a sample: the sensors that delivered a key frame, in the order of the sensor table.
  static Rig of(const Dataset& dataset, Index sample);

  /// The frame of all points: the first LiDAR's, the ego frame's when there is none.
  geometry::RigidTransform lidar_to_ego() const;
  /// The cameras as a network sees them that takes images of this size: the car stands still between the sensors'
  /// times. CMT's resize and crop (ImageTransform::fit_bottom), one feature cell every `feature_stride` pixels.
  std::vector<geometry::Camera> cameras(std::int64_t width, std::int64_t height, std::int64_t feature_stride) const;
};

}  // namespace camber::nuscenes
