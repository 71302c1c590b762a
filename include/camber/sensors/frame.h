#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "camber/geometry/box.h"
#include "camber/geometry/camera.h"
#include "camber/nuscenes/dataset.h"
#include "camber/sensors/image.h"
#include "camber/sensors/points.h"

namespace camber::sensors {

/// How a key frame is loaded for a detector. No camera count, channel name or image size is fixed: an empty list of
/// channels means all that the sensor table has, in its order.
struct FrameOptions {
  std::vector<std::string> lidars{};   ///< merged into the frame of the data set's reference channel
  std::vector<std::string> cameras{};  ///< their order is the order of the keys
  /// Without `cameras`: these come first where the data set has them, then the others.
  std::vector<std::string> camera_order{};
  /// Of the network; 0 x 0: every camera at its own size, for drawing.
  std::int64_t image_width = 800, image_height = 320;
  std::int64_t feature_stride = 16;  ///< pixels a feature cell
  geometry::Resampling resampling = geometry::Resampling::kFiltered;
  geometry::ImageCrop image_crop{};  ///< of every camera; training varies it
  bool load_points = true, load_images = true;
  SweepOptions sweeps{};
  PointRange range{};  ///< points outside of it are dropped

  /// For whoever looks: cameras at their own size, the key frame's own sweep, every point.
  static FrameOptions for_drawing();
  bool own_size() const { return image_width == 0 && image_height == 0; }
  void validate() const;
};

/// One camera at a key frame: how points fall onto the network's image, and the image.
struct CameraView {
  geometry::Camera camera{};
  geometry::ImageTransform transform{};  ///< from the camera's own image to the network's
  nuscenes::Index sample_data = nuscenes::kNone;
  std::int64_t timestamp = 0;
  bool available = false;  ///< false: it delivered nothing at this key frame, and sees no point
  Image image{};           ///< empty when not available or not loaded
};

/// An annotated object in the frame of the LiDAR at the key frame.
struct FrameObject {
  nuscenes::Index annotation = nuscenes::kNone;
  std::string_view category{};
  geometry::Box box{};
  geometry::Vector3 velocity{};  ///< m/s in the same frame; NaN where the tables do not tell
  std::int32_t lidar_points = 0, radar_points = 0;
  std::optional<double> visible_share{};  ///< middle of the visibility's range
};

/// A key frame: points, images and true objects in the frame of the reference sensor.
struct KeyFrame {
  nuscenes::Index sample = nuscenes::kNone;
  std::string_view token{};          ///< of the sample; empty: it is not from tables
  std::int64_t timestamp = 0;        ///< of the reference sensor, microseconds
  nuscenes::SensorPose reference{};  ///< reference sensor -> ego -> global
  bool lidar_available = false;
  std::vector<LidarPoint> points{};
  std::vector<CameraView> cameras{};
  std::vector<FrameObject> objects{};
};

/// Loads one key frame. Sensors that the tables do not list for it are not available; a file that they list and that
/// is missing or damaged is refused with its path. Without any LiDAR, the frame is that of the reference camera's ego.
///
///   const KeyFrame frame = load_key_frame(dataset, sample, {.image_width = 800, .image_height = 320});
KeyFrame load_key_frame(const nuscenes::Dataset& dataset, nuscenes::Index sample, const FrameOptions& options = {});

}  // namespace camber::sensors
