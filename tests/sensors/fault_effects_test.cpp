#include "camber/sensors/fault_effects.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "camber/sensors/sensor_frame.h"
#include "nuscenes/small_world.h"
#include "sensors/simulated_world.h"

namespace camber::sensors {
namespace {

using tests::message_of;
using tests::simulated_frames;
using tests::simulated_world;

// A sample in the middle of a day scene, with a past.
nuscenes::Index middle_sample() {
  const nuscenes::Tables& tables = simulated_world().dataset.tables();
  for (const nuscenes::Scene& scene : tables.scene) {
    if (scene.description != "simulated, day") continue;
    nuscenes::Index sample = scene.first_sample;
    for (int i = 0; i < 6; ++i) sample = tables.sample[sample].next;
    return sample;
  }
  return nuscenes::kNone;
}

SensorFrame load(const std::string& faults, std::uint64_t seed = 1, nuscenes::Index sample = middle_sample()) {
  const std::vector<Fault> list = parse_faults(faults);
  return load_sensor_frame(simulated_world().dataset, sample, simulated_frames(), list, simulated_world().all.samples,
                           random::Stream(seed, "faults"));
}

bool same_points(const SensorFrame& a, const SensorFrame& b) {
  return a.frame.points == b.frame.points;
}

bool same_images(const SensorFrame& a, const SensorFrame& b) {
  return std::equal(a.frame.cameras.begin(), a.frame.cameras.end(), b.frame.cameras.begin(),
                    [](const CameraView& x, const CameraView& y) { return x.image.pixels == y.image.pixels; });
}

bool same_projection(const SensorFrame& a, const SensorFrame& b) {
  return std::equal(
      a.frame.cameras.begin(), a.frame.cameras.end(), b.frame.cameras.begin(),
      [](const CameraView& x, const CameraView& y) { return x.camera.lidar_to_image == y.camera.lidar_to_image; });
}

double mean(const Image& image) {
  return std::accumulate(image.pixels.begin(), image.pixels.end(), 0.0) / static_cast<double>(image.pixels.size());
}

double difference(const Image& a, const Image& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.pixels.size(); ++i) sum += std::abs(int{a.pixels[i]} - int{b.pixels[i]});
  return sum / static_cast<double>(a.pixels.size());
}

struct Case {
  FaultKind kind;
  int severity;
};

class EveryFault : public testing::TestWithParam<Case> {
 protected:
  std::string text() const { return Fault{.kind = GetParam().kind, .severity = GetParam().severity}.text(); }
};

TEST_P(EveryFault, LeavesTheTruthAndTheOtherSensorsAlone) {
  const SensorFrame clean = load("none"), faulty = load(text());
  ASSERT_EQ(faulty.frame.objects.size(), clean.frame.objects.size());
  ASSERT_GT(clean.frame.objects.size(), 3U);
  for (std::size_t i = 0; i < clean.frame.objects.size(); ++i) {
    const FrameObject &a = clean.frame.objects[i], &b = faulty.frame.objects[i];
    EXPECT_EQ(a.annotation, b.annotation);
    EXPECT_EQ(a.box.center, b.box.center);
    EXPECT_EQ(a.box.yaw, b.box.yaw);
    EXPECT_EQ(a.lidar_points, b.lidar_points);
    EXPECT_EQ(a.visible_share, b.visible_share);
  }
  EXPECT_EQ(faulty.frame.timestamp, clean.frame.timestamp);
  const bool lidar = fault_row(GetParam().kind).sensor == "LiDAR";
  if (lidar) {
    EXPECT_TRUE(same_images(clean, faulty));
    EXPECT_TRUE(same_projection(clean, faulty));
    for (std::size_t i = 1; i < clean.sensors.size(); ++i) EXPECT_EQ(faulty.sensors[i].quality, 1);
  } else {
    EXPECT_TRUE(same_points(clean, faulty));
    EXPECT_EQ(faulty.sensors[0].quality, 1);
    EXPECT_TRUE(faulty.frame.lidar_available);
  }
}

TEST_P(EveryFault, ChangesWhatItNamesAndStatesItsQuality) {
  const SensorFrame clean = load("none"), faulty = load(text());
  const FaultRow& row = fault_row(GetParam().kind);
  const bool lidar = row.sensor == "LiDAR";
  if (lidar) {
    EXPECT_FALSE(same_points(clean, faulty));
    EXPECT_LE(faulty.sensors[0].quality, row.quality[static_cast<std::size_t>(GetParam().severity - 1)]);
    EXPECT_EQ(faulty.frame.lidar_available, !row.known);
  } else {
    EXPECT_FALSE(same_images(clean, faulty) && same_projection(clean, faulty));
    int hit = 0;
    for (std::size_t i = 1; i < faulty.sensors.size(); ++i) {
      if (faulty.sensors[i].quality == 1) continue;
      ++hit;
      EXPECT_EQ(faulty.sensors[i].quality, row.quality[static_cast<std::size_t>(GetParam().severity - 1)]);
      EXPECT_EQ(faulty.frame.cameras[i - 1].available, !row.known);
      EXPECT_EQ(faulty.sensors[i].available, !row.known);
    }
    const int expected =
        row.parameter == "share of cameras"
            ? std::max(1, static_cast<int>(std::ceil(6 * row.value[static_cast<std::size_t>(GetParam().severity - 1)])))
            : 6;
    EXPECT_EQ(hit, expected);
  }
}

TEST_P(EveryFault, SameSeedSameBytes) {
  const SensorFrame once = load(text()), again = load(text());
  EXPECT_TRUE(same_points(once, again));
  EXPECT_TRUE(same_images(once, again));
  EXPECT_TRUE(same_projection(once, again));
  for (std::size_t i = 0; i < once.sensors.size(); ++i)
    EXPECT_EQ(once.sensors[i].timestamp, again.sensors[i].timestamp);
}

std::vector<Case> every_case() {
  std::vector<Case> cases;
  for (const FaultRow& row : fault_table())
    for (int severity = 1; severity <= kSeverities; ++severity) cases.push_back({row.kind, severity});
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, EveryFault, testing::ValuesIn(every_case()), [](const auto& test) {
  return std::string(fault_row(test.param.kind).name) + "_" + std::to_string(test.param.severity);
});

TEST(Frozen, RepeatsTheImageOfSomeFramesAgo) {
  const nuscenes::Tables& tables = simulated_world().dataset.tables();
  const SensorFrame now = load("none");
  nuscenes::Index ago = middle_sample();
  for (int severity = 1; severity <= 3; ++severity) {
    ago = tables.sample[ago].previous;
    const SensorFrame then = load("none", 1, ago);
    const std::string text = "frozen:" + std::to_string(severity) + ":earlier";
    const SensorFrame honest = load(text), wrong = load(text + ":false_timestamps");
    EXPECT_TRUE(same_images(honest, then));
    EXPECT_TRUE(same_images(wrong, then));
    EXPECT_TRUE(same_projection(honest, now));
    for (std::size_t i = 1; i < now.sensors.size(); ++i) {
      EXPECT_EQ(honest.sensors[i].timestamp, then.sensors[i].timestamp);
      EXPECT_EQ(wrong.sensors[i].timestamp, now.sensors[i].timestamp);
      EXPECT_EQ(honest.sensors[i].held, severity);
      EXPECT_EQ(honest.sensors[i].source, ago);
      EXPECT_EQ(honest.sensors[i].quality, 0);
    }
  }
}

TEST(FaultOfSomeCameras, HitsAsManyAsItNamesAndFewerAmongThem) {
  const SensorFrame clean = load("none");
  const std::size_t count = clean.frame.cameras.size();
  for (const std::string kind : {"frozen:2", "dark:5", "calibration:3"}) {
    const SensorFrame whole = load(kind);
    std::vector<bool> fewer(count, false);
    for (std::size_t wanted = 1; wanted <= count; ++wanted) {
      const SensorFrame some = load(kind + ":cameras=" + std::to_string(wanted));
      std::size_t hit = 0;
      for (std::size_t i = 0; i < count; ++i) {
        const bool suffers = some.sensors[i + 1].quality < 1;
        hit += suffers;
        EXPECT_TRUE(suffers || !fewer[i]);
        fewer[i] = suffers;
        const SensorFrame& as = suffers ? whole : clean;
        EXPECT_EQ(some.frame.cameras[i].image.pixels, as.frame.cameras[i].image.pixels);
        EXPECT_EQ(some.frame.cameras[i].timestamp, as.frame.cameras[i].timestamp);
        EXPECT_EQ(some.frame.cameras[i].camera.lidar_to_image, as.frame.cameras[i].camera.lidar_to_image);
      }
      EXPECT_EQ(hit, wanted) << kind;
    }
  }
  EXPECT_EQ(message_of([] { load("dark:3:cameras=7"); }),
            "[fault] 'dark:3:cameras=7': cameras must be at most 6, the cameras of a frame, got 7");
}

TEST(Stale, RepeatsTheCloudOfSomeFramesAgoOrOfAnotherScene) {
  const nuscenes::Tables& tables = simulated_world().dataset.tables();
  const nuscenes::Index before = tables.sample[middle_sample()].previous;
  const SensorFrame then = load("none", 1, before), honest = load("stale:1:earlier"),
                    wrong = load("stale:1:earlier:false_timestamps");
  EXPECT_TRUE(same_points(honest, then));
  EXPECT_EQ(honest.sensors[0].timestamp, then.frame.timestamp);
  EXPECT_EQ(wrong.sensors[0].timestamp, wrong.frame.timestamp);
  EXPECT_DOUBLE_EQ(honest.sensors[0].quality, 0.8);
  const SensorFrame foreign = load("stale:1:other_scene");
  EXPECT_EQ(foreign.sensors[0].quality, 0);
  EXPECT_NE(tables.sample[foreign.sensors[0].source].scene, tables.sample[middle_sample()].scene);
  EXPECT_TRUE(same_points(foreign, load("none", 1, foreign.sensors[0].source)));
}

TEST(Stale, AFirstFrameTakesAnotherSceneOfThePoolOnly) {
  const auto& world = simulated_world();
  const nuscenes::Tables& tables = world.dataset.tables();
  const nuscenes::Index first = world.test.samples.front();
  ASSERT_EQ(tables.sample[first].previous, nuscenes::kNone);
  const std::vector<Fault> faults = parse_faults("stale:2:earlier");
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const SensorFrame sensor_frame = load_sensor_frame(world.dataset, first, simulated_frames(), faults,
                                                       world.test.samples, random::Stream(seed, "faults"));
    const nuscenes::Index source = sensor_frame.sensors[0].source;
    EXPECT_NE(std::find(world.test.samples.begin(), world.test.samples.end(), source), world.test.samples.end());
    EXPECT_NE(tables.sample[source].scene, tables.sample[first].scene);
  }
  const std::vector<nuscenes::Index> alone = {first};
  EXPECT_EQ(message_of([&] {
              load_sensor_frame(world.dataset, first, simulated_frames(), faults, alone, random::Stream(1, "faults"));
            }),
            "[fault] a frame to repeat must exist: the scene has no earlier one and the split no other scene");
}

