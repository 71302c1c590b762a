#include "simulation/solids.h"

#include <gtest/gtest.h>

namespace camber::simulation {
namespace {

bool inside(const Part& part, Vector p) {
  const float x = (p.x - part.center[0]) / part.half[0], y = (p.y - part.center[1]) / part.half[1],
              z = (p.z - part.center[2]) / part.half[2];
  switch (part.shape) {
    case PartShape::kBox:
      return std::abs(x) <= 1 && std::abs(y) <= 1 && std::abs(z) <= 1;
    case PartShape::kCylinder:
      return x * x + y * y <= 1 && std::abs(z) <= 1;
    default:
      return x * x + y * y + z * z <= 1;
  }
}

class Solids : public testing::TestWithParam<PartShape> {};

// The definition: walk along the ray in small steps until the solid begins.
TEST_P(Solids, EnterAgreesWithWalkingAlongTheRay) {
  random::Stream stream(3, "solids");
  int hits = 0;
  for (int i = 0; i < 400; ++i) {
    const auto draw = [&stream](double low, double high) { return static_cast<float>(stream.uniform(low, high)); };
    const Part part{GetParam(), {draw(-1, 1), draw(-1, 1), draw(-1, 1)}, {draw(0.3, 2), draw(0.3, 2), draw(0.3, 2)}};
    const Vector origin{draw(-8, 8), draw(-8, 8), draw(-8, 8)};
    if (inside(part, origin)) continue;
    const Vector aim{draw(-2, 2), draw(-2, 2), draw(-2, 2)};
    const Vector direction = 0.1F * (aim - origin);
    float walked = kNoHit;
    for (float t = 0; t < 30; t += 0.002F) {
      if (!inside(part, origin + t * direction)) continue;
      walked = t;
      break;
    }
    const float entered = enter(part, origin, direction);
    if (walked == kNoHit) {
      // Walking may step over an edge; what enter() found must then be a graze.
      EXPECT_TRUE(entered == kNoHit || !inside(part, origin + (entered + 0.004F) * direction));
      continue;
    }
    ++hits;
    EXPECT_NEAR(entered, walked, 0.004) << i;
    const Vector point = origin + entered * direction, normal = normal_at(part, point);
    EXPECT_NEAR(dot(normal, normal), 1, 1e-4);
    EXPECT_LT(dot(normal, direction), 1e-3);
    EXPECT_FALSE(inside(part, point + 0.01F * normal));
    EXPECT_TRUE(inside(part, point - 0.01F * normal));
  }
  EXPECT_GT(hits, 100);
}

INSTANTIATE_TEST_SUITE_P(All, Solids, testing::Values(PartShape::kBox, PartShape::kCylinder, PartShape::kEllipsoid));

TEST(PlacedActor, IntoAndOutOfUndoEachOther) {
  Actor actor{.length = 4, .width = 2, .height = 1.5};
  actor.path.anchor = {10, 5, 0.7};
  const PlacedActor placed(actor, 0, 1, 2, 1.8);
  const Vector back = placed.out_of(placed.into({1, 2, 3}));
  EXPECT_NEAR(back.x, 1, 1e-6);
  EXPECT_NEAR(back.y, 2, 1e-6);
  EXPECT_NEAR(back.z, 3, 1e-6);
  EXPECT_NEAR(placed.center.x, 9, 1e-6);
  EXPECT_NEAR(placed.center.z, 0.75 - 1.8, 1e-6);
}

}  // namespace
}  // namespace camber::simulation
