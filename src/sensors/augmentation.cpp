#include "camber/sensors/augmentation.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace camber::sensors {
namespace {

constexpr double kDegree = 0.017453292519943295;

geometry::Matrix3 turned_about(double u, double v, double angle, double scale, bool flip) {
  const double c = scale * std::cos(angle), s = scale * std::sin(angle), mirror = flip ? -1 : 1;
  // Mirror about the vertical axis through (u, v), then turn and scale about it.
  const double a = c * mirror, b = -s, d = s * mirror, e = c;
  return {a, b, u - a * u - b * v, d, e, v - d * u - e * v, 0, 0, 1};
}

geometry::Matrix3 inverse_affine(const geometry::Matrix3& m) {
  const double determinant = m[0] * m[4] - m[1] * m[3];
  const double a = m[4] / determinant, b = -m[1] / determinant, d = -m[3] / determinant, e = m[0] / determinant;
  return {a, b, -a * m[2] - b * m[5], d, e, -d * m[2] - e * m[5], 0, 0, 1};
}

// Bilinear; a pixel's centre lies half a pixel from its corner.
Image warped(const Image& image, const geometry::Matrix3& matrix) {
  Image result{image.width, image.height, std::vector<std::uint8_t>(image.pixels.size())};
  const geometry::Matrix3 back = inverse_affine(matrix);
  for (std::int64_t row = 0; row < result.height; ++row) {
    for (std::int64_t column = 0; column < result.width; ++column) {
      const double u = static_cast<double>(column) + 0.5, v = static_cast<double>(row) + 0.5;
      const double x = back[0] * u + back[1] * v + back[2] - 0.5, y = back[3] * u + back[4] * v + back[5] - 0.5;
      if (x <= -0.5 || y <= -0.5 || x >= static_cast<double>(image.width) - 0.5 ||
          y >= static_cast<double>(image.height) - 0.5)
        continue;
      const auto whole_x = static_cast<std::int64_t>(std::floor(x)), whole_y = static_cast<std::int64_t>(std::floor(y));
      const double fx = x - static_cast<double>(whole_x), fy = y - static_cast<double>(whole_y);
      const auto clamped = [](std::int64_t i, std::int64_t count) { return std::clamp<std::int64_t>(i, 0, count - 1); };
      const std::uint8_t* high = image.row(clamped(whole_y, image.height));
      const std::uint8_t* low = image.row(clamped(whole_y + 1, image.height));
      const std::int64_t left = 3 * clamped(whole_x, image.width), right = 3 * clamped(whole_x + 1, image.width);
      for (std::int64_t i = 0; i < 3; ++i) {
        const double top = high[left + i] + fx * (high[right + i] - high[left + i]);
        const double bottom = low[left + i] + fx * (low[right + i] - low[left + i]);
        result.row(row)[3 * column + i] = static_cast<std::uint8_t>(std::lround(top + fy * (bottom - top)));
      }
    }
  }
  return result;
}

bool is_mirror(const geometry::Matrix3& m, std::int64_t width) {
  return m == geometry::Matrix3{-1, 0, static_cast<double>(width), 0, 1, 0, 0, 0, 1};
}

Image mirrored(const Image& image) {
  Image result = image;
  for (std::int64_t row = 0; row < image.height; ++row)
    for (std::int64_t column = 0; column < image.width; ++column)
      std::copy_n(image.row(row) + 3 * (image.width - 1 - column), 3, result.row(row) + 3 * column);
  return result;
}

geometry::Vector3 moved(const geometry::Matrix4& m, const geometry::Vector3& p, double homogeneous) {
  geometry::Vector3 result{};
  for (std::size_t i = 0; i < 3; ++i)
    result[i] = m[4 * i] * p[0] + m[4 * i + 1] * p[1] + m[4 * i + 2] * p[2] + m[4 * i + 3] * homogeneous;
  return result;
}

void augment_world(KeyFrame& frame, const geometry::Matrix4& world) {
  const double scale = std::cbrt(std::abs((world[0] * world[5] - world[1] * world[4]) *
                                          world[10]));  // the matrix turns and mirrors in the plane alone
  for (LidarPoint& point : frame.points) {
    const geometry::Vector3 p = moved(world, {point.x, point.y, point.z}, 1);
    point.x = static_cast<float>(p[0]);
    point.y = static_cast<float>(p[1]);
    point.z = static_cast<float>(p[2]);
  }
  for (FrameObject& object : frame.objects) {
    const geometry::Vector3 heading = moved(world, {std::cos(object.box.yaw), std::sin(object.box.yaw), 0}, 0);
    object.box.center = moved(world, object.box.center, 1);
    object.box.yaw = std::atan2(heading[1], heading[0]);
    object.box.length *= scale;
    object.box.width *= scale;
    object.box.height *= scale;
    object.velocity = moved(world, object.velocity, 0);
  }
}

geometry::ImageCrop draw_crop(const AugmentationOptions& options, random::Stream stream) {
  geometry::ImageCrop crop;
  crop.scale = stream.uniform(options.image_scale_min, options.image_scale_max);
  crop.left_share = stream.uniform();
  crop.flip = options.image_flip && stream.chance(0.5);
  return crop;
}

}  // namespace

