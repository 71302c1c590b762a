#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include <gtest/gtest.h>

#include "camber/geometry/camera.h"
#include "camber/simulation/camera.h"
#include "camber/simulation/lidar.h"

namespace camber::simulation {
namespace {

constexpr double kSensorLead = 0.1, kTime = 1.1;

Scene scene_of(int index, bool night = false) {
  return make_scene({}, kSensorLead, night, random::Stream(5, "sensors").at(static_cast<std::uint64_t>(index)));
}

geometry::RigidTransform lidar_to_world(const Scene& scene, const LidarOptions& lidar) {
  return ego_to_world(scene, kTime) * lidar.to_ego();
}

TEST(Lidar, PointsLieOnTheirRingOnTheGroundOrInTheirBox) {
  const LidarOptions lidar;
  int of_actors = 0, inside = 0, ground = 0;
  for (int i = 0; i < 10; ++i) {
    const Scene scene = scene_of(i);
    const auto to_world = lidar_to_world(scene, lidar);
    for (const LidarReturn& p : sweep(scene, lidar, kTime, true, random::Stream(1, "sweep"))) {
      EXPECT_GE(p.intensity, 1);
      EXPECT_LE(p.intensity, 255);
      EXPECT_LE(std::hypot(p.x, p.y, p.z), lidar.max_range + 0.2);
      const geometry::Vector3 world = to_world.apply({p.x, p.y, p.z});
      if (p.actor < 0) {
        ++ground;
        EXPECT_NEAR(std::atan2(p.z, std::hypot(p.x, p.y)), lidar.elevation(p.ring), 1e-5);
        EXPECT_NEAR(world[2], 0, 0.06);
        continue;
      }
      const Actor& actor = scene.actors[static_cast<std::size_t>(p.actor)];
      if (!actor.labelled()) continue;
      ++of_actors;
      inside += actor.box_at(kTime).contains(world) ? 1 : 0;
    }
  }
  EXPECT_GT(ground, 10 * 2500);
  EXPECT_GT(of_actors, 1000);
  EXPECT_GT(inside, 0.95 * of_actors);
}

TEST(Lidar, DarkObjectsKeepOneToFourPointsAndWhatIsInSightHasOne) {
  const LidarOptions lidar;
  int dark_seen = 0, unseen = 0, in_sight = 0;
  for (int i = 0; i < 40; ++i) {
    const Scene scene = scene_of(i);
    std::vector<int> count(scene.actors.size());
    for (const LidarReturn& p : sweep(scene, lidar, kTime, true, random::Stream(1, "sweep")))
      if (p.actor >= 0) ++count[static_cast<std::size_t>(p.actor)];
    std::vector<double> visible(scene.actors.size());
    for (const CameraOptions& camera : RigOptions{}.cameras) {
      const View view = render(scene, camera, kTime, 0.025, 2, random::Stream(1, "view"));
      for (std::size_t k = 0; k < visible.size(); ++k) visible[k] += view.visible[k];
    }
    const Pose ego = scene.ego.at(kTime);
    for (std::size_t k = 0; k < scene.actors.size(); ++k) {
      const Pose pose = scene.actors[k].path.at(kTime);
      if (!scene.actors[k].labelled() || std::hypot(pose.x - ego.x, pose.y - ego.y) > 24) continue;
      if (scene.actors[k].dark) {
        EXPECT_LE(count[k], 4);
        dark_seen += count[k] > 0 ? 1 : 0;
      }
      if (visible[k] < 8) continue;
      ++in_sight;
      unseen += count[k] == 0 ? 1 : 0;
    }
  }
  EXPECT_GT(dark_seen, 20);
  EXPECT_GT(in_sight, 200);
  // The LiDAR stands a metre off the cameras: an object may hide from it alone, rarely.
  EXPECT_LE(unseen, 0.01 * in_sight);
}

TEST(Lidar, NoiseAndDropOutAreAsAsked) {
  LidarOptions quiet{.range_noise = 0, .drop_out = 0}, noisy{.range_noise = 0.03, .drop_out = 0};
  Scene scene = scene_of(2);
  scene.actors.clear();
  const auto exact = sweep(scene, quiet, kTime, true, random::Stream(1, "sweep"));
  const auto rough = sweep(scene, noisy, kTime, true, random::Stream(1, "sweep"));
  ASSERT_EQ(exact.size(), rough.size());
  double sum = 0, squares = 0, count = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double error =
        std::hypot(rough[i].x, rough[i].y, rough[i].z) - std::hypot(exact[i].x, exact[i].y, exact[i].z);
    sum += error, squares += error * error, ++count;
  }
  EXPECT_NEAR(sum / count, 0, 0.003);
  EXPECT_NEAR(std::sqrt(squares / count), 0.03, 0.002);
  LidarOptions lossy{.range_noise = 0, .drop_out = 0.5};
  const auto fewer = sweep(scene, lossy, kTime, true, random::Stream(1, "sweep"));
  const auto grounds = [](const std::vector<LidarReturn>& points) {
    return static_cast<double>(std::count_if(points.begin(), points.end(), [](const auto& p) { return p.actor < 0; }));
  };
  EXPECT_NEAR(grounds(fewer) / grounds(exact), 0.5, 0.05);
}

TEST(Lidar, LeavesLoseThreeReturnsInTen) {
  const LidarOptions lidar{.range_noise = 0, .drop_out = 0};
  double kept = 0, met = 0;
  for (int i = 0; i < 150; ++i) {
    Scene scene = scene_of(i);
    std::erase_if(scene.actors, [](const Actor& actor) { return actor.labelled(); });
    Scene solid = scene;
    for (Actor& actor : solid.actors) actor.kind = ActorKind::kTrafficCone;  // the same shape of another material
    const auto of_actors = [&](const Scene& world) {
      const auto points = sweep(world, lidar, kTime, false, random::Stream(static_cast<std::uint64_t>(i), "sweep"));
      return static_cast<double>(
          std::count_if(points.begin(), points.end(), [](const auto& p) { return p.actor >= 0; }));
    };
    kept += of_actors(scene);
    met += of_actors(solid);
  }
  EXPECT_GT(met, 1500);
  EXPECT_NEAR(kept / met, 0.7, 0.05);
}

// Where a world point falls on a camera's image.
geometry::Projection project(const Scene& scene, const CameraOptions& camera, double seconds,
                             const geometry::Vector3& p) {
  const geometry::Vector3 c = (ego_to_world(scene, seconds) * camera.to_ego()).inverse().apply(p);
  const geometry::Matrix3 k = camera.intrinsic();
  return {k[0] * c[0] / c[2] + k[2], k[4] * c[1] / c[2] + k[5], c[2]};
}

TEST(Camera, ObjectsAreDrawnWhereTheirBoxesProject) {
  int checked = 0;
  for (int i = 0; i < 10; ++i) {
    const Scene scene = scene_of(i);
    for (const CameraOptions& camera : RigOptions{}.cameras) {
      const View view = render(scene, camera, kTime, 0.025, 2, random::Stream(1, "view"));
      for (std::size_t k = 0; k < scene.actors.size(); ++k) {
        double left = 1e9, right = -1e9, top = 1e9, bottom = -1e9, nearest = 1e9;
        for (const geometry::Vector3& corner : scene.actors[k].box_at(kTime).corners()) {
          const geometry::Projection p = project(scene, camera, kTime, corner);
          nearest = std::min(nearest, p.depth);
          left = std::min(left, p.u), right = std::max(right, p.u), top = std::min(top, p.v),
          bottom = std::max(bottom, p.v);
        }
        if (nearest < 0.5) continue;
        double drawn_left = 1e9, drawn_right = -1e9;
        for (std::int64_t v = 0; v < camera.height; ++v) {
          for (std::int64_t u = 0; u < camera.width; ++u) {
            if (view.actor[static_cast<std::size_t>(v * camera.width + u)] != static_cast<std::int16_t>(k)) continue;
            EXPECT_GE(u + 1, left);
            EXPECT_LE(u, right);
            EXPECT_GE(v + 1, top);
            EXPECT_LE(v, bottom);
            drawn_left = std::min(drawn_left, static_cast<double>(u));
            drawn_right = std::max(drawn_right, static_cast<double>(u + 1));
          }
        }
        // Unhidden and whole on the image: the drawing fills its box, whose corners stand out beyond a round body.
        const bool whole = left > 0 && right < static_cast<double>(camera.width) && view.visible[k] > 20 &&
                           view.visible[k] == view.unoccluded[k];
        if (!whole) continue;
        ++checked;
        EXPECT_NEAR((drawn_left + drawn_right) / 2, (left + right) / 2, 1 + 0.05 * (right - left));
        const bool is_vehicle = scene.actors[k].kind <= ActorKind::kTruck;
        EXPECT_GE(drawn_right - drawn_left + 1, (is_vehicle ? 0.9 : 0.6) * (right - left));
      }
    }
  }
  EXPECT_GT(checked, 30);
}

TEST(Camera, TheNearerObjectHidesTheFarther) {
  Scene scene = scene_of(0);
  Actor far = scene.actors[0];
  for (const Actor& actor : scene.actors)
    if (actor.kind == ActorKind::kTruck) far = actor;
  const Pose ego = scene.ego.at(kTime);
  const auto ahead = [&](Actor actor, double metres) {
    actor.path = {.anchor = {ego.x + metres * std::cos(ego.yaw), ego.y + metres * std::sin(ego.yaw), ego.yaw + 1.57}};
    return actor;
  };
  scene.actors = {ahead(far, 18), ahead(far, 10)};
  const CameraOptions camera = RigOptions{}.cameras[0];
  const View view = render(scene, camera, kTime, 0.025, 2, random::Stream(1, "view"));
  EXPECT_GT(view.unoccluded[0], 50);
  EXPECT_LT(view.visible[0], 0.2 * view.unoccluded[0]);
  EXPECT_EQ(view.visible[1], view.unoccluded[1]);
  const auto points = sweep(scene, {}, kTime, true, random::Stream(1, "sweep"));
  const auto of = [&points](int actor) {
    return std::count_if(points.begin(), points.end(), [actor](const auto& p) { return p.actor == actor; });
  };
  EXPECT_LT(of(0), of(1) / 4);
}

double mean(const Image& image) {
  return std::accumulate(image.rgb.begin(), image.rgb.end(), 0.0) / static_cast<double>(image.rgb.size());
}

TEST(Camera, NightIsDarkAndTheSameStreamGivesTheSameImage) {
  const CameraOptions camera = RigOptions{}.cameras[0];
  const auto image = [&](bool night, int seed) {
    return render(scene_of(1, night), camera, kTime, 0.025, 2, random::Stream(static_cast<std::uint64_t>(seed), "view"))
        .image;
  };
  EXPECT_LT(mean(image(true, 1)), 35);
  EXPECT_GT(mean(image(false, 1)), 80);
  EXPECT_EQ(image(false, 1).rgb, image(false, 1).rgb);
  EXPECT_NE(image(false, 1).rgb, image(false, 2).rgb);
}

TEST(Camera, ShareInImagesIsOneInViewAndZeroWithoutCameras) {
  const Scene scene = scene_of(0);
  const Pose ego = scene.ego.at(kTime);
  const geometry::Box ahead{{ego.x + 14 * std::cos(ego.yaw), ego.y + 14 * std::sin(ego.yaw), 0.8}, 1, 1, 1.6, ego.yaw};
  EXPECT_EQ(share_in_images(scene, {}, ahead, kTime), 1);
  EXPECT_EQ(share_in_images(scene, {.cameras = {}}, ahead, kTime), 0);
  geometry::Box above = ahead;
  above.center[2] = 30;
  EXPECT_EQ(share_in_images(scene, {}, above, kTime), 0);
}

}  // namespace
}  // namespace camber::simulation
