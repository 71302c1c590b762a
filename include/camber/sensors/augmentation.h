#pragma once
#include <array>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "camber/config/field.h"
#include "camber/random/stream.h"
#include "camber/sensors/frame.h"
#include "camber/sensors/grid_mask.h"

namespace camber::sensors {

/// How images are scaled and mirrored. centre: the network's image, about its centre, each camera for itself. bottom:
/// the camera's own image is resized anew, its bottom rows stay and columns are cut at random, all cameras alike, as in
/// CMT's pipeline.
enum class ImageVariation { kCentre, kBottom };

}  // namespace camber::sensors

template <>
inline constexpr auto camber::config::enum_names<camber::sensors::ImageVariation> =
    std::array{std::pair{camber::sensors::ImageVariation::kCentre, std::string_view("centre")},
               std::pair{camber::sensors::ImageVariation::kBottom, std::string_view("bottom")}};

namespace camber::sensors {

/// How training varies a frame. The world is turned, mirrored, scaled and moved as a whole; the images are turned about
/// their centre, mirrored and scaled.
struct AugmentationOptions {
  bool flip = true;
  double rotation = 22.5;
  double scale_min = 0.95, scale_max = 1.05;
  double translation = 0;
  bool shuffle_points = false;
  bool image_flip = true;
  double image_rotation = 0;
  double image_scale_min = 1, image_scale_max = 1;
  ImageVariation image_variation = ImageVariation::kCentre;
  double grid_mask = 0;
  double grid_mask_ratio = 0.5;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("flip", flip, "mirror the world along x and along y, each in half of the samples");
    visitor("rotation", rotation, "turn the world by up to so many degrees either way", config::Range{0, 180});
    visitor("scale_min", scale_min, "smallest scale of the world", config::Range{.min = 0.1, .max = 10});
    visitor("scale_max", scale_max, "largest scale of the world", config::Range{.min = 0.1, .max = 10});
    visitor("translation", translation, "move the world along each axis by normal noise of this deviation, metres",
            config::Range{.min = 0, .max = 100});
    visitor("shuffle_points", shuffle_points,
            "put the points into another order: limits of a voxel then keep others of them");
    visitor("image_flip", image_flip, "mirror each image in half of the samples");
    visitor("image_rotation", image_rotation, "turn each image by up to so many degrees", config::Range{0, 45});
    visitor("image_scale_min", image_scale_min, "smallest scale of an image", config::Range{.min = 0.1, .max = 10});
    visitor("image_scale_max", image_scale_max, "largest scale of an image", config::Range{.min = 0.1, .max = 10});
    visitor("image_variation", image_variation,
            "centre: scale and mirror each image about its centre; bottom: resize, cut and mirror all anew, as CMT");
    visitor("grid_mask", grid_mask, "share of the samples whose images a grid of squares covers",
            config::Range{.min = 0, .max = 1});
    visitor("grid_mask_ratio", grid_mask_ratio, "share of the grid's period that stays uncovered, along each axis",
            config::Range{.min = 0.01, .max = 0.99});
  }
  void validate() const;
  /// Nothing varies.
  static AugmentationOptions none();
};

/// What is done to one frame: p' = world p on points, u' = image u on pixel coordinates (u, v, 1).
struct Augmentation {
  geometry::Matrix4 world = geometry::kIdentity4;
  std::vector<geometry::Matrix3> images{};  ///< per camera, on the network's image
  /// Bottom: how the network's images are taken from the cameras' own before that. The loader reads them anew.
  std::optional<geometry::ImageCrop> crop{};
  /// Covers the network's images after all else: detection::collate puts zeros there.
  std::optional<GridMask> grid_mask{};
};

/// Draws what to do. The same stream draws the same.
Augmentation draw_augmentation(const AugmentationOptions& options, const KeyFrame& frame, const random::Stream& stream);

/// Does it: points, boxes, velocities, images and projections change together, so that a box's corner falls onto the
/// same spot of the scene in the image as before. `lidar_to_image` becomes image * lidar_to_image * inverse(world);
/// with a crop the frame must have been loaded with it (FrameOptions::image_crop). KeyFrame::reference stays the pose
/// of the frame before. Parts of an image that nothing falls onto are black.
void augment(KeyFrame& frame, const Augmentation& augmentation);

}  // namespace camber::sensors
