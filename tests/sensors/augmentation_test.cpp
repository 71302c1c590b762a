#include "camber/sensors/augmentation.h"

#include <cmath>

#include <gtest/gtest.h>

#include "nuscenes/small_world.h"
#include "sensors/simulated_world.h"

namespace camber::sensors {
namespace {

using tests::message_of;
using tests::simulated_frames;
using tests::simulated_world;

const AugmentationOptions kStrong{.flip = true,
                                  .rotation = 180,
                                  .scale_min = 0.8,
                                  .scale_max = 1.25,
                                  .image_flip = true,
                                  .image_rotation = 20,
                                  .image_scale_min = 0.8,
                                  .image_scale_max = 1.25};

KeyFrame load(std::size_t i) {
  return load_key_frame(simulated_world().dataset, simulated_world().all.samples[i], simulated_frames());
}

geometry::Projection through(const geometry::Matrix3& a, const geometry::Projection& p) {
  return {a[0] * p.u + a[1] * p.v + a[2], a[3] * p.u + a[4] * p.v + a[5], p.depth};
}

TEST(Augmentation, ABoxsCornersFallWhereTheirPixelsWent) {
  int checked = 0;
  for (std::size_t i = 0; i < 12; ++i) {
    const KeyFrame before = load(i);
    KeyFrame after = before;
    const Augmentation change = draw_augmentation(kStrong, before, random::Stream(i, "augment"));
    augment(after, change);
    for (std::size_t k = 0; k < before.objects.size(); ++k) {
      // Mirroring swaps left and right corners: compare the corners as sets.
      const auto old_corners = before.objects[k].box.corners(), new_corners = after.objects[k].box.corners();
      for (std::size_t c = 0; c < before.cameras.size(); ++c) {
        for (const geometry::Vector3& corner : old_corners) {
          const geometry::Projection seen = before.cameras[c].camera.project(corner);
          if (seen.depth < 1) continue;
          const geometry::Projection expected = through(change.images[c], seen);
          double nearest = 1e9;
          for (const geometry::Vector3& other : new_corners) {
            const geometry::Projection found = after.cameras[c].camera.project(other);
            nearest = std::min(
                nearest, std::hypot(found.u - expected.u, found.v - expected.v) + std::abs(found.depth - seen.depth));
          }
          EXPECT_LT(nearest, 1e-6);
          ++checked;
        }
      }
    }
  }
  EXPECT_GT(checked, 1000);
}

TEST(Augmentation, PointsStayInTheirBoxesAndVelocitiesTurnAlong) {
  for (std::size_t i = 0; i < 6; ++i) {
    const KeyFrame before = load(i);
    KeyFrame after = before;
    const Augmentation change = draw_augmentation(kStrong, before, random::Stream(i, "augment"));
    augment(after, change);
    const double scale = after.objects[0].box.length / before.objects[0].box.length;
    for (std::size_t k = 0; k < before.objects.size(); ++k) {
      const FrameObject &old_object = before.objects[k], &new_object = after.objects[k];
      int disagree = 0, inside = 0;
      for (std::size_t p = 0; p < before.points.size(); ++p) {
        const LidarPoint &a = before.points[p], &b = after.points[p];
        const bool was = old_object.box.contains({a.x, a.y, a.z}), is = new_object.box.contains({b.x, b.y, b.z});
        inside += was ? 1 : 0;
        disagree += was != is ? 1 : 0;
      }
      EXPECT_LE(disagree, 1) << inside;  // rounding on a face
      if (std::isnan(old_object.velocity[0])) continue;
      const double speed = std::hypot(old_object.velocity[0], old_object.velocity[1]);
      EXPECT_NEAR(std::hypot(new_object.velocity[0], new_object.velocity[1]), scale * speed, 1e-9);
      // The angle between heading and velocity is kept, up to a mirror's sign.
      if (speed < 0.1) continue;
      const auto angle = [](const FrameObject& object) {
        return std::remainder(std::atan2(object.velocity[1], object.velocity[0]) - object.box.yaw, 2 * M_PI);
      };
      EXPECT_NEAR(std::abs(angle(old_object)), std::abs(angle(new_object)), 1e-9);
    }
  }
}

// An image with one bright spot: it must appear where the matrix says.
TEST(Augmentation, ImagesMoveAsTheirMatrixSays) {
  for (std::size_t i = 0; i < 10; ++i) {
    KeyFrame frame = load(0);
    Image& image = frame.cameras[2].image;
    std::fill(image.pixels.begin(), image.pixels.end(), std::uint8_t{0});
    for (std::int64_t y = 20; y < 23; ++y)
      for (std::int64_t x = 70; x < 73; ++x) image.row(y)[3 * x] = 200;
    const Augmentation change = draw_augmentation(kStrong, frame, random::Stream(i, "augment"));
    augment(frame, change);
    double mass = 0, u = 0, v = 0;
    for (std::int64_t y = 0; y < image.height; ++y) {
      for (std::int64_t x = 0; x < image.width; ++x) {
        mass += image.row(y)[3 * x];
        u += image.row(y)[3 * x] * (static_cast<double>(x) + 0.5);
        v += image.row(y)[3 * x] * (static_cast<double>(y) + 0.5);
      }
    }
    const geometry::Projection expected = through(change.images[2], {71.5, 21.5, 1});
    EXPECT_NEAR(u / mass, expected.u, 0.1);
    EXPECT_NEAR(v / mass, expected.v, 0.1);
  }
}

TEST(Augmentation, AMirroredImageIsExact) {
  for (std::size_t i = 0; i < 6; ++i) {
    const KeyFrame before = load(1);
    KeyFrame after = before;
    AugmentationOptions options = AugmentationOptions::none();
    options.image_flip = true;
    const Augmentation change = draw_augmentation(options, before, random::Stream(i, "augment"));
    augment(after, change);
    for (std::size_t c = 0; c < before.cameras.size(); ++c) {
      const Image &a = before.cameras[c].image, &b = after.cameras[c].image;
      const bool flipped = change.images[c][0] < 0;
      for (std::int64_t x = 0; x < a.width; ++x)
        EXPECT_EQ(a.row(17)[3 * x + 1], b.row(17)[3 * (flipped ? a.width - 1 - x : x) + 1]);
    }
  }
}

TEST(Augmentation, NoneChangesNothing) {
  const KeyFrame before = load(3);
  KeyFrame after = before;
  const Augmentation change = draw_augmentation(AugmentationOptions::none(), before, random::Stream(1, "augment"));
  augment(after, change);
  EXPECT_EQ(change.world, geometry::kIdentity4);
  EXPECT_EQ(after.points, before.points);
  for (std::size_t c = 0; c < before.cameras.size(); ++c) {
    EXPECT_EQ(after.cameras[c].image.pixels, before.cameras[c].image.pixels);
    for (std::size_t k = 0; k < 16; ++k)
      EXPECT_NEAR(after.cameras[c].camera.lidar_to_image[k], before.cameras[c].camera.lidar_to_image[k], 1e-12);
  }
}

TEST(Augmentation, RefusesBoundsInTheWrongOrder) {
  AugmentationOptions options;
  options.scale_min = 2;
  EXPECT_EQ(message_of([&] { options.validate(); }),
            "[augmentation] scale_min must be at most scale_max (1.050000), got 2.000000");
}

}  // namespace
}  // namespace camber::sensors
