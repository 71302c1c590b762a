#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "camber/geometry/bev_grid.h"
#include "camber/geometry/transform.h"

namespace camber::geometry {

/// Depth below which a point counts as not seen, in metres.
constexpr double kMinimumDepth = 0.1;

/// A point on the network's image.
struct Projection {
  double u = 0, v = 0, depth = 0;
};

/// One camera as the network sees it: the size of the image that enters the network, the matrix that takes a point
/// of the LiDAR frame at the key frame onto that image, and the size of the feature map that comes out.
struct Camera {
  std::string name{};
  std::int64_t width = 0, height = 0;
  std::int64_t columns = 0, rows = 0;
  Matrix4 lidar_to_image = kIdentity4;

  /// False where the matrix is all zero: it delivered nothing at this frame, and sees no point.
  bool has_projection() const;
  double stride_x() const { return static_cast<double>(width) / static_cast<double>(columns); }
  double stride_y() const { return static_cast<double>(height) / static_cast<double>(rows); }
  std::int64_t keys() const { return rows * columns; }

  /// p = M (x, y, z, 1); u = p0 / p2, v = p1 / p2, depth = p2. The division is skipped for a depth of zero.
  Projection project(const Vector3& point) const;
  /// depth > 0.1 m and 0 <= u < width and 0 <= v < height.
  bool sees(const Projection& projection) const;
  /// The feature cell of a point, or nothing when the camera does not see it.
  std::optional<Cell> cell_at(const Vector3& point) const;
  /// Refuses sizes below one and matrices that are not finite, in one sentence that names the camera.
  void validate() const;
};

/// Whether a camera's intrinsic matrix is finite and can be inverted, so that pixels have rays.
bool can_project(const Matrix3& intrinsic);

/// What makes a pixel of the network's image out of the camera's own. filtered: a bicubic filter as wide as the
/// shrinking asks for. bilinear: the four nearest pixels, however far it shrinks, in the fixed-point arithmetic of
/// OpenCV, which CMT's pipeline calls.
enum class Resampling { kFiltered, kBilinear };

/// How training varies the part of a camera's image that the network sees, as CMT's pipeline does.
struct ImageCrop {
  double scale = 1;         ///< times the resize that fits the image
  double left_share = 0.5;  ///< of the columns that are too many: the share that is cut off on the left
  bool flip = false;
  bool operator==(const ImageCrop&) const = default;
};

/// The resize and crop (and flip) that turn a camera's own image into the network's: u' = resize * u - crop_x,
/// mirrored at the target's width when `flip` is set.
struct ImageTransform {
  double resize = 1;
  double crop_x = 0, crop_y = 0;
  std::int64_t width = 0, height = 0;
  bool flip = false;
  Resampling resampling = Resampling::kFiltered;

  /// CMT's test-time rule: resize = max(height / source height, width / source width), the crop takes the bottom rows
  /// and the middle columns.
  static ImageTransform fit_bottom(std::int64_t source_width, std::int64_t source_height, std::int64_t width,
                                   std::int64_t height, Resampling resampling = Resampling::kFiltered);
  /// CMT's training rule: the same with `crop`'s scale of the resize, columns and flip. An image that got too small
  /// stands at the left and at the bottom.
  static ImageTransform crop_bottom(std::int64_t source_width, std::int64_t source_height, std::int64_t width,
                                    std::int64_t height, const ImageCrop& crop,
                                    Resampling resampling = Resampling::kFiltered);
  /// Pixels of the whole image after the resize and before the crop, along one side: floor(source * resize).
  std::int64_t resized(std::int64_t source) const {
    return static_cast<std::int64_t>(static_cast<double>(source) * resize);
  }
  /// The 3x3 matrix on homogeneous pixel coordinates. With bilinear resampling its resize is rounded to single
  /// precision, as in CMT's pipeline.
  Matrix3 matrix() const;
};

/// LiDAR frame at its own time -> camera image, through both sensors' ego poses:
/// intrinsic * inverse(camera_to_ego) * inverse(ego_to_global at the camera's time) * ego_to_global at the LiDAR's time
/// * lidar_to_ego, then `image`.
Matrix4 lidar_to_image(const RigidTransform& lidar_to_ego, const RigidTransform& ego_to_global_lidar,
                       const RigidTransform& camera_to_ego, const RigidTransform& ego_to_global_camera,
                       const Matrix3& intrinsic, const ImageTransform& image);
/// The same from the two sensors' relation alone: intrinsic * lidar_to_camera, then `image`.
Matrix4 lidar_to_image(const RigidTransform& lidar_to_camera, const Matrix3& intrinsic, const ImageTransform& image);

}  // namespace camber::geometry
