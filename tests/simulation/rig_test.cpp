#include "camber/simulation/rig.h"

#include <cmath>

#include <gtest/gtest.h>

#include "camber/config/options.h"

namespace camber::simulation {
namespace {

void expect_near(const geometry::Vector3& a, const geometry::Vector3& b) {
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(a[i], b[i], 1e-12);
}

TEST(Rig, ACameraLooksWhereItsYawAndPitchPoint) {
  const CameraOptions ahead{.x = 1, .y = 2, .z = 3};
  expect_near(ahead.to_ego().apply({0, 0, 5}), {6, 2, 3});
  expect_near(ahead.to_ego().apply({1, 0, 0}), {1, 1, 3});  // right of the image is the car's right
  expect_near(ahead.to_ego().apply({0, 1, 0}), {1, 2, 2});  // down is down
  const CameraOptions left{.x = 0, .y = 0, .z = 0, .yaw = 90};
  expect_near(left.to_ego().apply({0, 0, 5}), {0, 5, 0});
  const CameraOptions down{.x = 0, .y = 0, .z = 0, .pitch = 30};
  expect_near(down.to_ego().apply({0, 0, 1}), {std::cos(M_PI / 6), 0, -0.5});
}

TEST(Rig, TheEdgeOfTheFieldOfViewFallsOnTheEdgeOfTheImage) {
  const CameraOptions camera{.field_of_view = 70, .width = 120, .height = 48, .horizon = 0.375};
  const geometry::Matrix3 k = camera.intrinsic();
  EXPECT_NEAR(k[0] * std::tan(35 * M_PI / 180) + k[2], 120, 1e-9);
  EXPECT_DOUBLE_EQ(k[5], 18);
}

TEST(Rig, TheLidarFrameHasYForward) {
  const LidarOptions lidar;
  expect_near(lidar.to_ego().rotate({0, 1, 0}), {1, 0, 0});
  expect_near(lidar.to_ego().rotate({1, 0, 0}), {0, -1, 0});
  EXPECT_NEAR(lidar.elevation(0), -20 * M_PI / 180, 1e-12);
  EXPECT_NEAR(lidar.elevation(19), 4 * M_PI / 180, 1e-12);
}

TEST(Rig, ReferenceIsNuScenesSize) {
  const RigOptions rig = RigOptions::reference();
  ASSERT_EQ(rig.cameras.size(), 6U);
  for (const CameraOptions& camera : rig.cameras) {
    EXPECT_EQ(camera.width, 1600);
    EXPECT_EQ(camera.height, 900);
    EXPECT_NEAR(camera.intrinsic()[0], camera.name == "CAM_BACK" ? 809 : 1267, 1);
  }
  EXPECT_EQ(rig.lidar.beams, 32);
}

TEST(Rig, AnyRigComesFromToml) {
  const auto rig = config::parse<RigOptions>(
      "[lidar]\nbeams = 8\n[[cameras]]\nname = \"WIDE\"\nwidth = 64\nheight = 32\nfield_of_view = 120.0\n", "rig.toml");
  ASSERT_EQ(rig.cameras.size(), 1U);
  EXPECT_EQ(rig.cameras[0].name, "WIDE");
  EXPECT_EQ(rig.cameras[0].width, 64);
  EXPECT_EQ(rig.lidar.beams, 8);
  EXPECT_EQ(config::parse<RigOptions>("cameras = []\n", "rig.toml").cameras.size(), 0U);
}

TEST(Rig, RefusesNamesThatCannotBeFoldersOfTheirOwn) {
  const auto message = [](const RigOptions& rig) {
    try {
      rig.validate();
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string("(no error)");
  };
  RigOptions rig;
  EXPECT_EQ(message(rig), "(no error)");
  rig.cameras[1].name = "CAM_FRONT";
  EXPECT_EQ(message(rig), "[rig] every sensor must have a name of its own, got 'CAM_FRONT' twice");
  rig.cameras[1].name = "../x";
  EXPECT_EQ(message(rig), "[rig] cameras.name must be letters, digits, '_' or '-', got '../x'");
  rig = {};
  rig.lidar.highest = -30;
  EXPECT_EQ(message(rig), "[rig] lidar.highest must be at least lidar.lowest (-20.000000), got -30.000000");
}

}  // namespace
}  // namespace camber::simulation