TEST(ImageFaults, DoWhatTheirParameterSays) {
  const SensorFrame clean = load("none");
  const Image& before = clean.frame.cameras[0].image;
  for (int severity = 1; severity <= 5; ++severity) {
    const auto after = [&](const char* name) {
      return load(std::string(name) + ":" + std::to_string(severity)).frame.cameras[0].image;
    };
    const auto index = static_cast<std::size_t>(severity - 1);
    EXPECT_NEAR(mean(after("dark")) / mean(before), fault_row(FaultKind::kDark).value[index], 0.03);
    // The mean absolute difference of normal noise is 0.8 deviations; some of it is cut off at black and white.
    EXPECT_NEAR(difference(after("noise"), before) / 255, 0.8 * fault_row(FaultKind::kNoise).value[index],
                0.25 * fault_row(FaultKind::kNoise).value[index]);
    EXPECT_NEAR(mean(after("blur")), mean(before), 1.5);
    EXPECT_GT(mean(after("rain")), mean(before));
  }
  const Image black = load("black:5").frame.cameras[3].image;
  EXPECT_EQ(mean(black), 0);
}

TEST(ImageFaults, BlurHasTheStatedDeviation) {
  for (int severity = 1; severity <= 5; ++severity) {
    // The slope of a blurred edge is the filter itself.
    Image edge{.width = 200, .height = 80, .pixels = std::vector<std::uint8_t>(std::size_t{200} * 80 * 3)};
    for (std::int64_t y = 0; y < edge.height; ++y)
      for (std::int64_t x = 100; x < edge.width; ++x) edge.row(y)[3 * x] = 255;
    const Fault fault{.kind = FaultKind::kBlur, .severity = severity};
    degrade_image(edge, fault, random::Stream(1, "blur"));
    double mass = 0, center = 0, square = 0;
    for (std::int64_t x = 1; x < edge.width; ++x) {
      const double slope = int{edge.row(40)[3 * x]} - int{edge.row(40)[3 * x - 3]};
      mass += slope, center += slope * static_cast<double>(x), square += slope * static_cast<double>(x * x);
    }
    EXPECT_EQ(mass, 255);
    EXPECT_NEAR(std::sqrt(square / mass - std::pow(center / mass, 2)), fault.value() * 200, 0.15 * fault.value() * 200);
  }
}

