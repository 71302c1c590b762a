#include "camber/detection/frame.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "camber/data/picture.h"

namespace camber::detection {
namespace {

data::CameraView to_view(const CameraInput& input, const DetectorOptions& options) {
  const auto& picture = input.picture;
  const bool sized = picture.width > 0 && picture.height > 0;
  if (input.available && (!sized || picture.data == nullptr))
    throw std::invalid_argument("[detect] camera \"" + input.name + "\" must have a picture with a size, got " +
                                std::to_string(picture.width) + " x " + std::to_string(picture.height));
  if (input.available && picture.pitch != 0 && picture.pitch < 3 * picture.width)
    throw std::invalid_argument("[detect] camera \"" + input.name +
                                "\" must have a pitch of 0 or at least 3 * width, " +
                                std::to_string(3 * picture.width) + ", got " + std::to_string(picture.pitch));
  const auto& encoder = options.encoder;
  data::CameraView view;
  view.timestamp = input.timestamp;
  view.available = input.available;
  view.camera = {.name = input.name,
                 .width = encoder.picture_width,
                 .height = encoder.picture_height,
                 .columns = encoder.picture_width / encoder.feature_stride,
                 .rows = encoder.picture_height / encoder.feature_stride,
                 .lidar_to_image = {}};  // an absent camera without a size sees no point
  if (!sized) return view;
  view.transform = geometry::PictureTransform::fit_bottom(picture.width, picture.height, encoder.picture_width,
                                                          encoder.picture_height);
  view.camera.lidar_to_image = geometry::lidar_to_image(input.lidar_to_camera, input.intrinsic, view.transform);
  if (input.available) view.picture = data::transform_picture(picture, {picture.width, picture.height}, view.transform);
  return view;
}

std::vector<data::LidarPoint> to_points(const PointCloudView& view) {
  if (view.count > 0 && (view.data == nullptr || view.stride < 3))
    throw std::invalid_argument("[detect] points must have data and a stride of at least 3, got a stride of " +
                                std::to_string(view.stride));
  for (const auto& [name, place] : {std::pair("intensity", view.intensity_place), {"time_lag", view.time_lag_place}})
    if (view.count > 0 && place >= view.stride)
      throw std::invalid_argument(std::string("[detect] points.") + name + "_place must be below the stride of " +
                                  std::to_string(view.stride) + ", or -1 for none, got " + std::to_string(place));
  const auto everywhere = data::PointRange::everywhere();
  std::vector<data::LidarPoint> points;
  points.reserve(static_cast<std::size_t>(view.count));
  for (std::int64_t i = 0; i < view.count; ++i) {
    const float* p = view.data + i * view.stride;
    data::LidarPoint point{.x = p[0], .y = p[1], .z = p[2]};
    if (view.intensity_place >= 0)
      point.intensity = static_cast<float>(p[view.intensity_place] * view.intensity_scale * 255);
    if (view.time_lag_place >= 0) point.time_lag = p[view.time_lag_place];
    if (everywhere.contains(point)) points.push_back(point);
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

data::SensorFrame to_sensor_frame(const Frame& frame, const DetectorOptions& options) {
  data::Frame loaded;
  loaded.timestamp = time_of(frame).value_or(0);
  loaded.reference = {.sensor_to_ego = frame.lidar_to_ego, .ego_to_global = frame.ego_to_global};
  loaded.lidar_available = frame.lidar_available;
  if (frame.lidar_available) loaded.points = to_points(frame.points);
  loaded.cameras.reserve(frame.cameras.size());
  for (const auto& camera : frame.cameras) loaded.cameras.push_back(to_view(camera, options));
  auto sensor_frame = data::clean_sensor_frame(std::move(loaded));
  sensor_frame.sensors[0].timestamp = frame.lidar_timestamp;
  return sensor_frame;
}

}  // namespace camber::detection
