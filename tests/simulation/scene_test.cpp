#include "camber/simulation/scene.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <gtest/gtest.h>

namespace camber::simulation {
namespace {

constexpr double kLead = 0.1;

std::vector<Scene> scenes(int count, const WorldOptions& options = {}) {
  std::vector<Scene> result;
  result.reserve(static_cast<std::size_t>(count));
  const random::Stream stream(11, "scene test");
  for (int i = 0; i < count; ++i)
    result.push_back(make_scene(options, kLead, i % 4 == 0, stream.at(static_cast<std::uint64_t>(i))));
  return result;
}

TEST(Path, FollowsTheArcThatSmallStepsFollow) {
  const Path path{.anchor = {3, -2, 0.4}, .anchor_time = 1, .speed = 5, .yaw_rate = 0.3};
  Pose walked = path.anchor;
  constexpr int kSteps = 200000;
  const double step = 4.0 / kSteps;
  for (int i = 0; i < kSteps; ++i) {
    walked.x += path.speed * step * std::cos(walked.yaw + path.yaw_rate * step / 2);
    walked.y += path.speed * step * std::sin(walked.yaw + path.yaw_rate * step / 2);
    walked.yaw += path.yaw_rate * step;
  }
  const Pose pose = path.at(5);
  EXPECT_NEAR(pose.x, walked.x, 1e-6);
  EXPECT_NEAR(pose.y, walked.y, 1e-6);
  EXPECT_NEAR(pose.yaw, walked.yaw, 1e-9);
  EXPECT_NEAR(path.at(1).x, 3, 1e-12);
}

TEST(Scene, HoldsTheAskedNumberOfObjectsRoundTheCarInEveryFrame) {
  const WorldOptions options;
  double total = 0;
  int frames = 0;
  for (const Scene& scene : scenes(40)) {
    for (std::int64_t frame = 0; frame < options.frames; ++frame, ++frames) {
      const double time = key_time(options, kLead, frame);
      const Pose ego = scene.ego.at(time);
      std::int64_t near = 0;
      for (const Actor& actor : scene.actors) {
        const Pose pose = actor.path.at(time);
        near += actor.labelled() && std::hypot(pose.x - ego.x, pose.y - ego.y) < options.radius ? 1 : 0;
      }
      EXPECT_GE(near, options.min_objects);
      EXPECT_LE(near, options.max_objects);
      total += static_cast<double>(near);
    }
  }
  EXPECT_NEAR(total / frames, 7.5, 1.0);
}

TEST(Scene, NothingStandsInAnything) {
  const WorldOptions options;
  for (const Scene& scene : scenes(20)) {
    for (std::int64_t frame = 0; frame < options.frames; ++frame) {
      const double time = key_time(options, kLead, frame);
      for (const Actor& a : scene.actors) {
        for (const Actor& b : scene.actors) {
          if (&a == &b) continue;
          const geometry::Box box = a.box_at(time);
          for (geometry::Vector3 corner : b.box_at(time).corners()) {
            corner[2] = box.center[2];
            EXPECT_FALSE(box.contains(corner));
          }
        }
      }
    }
  }
}

TEST(Scene, MixesClassesAndHandicapsAsAsked) {
  std::map<ActorKind, double> count;
  double labelled = 0, dark = 0, camouflaged = 0;
  for (const Scene& scene : scenes(150)) {
    for (const Actor& actor : scene.actors) {
      if (!actor.labelled()) continue;
      ++labelled;
      ++count[actor.kind];
      dark += actor.dark ? 1 : 0;
      camouflaged += actor.camouflaged ? 1 : 0;
      EXPECT_FALSE(actor.dark && actor.camouflaged);
    }
  }
  EXPECT_NEAR(count[ActorKind::kCar] / labelled, 0.35, 0.04);
  EXPECT_NEAR(count[ActorKind::kTruck] / labelled, 0.15, 0.04);
  EXPECT_NEAR(count[ActorKind::kPedestrian] / labelled, 0.28, 0.04);
  EXPECT_NEAR(count[ActorKind::kTrafficCone] / labelled, 0.22, 0.04);
  EXPECT_NEAR(dark / labelled, 0.15, 0.03);
  EXPECT_NEAR(camouflaged / labelled, 0.13, 0.03);
}

// The largest gap between two empirical distribution functions.
double gap(std::vector<double> a, std::vector<double> b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  double largest = 0;
  for (const double x : a) {
    const auto below = [x](const std::vector<double>& v) {
      return static_cast<double>(std::upper_bound(v.begin(), v.end(), x) - v.begin()) / static_cast<double>(v.size());
    };
    largest = std::max(largest, std::abs(below(a) - below(b)));
  }
  return largest;
}

TEST(Scene, SizeAndReflectivityDoNotTellAPedestrianFromACone) {
  std::map<ActorKind, std::vector<double>> height, length, reflectivity, red;
  for (const Scene& scene : scenes(150)) {
    for (const Actor& actor : scene.actors) {
      height[actor.kind].push_back(actor.height);
      length[actor.kind].push_back(actor.length);
      reflectivity[actor.kind].push_back(actor.reflectivity);
      if (!actor.camouflaged) red[actor.kind].push_back(0.5 * (actor.first_color[0] + actor.second_color[0]));
    }
  }
  // Kolmogorov-Smirnov at the 1 % level for samples of about 600 and 450: 1.63 * sqrt(1/600 + 1/450) = 0.10.
  for (auto* value : {&height, &length, &reflectivity, &red})
    EXPECT_LT(gap((*value)[ActorKind::kPedestrian], (*value)[ActorKind::kTrafficCone]), 0.10);
  // The value can tell classes apart that do differ.
  EXPECT_GT(gap(height[ActorKind::kCar], height[ActorKind::kTruck]), 0.9);
}

TEST(Scene, SameStreamSameSceneOtherStreamOtherTextures) {
  const std::vector<Scene> first = scenes(3), second = scenes(3);
  for (std::size_t i = 0; i < 3; ++i) {
    ASSERT_EQ(first[i].actors.size(), second[i].actors.size());
    for (std::size_t k = 0; k < first[i].actors.size(); ++k) {
      EXPECT_EQ(first[i].actors[k].texture_seed, second[i].actors[k].texture_seed);
      EXPECT_EQ(first[i].actors[k].path.anchor.x, second[i].actors[k].path.anchor.x);
    }
  }
  EXPECT_NE(first[0].actors[0].texture_seed, first[1].actors[0].texture_seed);
  EXPECT_TRUE(first[0].night);
  EXPECT_FALSE(first[1].night);
}

TEST(Scene, NightsAreSpreadEvenly) {
  for (const double offset : {0.0, 0.3, 0.99}) {
    int nights = 0;
    for (int i = 0; i < 100; ++i) nights += is_night(0.15, offset, i) ? 1 : 0;
    EXPECT_EQ(nights, 15);
  }
  EXPECT_FALSE(is_night(0, 0.5, 3));
  EXPECT_TRUE(is_night(1, 0.5, 3));
}

}  // namespace
}  // namespace camber::simulation
