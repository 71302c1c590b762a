#pragma once
#include <vector>

#include "camber/config/field.h"
#include "camber/random/stream.h"
#include "camber/sensors/frame.h"

namespace camber::sensors {

/// How training varies a frame. The world is turned, mirrored and scaled as a whole; each image is turned, mirrored
/// and scaled about its centre.
struct AugmentationOptions {
  bool flip = true;
  double rotation = 22.5;
  double scale_min = 0.95, scale_max = 1.05;
  bool image_flip = true;
  double image_rotation = 0;
  double image_scale_min = 1, image_scale_max = 1;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("flip", flip, "mirror the world along x and along y, each in half of the samples");
    visitor("rotation", rotation, "turn the world by up to so many degrees either way", config::Range{0, 180});
    visitor("scale_min", scale_min, "smallest scale of the world", config::Range{.min = 0.1, .max = 10});
    visitor("scale_max", scale_max, "largest scale of the world", config::Range{.min = 0.1, .max = 10});
    visitor("image_flip", image_flip, "mirror each image in half of the samples");
    visitor("image_rotation", image_rotation, "turn each image by up to so many degrees", config::Range{0, 45});
    visitor("image_scale_min", image_scale_min, "smallest scale of an image", config::Range{.min = 0.1, .max = 10});
    visitor("image_scale_max", image_scale_max, "largest scale of an image", config::Range{.min = 0.1, .max = 10});
  }
  void validate() const;
  /// Nothing varies.
  static AugmentationOptions none();
};

/// What was done to one frame: p' = world p on points, u' = image u on pixel coordinates (u, v, 1).
struct Augmentation {
  geometry::Matrix4 world = geometry::kIdentity4;
  std::vector<geometry::Matrix3> images{};  ///< per camera
};

/// Draws what to do. The same stream draws the same.
Augmentation draw_augmentation(const AugmentationOptions& options, const KeyFrame& frame, const random::Stream& stream);

/// Does it: points, boxes, velocities, images and projections change together, so that a box's corner falls onto the
/// same spot of the scene in the image as before. `lidar_to_image` becomes image * lidar_to_image * inverse(world).
/// KeyFrame::reference stays the pose of the frame before. Parts of an image that nothing falls onto are black.
void augment(KeyFrame& frame, const Augmentation& augmentation);

}  // namespace camber::sensors
