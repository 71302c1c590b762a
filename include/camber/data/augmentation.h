#pragma once
#include <vector>

#include "camber/config/field.h"
#include "camber/data/frame.h"
#include "camber/random/stream.h"

namespace camber::data {

/// How training varies a frame. The world is turned, mirrored and scaled as a whole; each picture is turned, mirrored
/// and scaled about its centre.
struct AugmentationOptions {
  bool flip = true;
  double rotation = 22.5;
  double scale_min = 0.95, scale_max = 1.05;
  bool picture_flip = true;
  double picture_rotation = 0;
  double picture_scale_min = 1, picture_scale_max = 1;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("flip", flip, "mirror the world along x and along y, each in half of the samples");
    visitor("rotation", rotation, "turn the world by up to so many degrees either way", config::Range{0, 180});
    visitor("scale_min", scale_min, "smallest scale of the world", config::Range{.min = 0.1, .max = 10});
    visitor("scale_max", scale_max, "largest scale of the world", config::Range{.min = 0.1, .max = 10});
    visitor("picture_flip", picture_flip, "mirror each picture in half of the samples");
    visitor("picture_rotation", picture_rotation, "turn each picture by up to so many degrees", config::Range{0, 45});
    visitor("picture_scale_min", picture_scale_min, "smallest scale of a picture",
            config::Range{.min = 0.1, .max = 10});
    visitor("picture_scale_max", picture_scale_max, "largest scale of a picture", config::Range{.min = 0.1, .max = 10});
  }
  void validate() const;
  /// Nothing varies.
  static AugmentationOptions none();
};

/// What was done to one frame: p' = world p on points, u' = picture u on pixel coordinates (u, v, 1).
struct Augmentation {
  geometry::Matrix4 world = geometry::kIdentity4;
  std::vector<geometry::Matrix3> pictures{};  ///< per camera
};

/// Draws what to do. The same stream draws the same.
Augmentation draw_augmentation(const AugmentationOptions& options, const Frame& frame, const random::Stream& stream);

/// Does it: points, boxes, velocities, pictures and projections change together, so that a box's corner falls onto the
/// same spot of the scene in the picture as before. `lidar_to_image` becomes picture * lidar_to_image * inverse(world).
/// Frame::reference stays the pose of the frame before. Parts of a picture that nothing falls onto are black.
void augment(Frame& frame, const Augmentation& augmentation);

}  // namespace camber::data