TEST(PointFaults, DoWhatTheirParameterSays) {
  const SensorFrame clean = load("none");
  const auto all = static_cast<double>(clean.frame.points.size());
  for (int severity = 1; severity <= 5; ++severity) {
    const auto index = static_cast<std::size_t>(severity - 1);
    const auto after = [&](const char* name) {
      return load(std::string(name) + ":" + std::to_string(severity)).frame.points;
    };
    EXPECT_NEAR(static_cast<double>(after("dropped_points").size()) / all,
                1 - fault_row(FaultKind::kDroppedPoints).value[index], 0.03);
    const int step = static_cast<int>(fault_row(FaultKind::kBeams).value[index]);
    for (const LidarPoint& p : after("beams")) EXPECT_EQ(static_cast<int>(p.ring) % step, 1 % step);
    const double limit = fault_row(FaultKind::kLimitedView).value[index];
    for (const LidarPoint& p : after("limited_view"))
      EXPECT_LE(std::abs(std::atan2(p.x, p.y)) * 180 / M_PI, limit + 1e-3);
    const auto ghosts = after("ghost");
    const auto clusters = static_cast<std::size_t>(fault_row(FaultKind::kGhost).value[index]);
    EXPECT_GE(ghosts.size(), clean.frame.points.size() + 8 * clusters);
    EXPECT_TRUE(std::equal(clean.frame.points.begin(), clean.frame.points.end(), ghosts.begin()));
  }
  EXPECT_TRUE(load("empty").frame.points.empty());
  EXPECT_TRUE(load("empty").frame.lidar_available);
}

