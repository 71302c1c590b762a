#pragma once
#include <cstdint>
#include <vector>

#include "camber/simulation/rig.h"
#include "camber/simulation/scene.h"

namespace camber::simulation {

/// An image of bytes, rows from the top, three channels (red, green, blue) a pixel.
struct Image {
  std::int64_t width = 0, height = 0;
  std::vector<std::uint8_t> rgb{};
};

/// What one camera made of the scene: the image, and for every actor how many pixels it covers (fractions count, a
/// pixel is sampled several times) and how many it would cover if nothing stood before it. Both count only what falls
/// on the image.
struct View {
  Image image{};
  std::vector<double> visible{}, unoccluded{};
  /// The actor in the middle of each pixel, -1 for ground and sky; [height * width].
  std::vector<std::int16_t> actor{};
};

/// Ray-casts an image: nearest solid, its texture, sun and shade (day) or a dim even light with lamps (night), noise.
/// `noise` is the standard deviation of a pixel, 1 = white; `samples_per_side` squared rays are cast for each.
View render(const Scene& scene, const CameraOptions& camera, double seconds, double noise,
            std::int64_t samples_per_side, const random::Stream& stream);

/// The share of a box that lies on at least one of the images, from a lattice of 5 x 5 x 5 points; occlusion does not
/// count. `seconds` is when the box is looked at; every camera at its own time before it.
double share_in_images(const Scene& scene, const RigOptions& rig, const geometry::Box& box, double seconds);

/// The car's pose as a transform to the world.
geometry::RigidTransform ego_to_world(const Scene& scene, double seconds);

}  // namespace camber::simulation
