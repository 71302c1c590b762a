#include "camber/detection/box_coding.h"

#include <gtest/gtest.h>

#include "camber/detection/detection.h"
#include "support/comparison.h"

namespace camber::detection {
namespace {

using camber::proof::close;

torch::Tensor a_box() {
  return torch::tensor({{1.0, -2.0, 0.5, 4.4, 1.9, 1.6, 2.5, 3.0, -1.0}}, torch::kDouble);
}

TEST(BoxCode, HoldsLogarithmsSineAndCosine) {
  const auto expected = torch::tensor(
      {{1.0, -2.0, 0.5, std::log(4.4), std::log(1.9), std::log(1.6), std::sin(2.5), std::cos(2.5), 3.0, -1.0}},
      torch::kDouble);
  EXPECT_TRUE(close(encode_boxes(a_box(), BoxCode::kCamber), expected, 1e-15));
}

TEST(BoxCode, PutsSizesBeforeHeightInCmtsOrder) {
  const auto code = encode_boxes(a_box(), BoxCode::kCmt);
  EXPECT_DOUBLE_EQ(code[0][2].item<double>(), std::log(4.4));
  EXPECT_DOUBLE_EQ(code[0][3].item<double>(), std::log(1.9));
  EXPECT_DOUBLE_EQ(code[0][height_index(BoxCode::kCmt)].item<double>(), 0.5);
}

TEST(BoxCode, DecodesWhatItEncodes) {
  for (const auto code : {BoxCode::kCamber, BoxCode::kCmt})
    EXPECT_TRUE(close(decode_boxes(encode_boxes(a_box(), code), code), a_box(), 1e-14));
}

TEST(ToGlobal, TurnsBoxAndVelocityWithTheCar) {
  const DetectorOptions options = DetectorOptions::small();
  const Detection found{.box = {.center = {2, 1, 0}, .length = 4, .width = 2, .height = 1.5, .yaw = 0.25},
                        .velocity = {1, 0},
                        .score = 0.75,
                        .label = 2};
  const nuscenes::SensorPose pose{
      .sensor_to_ego = {.translation = {0, 0, 1.8}},
      .ego_to_global = geometry::RigidTransform::from(geometry::Quaternion::from_yaw(M_PI / 2), {10, 20, 0})};
  const auto box = to_global(found, pose, options);
  EXPECT_NEAR(box.translation[0], 9, 1e-12);
  EXPECT_NEAR(box.translation[1], 22, 1e-12);
  EXPECT_NEAR(box.translation[2], 1.8, 1e-12);
  EXPECT_EQ(box.size, (geometry::Vector3{2, 4, 1.5}));
  const geometry::Quaternion rotation{box.rotation[0], box.rotation[1], box.rotation[2], box.rotation[3]};
  EXPECT_NEAR(rotation.yaw(), 0.25 + M_PI / 2, 1e-12);
  EXPECT_NEAR(box.velocity[0], 0, 1e-12);
  EXPECT_NEAR(box.velocity[1], 1, 1e-12);
  EXPECT_EQ(eval::name_of(box.label), "pedestrian");
  EXPECT_EQ(box.attribute, *eval::attribute_number("pedestrian.moving"));
  EXPECT_EQ(box.score, 0.75);
}

// The car stands on a slope and the LiDAR is tilted: the box keeps both, as nuScenes' tools turn it.
TEST(ToGlobal, KeepsTheWholeRotation) {
  const geometry::Quaternion sensor{0.7078, -0.0065, 0.0106, -0.7063}, ego{0.572, -0.0017, 0.0118, -0.8201};
  const nuscenes::SensorPose pose{.sensor_to_ego = geometry::RigidTransform::from(sensor, {0.9, 0, 1.8}),
                                  .ego_to_global = geometry::RigidTransform::from(ego, {411, 1180, 0})};
  const Detection found{.box = {.center = {9, -4, 0.2}, .length = 4, .width = 2, .height = 1.5, .yaw = -2.1},
                        .velocity = {0.1, 0.15},
                        .label = 0};
  const auto box = to_global(found, pose, DetectorOptions::small());
  const auto expected = ego * sensor * geometry::Quaternion::from_yaw(-2.1);
  const geometry::Quaternion rotation{box.rotation[0], box.rotation[1], box.rotation[2], box.rotation[3]};
  for (std::size_t i = 0; i < 9; ++i) EXPECT_NEAR(rotation.matrix()[i], expected.matrix()[i], 1e-14);
  EXPECT_EQ(box.attribute, *eval::attribute_number("vehicle.parked"));
}

TEST(WithinRange, MeasuresInThePlaneOfTheCar) {
  const auto options = DetectorOptions::reference();
  const nuscenes::SensorPose pose{.sensor_to_ego = {.translation = {1, 0, 5}}};
  const auto kept = [&](std::int64_t label, double x) {
    const Detection found{.box = {.center = {x, 0, 40}}, .label = label};
    return within_range(found, pose, options, {});
  };
  EXPECT_TRUE(kept(0, 49));  // a car: 50 m, its border included
  EXPECT_FALSE(kept(0, 49.001));
  EXPECT_TRUE(kept(9, 29));  // a cone: 30 m
  EXPECT_FALSE(kept(9, 29.001));
  eval::EvaluationConfig without;
  without.class_ranges = {{eval::DetectionClass::kTruck, 1}};
  EXPECT_TRUE(within_range({.box = {.center = {300, 0, 0}}, .label = 0}, pose, options, without));
}

TEST(LikelyAttribute, FollowsClassAndSpeed) {
  const auto name = [](eval::DetectionClass label, double speed) {
    const auto number = likely_attribute(label, speed);
    return number == eval::kNoAttribute ? "" : eval::kAttributeNames[static_cast<std::uint8_t>(number)];
  };
  EXPECT_EQ(name(eval::DetectionClass::kCar, 0.1), "vehicle.parked");
  EXPECT_EQ(name(eval::DetectionClass::kCar, 0.3), "vehicle.moving");
  EXPECT_EQ(name(eval::DetectionClass::kBus, 0.1), "vehicle.stopped");
  EXPECT_EQ(name(eval::DetectionClass::kPedestrian, 0), "pedestrian.standing");
  EXPECT_EQ(name(eval::DetectionClass::kBicycle, 3), "cycle.with_rider");
  EXPECT_EQ(name(eval::DetectionClass::kTrafficCone, 3), "");
}

}  // namespace
}  // namespace camber::detection
