#include "camber/detection/frame.h"

#include <cstring>
#include <stdexcept>

#include "camber/data/picture.h"

namespace camber::detection {
namespace {

data::Picture copy_picture(const PictureView& view) {
  data::Picture picture{.width = view.width, .height = view.height, .pixels = {}};
  picture.pixels.resize(static_cast<std::size_t>(3 * view.width * view.height));
  const std::int64_t pitch = view.pitch == 0 ? 3 * view.width : view.pitch;
  for (std::int64_t y = 0; y < view.height; ++y) {
    const std::uint8_t* from = view.data + y * pitch;
    std::uint8_t* to = picture.row(y);
    if (view.order == ChannelOrder::kRgb) {
      std::memcpy(to, from, static_cast<std::size_t>(3 * view.width));
      continue;
    }
    for (std::int64_t x = 0; x < view.width; ++x)
      for (std::int64_t colour = 0; colour < 3; ++colour) to[3 * x + colour] = from[3 * x + 2 - colour];
  }
  return picture;
}

data::CameraView to_view(const CameraInput& input, const DetectorOptions& options) {
  const auto& picture = input.picture;
  const bool sized = picture.width > 0 && picture.height > 0;
  if (input.available && (!sized || picture.data == nullptr))
    throw std::invalid_argument("[detect] camera \"" + input.name + "\" must have a picture with a size, got " +
                                std::to_string(picture.width) + " x " + std::to_string(picture.height));
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
  view.camera.lidar_to_image =
      geometry::lidar_to_image({}, {}, input.lidar_to_camera.inverse(), {}, input.intrinsic, view.transform);
  if (input.available)
    view.picture = data::transform_picture(copy_picture(picture), {picture.width, picture.height}, view.transform);
  return view;
}

void add_points(const PointCloudView& view, data::Frame& frame) {
  if (view.count > 0 && (view.data == nullptr || view.stride < 3))
    throw std::invalid_argument("[detect] points must have data and a stride of at least 3, got a stride of " +
                                std::to_string(view.stride));
  frame.points.reserve(static_cast<std::size_t>(view.count));
  for (std::int64_t i = 0; i < view.count; ++i) {
    const float* p = view.data + i * view.stride;
    data::LidarPoint point{.x = p[0], .y = p[1], .z = p[2]};
    if (view.intensity_place >= 0)
      point.intensity = static_cast<float>(p[view.intensity_place] * view.intensity_scale * 255);
    if (view.time_lag_place >= 0) point.time_lag = p[view.time_lag_place];
    frame.points.push_back(point);
  }
}

}  // namespace

data::Delivery to_delivery(const Frame& frame, const DetectorOptions& options) {
  data::Frame loaded;
  loaded.timestamp = frame.lidar_timestamp;
  loaded.lidar_available = frame.lidar_available;
  if (frame.lidar_available) add_points(frame.points, loaded);
  data::keep_range(loaded.points, options.frame_options().range);
  for (const auto& camera : frame.cameras) loaded.cameras.push_back(to_view(camera, options));
  return data::clean_delivery(std::move(loaded));
}

}  // namespace camber::detection
