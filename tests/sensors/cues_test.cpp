#include "camber/sensors/cues.h"

#include <cmath>

#include <gtest/gtest.h>

#include "sensors/simulated_world.h"

namespace camber::sensors {
namespace {

using tests::simulated_frames;
using tests::simulated_world;

// A made-up sequence: one LiDAR cell pattern and one camera whose cells the caller chooses.
FrameSignature made(std::int64_t step, std::uint16_t value, double level, double metres = 1) {
  FrameSignature frame{.timestamp = step * 500000};
  frame.ego_to_global.translation = {static_cast<double>(step) * metres, 0, 0};
  frame.sensors.push_back({.available = true,
                           .timestamp = frame.timestamp,
                           .level = level,
                           .cells = std::vector<std::uint16_t>(10, value)});
  return frame;
}

TEST(Cues, AreNeutralWithoutAPast) {
  const auto cues = cues_of({}, made(0, 100, 50));
  EXPECT_EQ(cues[0].age, 0.5);
  EXPECT_EQ(cues[0].level, 0);
  EXPECT_EQ(cues[0].change, 1);
  EXPECT_TRUE(cues[0].available);
}

TEST(Cues, AStampTellsItsAgeAndARepetitionBetraysAFalseOne) {
  std::vector<FrameSignature> past = {made(0, 100, 50), made(1, 120, 50), made(2, 140, 50)};
  EXPECT_EQ(cues_of(past, made(3, 160, 50))[0].age, 0);
  EXPECT_NEAR(cues_of(past, made(3, 160, 50))[0].change, 1, 1e-9);
  FrameSignature late = made(3, 160, 50);
  late.sensors[0].timestamp -= 500000;
  EXPECT_EQ(cues_of(past, late)[0].age, 1);
  late.sensors[0].timestamp = late.timestamp - 300000;
  EXPECT_NEAR(cues_of(past, late)[0].age, 0.5, 1e-9);
  EXPECT_EQ(cues_of(past, made(3, 140, 50))[0].age, 1);           // the same cells again
  EXPECT_EQ(cues_of({&past[0], 1}, made(1, 100, 50))[0].age, 1);  // even with a past of one
  EXPECT_EQ(cues_of({&past[0], 1}, made(1, 101, 50))[0].age, 0);
}

TEST(Cues, ExpectMoreChangeOfAMovingCar) {
  // The past: a change of 20 cells' units a metre of motion.
  std::vector<FrameSignature> past = {made(0, 100, 50), made(1, 130, 50), made(2, 160, 50)};
  FrameSignature now = made(3, 165, 50);
  const double ratio = 5.0 / 30;
  EXPECT_NEAR(cues_of(past, now)[0].change, ratio, 1e-9);
  EXPECT_NEAR(cues_of(past, now)[0].age, 1 - ratio / 0.5, 1e-9);
  now.ego_to_global.translation = past.back().ego_to_global.translation;  // the car stopped: a third of it is expected
  EXPECT_NEAR(cues_of(past, now)[0].change, 0.5, 1e-9);
  EXPECT_NEAR(cues_of(past, now)[0].age, 0, 1e-9);
}

TEST(Cues, LevelIsALogarithmOfTheRatioToTheRunningMean) {
  const std::vector<FrameSignature> past = {made(0, 100, 99), made(1, 120, 99)};
  EXPECT_NEAR(cues_of(past, made(2, 140, 49))[0].level, std::log(0.5) / std::log(4), 1e-9);
  EXPECT_EQ(cues_of(past, made(2, 140, 10))[0].level, -1);
  EXPECT_EQ(cues_of(past, made(2, 140, 999))[0].level, 1);
  EXPECT_EQ(cues_of({}, made(0, 0, 0))[0].level, -1);  // black is black without any past
}

TEST(Cues, AnUnavailableSensorSaysSo) {
  FrameSignature now = made(1, 100, 50);
  now.sensors[0].available = false;
  const auto cues = cues_of({}, now);
  EXPECT_FALSE(cues[0].available);
  EXPECT_EQ(cues[0].age, 1);
  EXPECT_EQ(cues[0].level, -1);
}

TEST(Cues, OfCleanSequencesAreSteady) {
  const auto& world = simulated_world();
  CueTracker tracker;
  const nuscenes::Tables& tables = world.dataset.tables();
  int frames = 0, late = 0, off_level = 0;
  for (const nuscenes::Index sample : world.all.samples) {
    if (tables.sample[sample].previous == nuscenes::kNone) tracker.reset();
    const auto cues = tracker.next(clean_sensor_frame(load_key_frame(world.dataset, sample, simulated_frames())));
    ASSERT_EQ(cues.size(), 7U);
    for (const SensorCues& cue : cues) {
      ++frames;
      EXPECT_TRUE(tables.sample[sample].previous != nuscenes::kNone || cue.age == 0.5);
      late += cue.age > 0.5 ? 1 : 0;
      off_level += std::abs(cue.level) > 0.3 ? 1 : 0;
    }
  }
  EXPECT_LE(late, 0.02 * frames);
  EXPECT_LE(off_level, 0.02 * frames);
}

TEST(CueMaker, AgreesWithTheTrackerOnCleanSequences) {
  const auto& world = simulated_world();
  const nuscenes::Tables& tables = world.dataset.tables();
  CueTracker tracker;
  CueMaker maker(world.dataset, simulated_frames());
  for (const nuscenes::Index sample : world.test.samples) {
    if (tables.sample[sample].previous == nuscenes::kNone) tracker.reset();
    const SensorFrame sensor_frame = clean_sensor_frame(load_key_frame(world.dataset, sample, simulated_frames()));
    const auto one = tracker.next(sensor_frame), other = maker.cues(sensor_frame);
    for (std::size_t i = 0; i < one.size(); ++i) {
      EXPECT_EQ(one[i].age, other[i].age);
      EXPECT_EQ(one[i].level, other[i].level);
      EXPECT_EQ(one[i].change, other[i].change);
    }
  }
}

TEST(CueMaker, SeesFrozenAndStaleSensorsThatLie) {
  const auto& world = simulated_world();
  const nuscenes::Tables& tables = world.dataset.tables();
  CueMaker maker(world.dataset, simulated_frames());
  for (const char* text : {"frozen:2:false_timestamps", "stale:3:false_timestamps"}) {
    const std::vector<Fault> faults = parse_faults(text);
    const std::size_t sensor = faults[0].is_lidar() ? 0 : 1;
    for (const nuscenes::Index sample : world.test.samples) {
      if (tables.sample[sample].previous == nuscenes::kNone) continue;
      const SensorFrame sensor_frame = load_sensor_frame(world.dataset, sample, simulated_frames(), faults,
                                                         world.test.samples, random::Stream(4, "faults"));
      const auto cues = maker.cues(sensor_frame);
      EXPECT_EQ(cues[sensor].age, 1) << text;
      EXPECT_LT(cues[1 - sensor].age, 1);
    }
  }
}

}  // namespace
}  // namespace camber::sensors