void AugmentationOptions::validate() const {
  const auto ordered = [](double low, double high, const char* name) {
    if (low > high)
      throw std::invalid_argument(std::string("[augmentation] ") + name + "_min must be at most " + name + "_max (" +
                                  std::to_string(high) + "), got " + std::to_string(low));
  };
  ordered(scale_min, scale_max, "scale");
  ordered(image_scale_min, image_scale_max, "image_scale");
}

AugmentationOptions AugmentationOptions::none() {
  return {.flip = false, .rotation = 0, .scale_min = 1, .scale_max = 1, .image_flip = false};
}

Augmentation draw_augmentation(const AugmentationOptions& options, const KeyFrame& frame,
                               const random::Stream& stream) {
  random::Stream draw = stream.at("world");
  const double mirror_x = options.flip && draw.chance(0.5) ? -1 : 1,
               mirror_y = options.flip && draw.chance(0.5) ? -1 : 1;
  const double angle = draw.uniform(-options.rotation, options.rotation) * kDegree;
  const double scale = draw.uniform(options.scale_min, options.scale_max);
  const double c = scale * std::cos(angle), s = scale * std::sin(angle);
  Augmentation result;
  random::Stream shift = stream.at("translation");
  const auto moved_by = [&] { return options.translation > 0 ? shift.normal(0, options.translation) : 0; };
  const double x = moved_by(), y = moved_by(), z = moved_by();
  result.world = {c * mirror_x, -s * mirror_y, 0, x, s * mirror_x, c * mirror_y, 0, y, 0, 0, scale, z, 0, 0, 0, 1};
  const bool whole = options.image_variation == ImageVariation::kBottom;
  if (whole) result.crop = draw_crop(options, stream.at("crop"));
  if (options.grid_mask > 0 && !frame.cameras.empty())
    result.grid_mask = draw_grid_mask(options.grid_mask, options.grid_mask_ratio, frame.cameras[0].camera.height,
                                      stream.at("grid_mask"));
  for (std::size_t i = 0; i < frame.cameras.size(); ++i) {
    random::Stream own = stream.at("picture").at(i);
    const bool flip = options.image_flip && own.chance(0.5) && !whole;
    const double turn = own.uniform(-options.image_rotation, options.image_rotation) * kDegree;
    const double size = whole ? 1 : own.uniform(options.image_scale_min, options.image_scale_max);
    const geometry::Camera& camera = frame.cameras[i].camera;
    result.images.push_back(
        turned_about(static_cast<double>(camera.width) / 2, static_cast<double>(camera.height) / 2, turn, size, flip));
  }
  return result;
}

void augment(KeyFrame& frame, const Augmentation& augmentation) {
  const geometry::Matrix4 back = geometry::inverse(augmentation.world);
  if (augmentation.world != geometry::kIdentity4) augment_world(frame, augmentation.world);
  for (std::size_t i = 0; i < frame.cameras.size(); ++i) {
    CameraView& view = frame.cameras[i];
    const geometry::Matrix3& a = augmentation.images[i];
    const geometry::Matrix4 pixels = {a[0], a[1], a[2], 0, a[3], a[4], a[5], 0, 0, 0, 1, 0, 0, 0, 0, 1};
    view.camera.lidar_to_image = geometry::multiply(geometry::multiply(pixels, view.camera.lidar_to_image), back);
    if (view.image.pixels.empty() || a == geometry::kIdentity3) continue;
    view.image = is_mirror(a, view.image.width) ? mirrored(view.image) : warped(view.image, a);
  }
}

}  // namespace camber::sensors
