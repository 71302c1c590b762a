#include "camber/geometry/camera.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace camber::geometry {

bool Camera::has_projection() const {
  return std::any_of(
      lidar_to_image.begin(), lidar_to_image.end(), [](double element) { return element != 0; });
}

Projection Camera::project(const Vector3& p) const {
  const Matrix4& m = lidar_to_image;
  const double x = m[0] * p[0] + m[1] * p[1] + m[2] * p[2] + m[3];
  const double y = m[4] * p[0] + m[5] * p[1] + m[6] * p[2] + m[7];
  const double depth = m[8] * p[0] + m[9] * p[1] + m[10] * p[2] + m[11];
  if (depth == 0) return {x, y, 0};
  return {x / depth, y / depth, depth};
}

bool Camera::sees(const Projection& p) const {
  return p.depth > kMinimumDepth && p.u >= 0 && p.u < static_cast<double>(width) && p.v >= 0 &&
         p.v < static_cast<double>(height);
}

std::optional<Cell> Camera::cell_at(const Vector3& point) const {
  const Projection projection = project(point);
  if (!sees(projection)) return std::nullopt;
  // A stride that is no whole number may round the last pixel up to the border.
  return Cell{std::min(columns - 1, static_cast<std::int64_t>(std::floor(projection.u / stride_x()))),
              std::min(rows - 1, static_cast<std::int64_t>(std::floor(projection.v / stride_y())))};
}

void Camera::validate() const {
  const auto refuse = [this](const std::string& what) {
    throw std::invalid_argument("[Camera] camera '" + name + "': " + what);
  };
  if (width < 1 || height < 1)
    refuse("image must be at least 1 x 1, got " + std::to_string(width) + " x " + std::to_string(height));
  if (columns < 1 || rows < 1)
    refuse("feature map must be at least 1 x 1, got " + std::to_string(columns) + " x " + std::to_string(rows));
  for (const double element : lidar_to_image)
    if (!std::isfinite(element)) refuse("lidar_to_image must be finite, got " + std::to_string(element));
}

bool can_project(const Matrix3& k) {
  const double determinant =
      k[0] * (k[4] * k[8] - k[5] * k[7]) - k[1] * (k[3] * k[8] - k[5] * k[6]) + k[2] * (k[3] * k[7] - k[4] * k[6]);
  return std::isfinite(determinant) && std::abs(determinant) > 1e-12;
}

ImageTransform ImageTransform::fit_bottom(std::int64_t source_width, std::int64_t source_height, std::int64_t width,
                                          std::int64_t height, Resampling resampling) {
  return crop_bottom(source_width, source_height, width, height, {}, resampling);
}

ImageTransform ImageTransform::crop_bottom(std::int64_t source_width, std::int64_t source_height, std::int64_t width,
                                           std::int64_t height, const ImageCrop& crop, Resampling resampling) {
  if (source_width < 1 || source_height < 1 || width < 1 || height < 1)
    throw std::invalid_argument("[ImageTransform] sizes must be at least 1");
  if (!(crop.scale > 0) || !(crop.left_share >= 0 && crop.left_share <= 1))
    throw std::invalid_argument("[ImageTransform] crop must have a scale above 0 and a left_share in 0 .. 1, got " +
                                std::to_string(crop.scale) + " and " + std::to_string(crop.left_share));
  ImageTransform result{.width = width, .height = height, .flip = crop.flip, .resampling = resampling};
  result.resize = crop.scale * std::max(static_cast<double>(height) / static_cast<double>(source_height),
                                        static_cast<double>(width) / static_cast<double>(source_width));
  const std::int64_t surplus = std::max<std::int64_t>(0, result.resized(source_width) - width);
  result.crop_x = std::floor(crop.left_share * static_cast<double>(surplus));
  result.crop_y = static_cast<double>(result.resized(source_height) - height);
  return result;
}

Matrix3 ImageTransform::matrix() const {
  const double factor = resampling == Resampling::kBilinear ? static_cast<float>(resize) : resize;
  if (!flip) return {factor, 0, -crop_x, 0, factor, -crop_y, 0, 0, 1};
  return {-factor, 0, static_cast<double>(width) + crop_x, 0, factor, -crop_y, 0, 0, 1};
}

Matrix4 lidar_to_image(const RigidTransform& lidar_to_ego, const RigidTransform& ego_to_global_lidar,
                       const RigidTransform& camera_to_ego, const RigidTransform& ego_to_global_camera,
                       const Matrix3& intrinsic, const ImageTransform& image) {
  return lidar_to_image(camera_to_ego.inverse() * ego_to_global_camera.inverse() * ego_to_global_lidar * lidar_to_ego,
                        intrinsic, image);
}

Matrix4 lidar_to_image(const RigidTransform& lidar_to_camera, const Matrix3& intrinsic, const ImageTransform& image) {
  const Matrix3 k = multiply(image.matrix(), intrinsic);
  const Matrix4 pixels = {k[0], k[1], k[2], 0, k[3], k[4], k[5], 0, k[6], k[7], k[8], 0, 0, 0, 0, 1};
  return multiply(pixels, lidar_to_camera.matrix());
}

}  // namespace camber::geometry