TEST(PointFaults, MoveOrDropObjectsAndNothingElse) {
  const SensorFrame clean = load("none"), shifted = load("shift:4"), dropped = load("dropped_objects:5");
  const auto in_object = [&clean](const LidarPoint& p) {
    return std::any_of(clean.frame.objects.begin(), clean.frame.objects.end(), [&p](const FrameObject& object) {
      return object.box.contains({p.x, p.y, p.z});
    });
  };
  ASSERT_EQ(shifted.frame.points.size(), clean.frame.points.size());
  int moved = 0;
  for (std::size_t i = 0; i < clean.frame.points.size(); ++i) {
    const LidarPoint &a = clean.frame.points[i], &b = shifted.frame.points[i];
    const double distance = std::hypot(a.x - b.x, a.y - b.y);
    EXPECT_NEAR(distance, in_object(a) ? 2.2 : 0, 1e-4);
    moved += distance > 1 ? 1 : 0;
  }
  EXPECT_GT(moved, 20);
  const auto outside = [&](const std::vector<LidarPoint>& points) {
    return std::count_if(points.begin(), points.end(), [&](const LidarPoint& p) { return !in_object(p); });
  };
  EXPECT_EQ(outside(dropped.frame.points), outside(clean.frame.points));
  EXPECT_LT(dropped.frame.points.size(), clean.frame.points.size());
}

TEST(Calibration, MovesProjectionsByTheAngleAndKeepsImages) {
  const SensorFrame clean = load("none"), turned = load("calibration:5");
  EXPECT_TRUE(same_images(clean, turned));
  const geometry::Vector3 ahead{0, 15, -1};
  const double moved =
      std::abs(clean.frame.cameras[0].camera.project(ahead).u - turned.frame.cameras[0].camera.project(ahead).u);
  // 6 degrees at a focal length of 85.7 pixels; the camera stands 0.8 m before the LiDAR.
  EXPECT_NEAR(moved, 85.7 * std::tan(6 * M_PI / 180), 1.2);
}

TEST(SceneDraws, StayTheSameWithinASceneOnly) {
  const auto& world = simulated_world();
  const nuscenes::Tables& tables = world.dataset.tables();
  const nuscenes::Index next = tables.sample[middle_sample()].next;
  const auto off = [](const SensorFrame& sensor_frame) {
    std::vector<bool> result;
    result.reserve(sensor_frame.frame.cameras.size());
    for (const CameraView& view : sensor_frame.frame.cameras) result.push_back(view.available);
    return result;
  };
  EXPECT_EQ(off(load("camera_off:3")), off(load("camera_off:3", 1, next)));
  std::set<std::vector<bool>> patterns;
  for (std::uint64_t seed = 0; seed < 20; ++seed) patterns.insert(off(load("camera_off:3", seed)));
  EXPECT_GT(patterns.size(), 3U);
}

TEST(TrustLabels, FollowPointsVisibilityAndQuality) {
  const SensorFrame clean = load("none");
  const auto labels = trust_labels(clean);
  ASSERT_EQ(labels.size(), clean.frame.objects.size());
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const FrameObject& object = clean.frame.objects[i];
    EXPECT_NEAR(labels[i].lidar, 2 * std::min(1.0, std::log1p(object.lidar_points) / std::log(21)) - 1, 1e-9);
    EXPECT_LE(labels[i].camera, 2 * *object.visible_share - 1 + 1e-9);
  }
  for (const TrustLabel& label : trust_labels(load("empty"))) EXPECT_EQ(label.lidar, -1);
  for (const TrustLabel& label : trust_labels(load("cameras_off"))) EXPECT_EQ(label.camera, -1);
  for (const TrustLabel& label : trust_labels(load("frozen"))) EXPECT_EQ(label.camera, -1);
  const auto dark = trust_labels(load("dark:2"));
  for (std::size_t i = 0; i < labels.size(); ++i) EXPECT_NEAR(dark[i].camera + 1, 0.6 * (labels[i].camera + 1), 1e-9);
}

}  // namespace
}  // namespace camber::sensors
