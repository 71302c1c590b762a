#include "camber/detection/frame.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "camber/sensors/image.h"

namespace camber::detection {
namespace {

sensors::CameraView to_view(const CameraInput& input, const DetectorOptions& options) {
  const auto& image = input.image;
  const bool sized = image.width > 0 && image.height > 0;
  if (input.available && (!sized || image.data == nullptr))
    throw std::invalid_argument("[detect] camera \"" + input.name + "\" must have an image with a size, got " +
                                std::to_string(image.width) + " x " + std::to_string(image.height));
  if (input.available && image.pitch != 0 && image.pitch < 3 * image.width)
    throw std::invalid_argument("[detect] camera \"" + input.name +
                                "\" must have a pitch of 0 or at least 3 * width, " + std::to_string(3 * image.width) +
                                ", got " + std::to_string(image.pitch));
  const auto finite = [](const auto& numbers) {
    return std::all_of(numbers.begin(), numbers.end(), [](double number) { return std::isfinite(number); });
  };
  const geometry::RigidTransform& pose = input.lidar_to_camera;
  if (sized && !(finite(input.intrinsic) && finite(pose.rotation) && finite(pose.translation)))
    throw std::invalid_argument("[detect] camera \"" + input.name + "\" must have a calibration of finite numbers");
  const auto& encoder = options.encoder;
  sensors::CameraView view;
  view.timestamp = input.timestamp;
  view.available = input.available;
  view.camera = {.name = input.name,
                 .width = encoder.image_width,
                 .height = encoder.image_height,
                 .columns = encoder.image_width / encoder.feature_stride,
                 .rows = encoder.image_height / encoder.feature_stride,
                 .lidar_to_image = {}};  // an absent camera without a size sees no point
  if (!sized) return view;
  view.transform = geometry::ImageTransform::fit_bottom(image.width, image.height, encoder.image_width,
                                                        encoder.image_height, options.frame_options().resampling);
  view.camera.lidar_to_image = geometry::lidar_to_image(input.lidar_to_camera, input.intrinsic, view.transform);
  if (input.available) view.image = sensors::transform_image(image, {image.width, image.height}, view.transform);
  return view;
}

std::vector<sensors::LidarPoint> to_points(const PointCloudView& view) {
  if (view.count < 0)
    throw std::invalid_argument("[detect] points.count must be at least 0, got " + std::to_string(view.count));
  if (view.count > 0 && (view.data == nullptr || view.stride < 3))
    throw std::invalid_argument("[detect] points must have data and a stride of at least 3, got a stride of " +
                                std::to_string(view.stride));
  for (const auto& [name, position] : {std::pair("intensity", view.intensity_index), {"time_lag", view.time_lag_index}})
    if (view.count > 0 && position >= view.stride)
      throw std::invalid_argument(std::string("[detect] points.") + name + "_index must be below the stride of " +
                                  std::to_string(view.stride) + ", or -1 for none, got " + std::to_string(position));
  const auto everywhere = sensors::PointRange::everywhere();
  std::vector<sensors::LidarPoint> points;
  points.reserve(static_cast<std::size_t>(view.count));
  for (std::int64_t i = 0; i < view.count; ++i) {
    const float* p = view.data + i * view.stride;
    sensors::LidarPoint point{.x = p[0], .y = p[1], .z = p[2]};
    if (view.intensity_index >= 0)
      point.intensity = static_cast<float>(p[view.intensity_index] * view.intensity_scale * 255);
    if (view.time_lag_index >= 0) point.time_lag = p[view.time_lag_index];
    // A single NaN, of whichever number, would be in every key and every box.
    if (everywhere.contains(point) && std::isfinite(point.intensity) && std::isfinite(point.time_lag))
      points.push_back(point);
  }
  return points;
}

}  // namespace

std::optional<std::int64_t> time_of(const Frame& frame) {
  if (frame.timestamp) return frame.timestamp;
  std::optional<std::int64_t> newest;
  if (frame.lidar_available) newest = frame.lidar_timestamp;
  for (const auto& camera : frame.cameras)
    if (camera.available) newest = std::max(newest.value_or(camera.timestamp), camera.timestamp);
  return newest;
}

sensors::SensorFrame to_sensor_frame(const Frame& frame, const DetectorOptions& options) {
  sensors::KeyFrame loaded;
  loaded.timestamp = time_of(frame).value_or(0);
  loaded.reference = {.sensor_to_ego = frame.lidar_to_ego, .ego_to_global = frame.ego_to_global};
  loaded.lidar_available = frame.lidar_available;
  if (frame.lidar_available) loaded.points = to_points(frame.points);
  loaded.cameras.reserve(frame.cameras.size());
  for (const auto& camera : frame.cameras) loaded.cameras.push_back(to_view(camera, options));
  auto sensor_frame = sensors::clean_sensor_frame(std::move(loaded));
  sensor_frame.sensors[0].timestamp = frame.lidar_timestamp;
  return sensor_frame;
}

}  // namespace camber::detection
