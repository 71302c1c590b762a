#include "camber/sensors/gates.h"

#include <cmath>

#include <gtest/gtest.h>

#include "camber/sensors/cue_separation.h"
#include "camber/simulation/simulate.h"
#include "nuscenes/small_world.h"
#include "sensors/simulated_world.h"

namespace camber::sensors {
namespace {

using tests::simulated_frames;
using tests::simulated_world;

const PairProbe& pair_of(const GateReport& report, const std::string& first, const std::string& second) {
  for (const PairProbe& pair : report.pairs)
    if (pair.first == first && pair.second == second) return pair;
  throw std::runtime_error("no such pair");
}

GateReport simulated_report(const simulation::SimulationOptions& options, std::uint64_t seed) {
  const tests::TemporaryFolder folder;
  simulation::simulate(options, seed, 2, folder.path());
  const nuscenes::Dataset dataset(folder.path(), options.version);
  return inspect_gates(dataset, nuscenes::whole_data_set(dataset).samples, simulated_frames());
}

TEST(Gates, TheWorldsPairsAreConfusableForOneSensorEach) {
  simulation::SimulationOptions options{.scenes = 60};
  options.world.frames = 2;
  const GateReport report = simulated_report(options, 5);
  const PairProbe& upright = pair_of(report, "human.pedestrian.adult", "movable_object.trafficcone");
  EXPECT_NEAR(upright.size, 0.5, 0.1);
  EXPECT_NEAR(upright.lidar, 0.5, 0.12);
  EXPECT_NEAR(upright.color, 0.5, 0.1);
  EXPECT_GT(upright.image, 0.8);
  const PairProbe& vehicles = pair_of(report, "vehicle.car", "vehicle.truck");
  EXPECT_GT(vehicles.lidar, 0.9);
  EXPECT_NEAR(vehicles.color, 0.5, 0.12);
  EXPECT_LT(vehicles.image, vehicles.lidar - 0.15);
}

TEST(Gates, AreCountedConsistently) {
  const auto& world = simulated_world();
  const GateReport report = inspect_gates(world.dataset, world.all.samples, simulated_frames());
  EXPECT_EQ(report.frames, static_cast<std::int64_t>(world.all.samples.size()));
  ClassSight sum;
  for (const ClassSight& sight : report.classes) {
    EXPECT_EQ(sight.objects, sight.both + sight.lidar_only + sight.camera_only + sight.neither);
    sum.objects += sight.objects, sum.both += sight.both, sum.camera_only += sight.camera_only;
  }
  EXPECT_EQ(sum.objects, report.objects);
  EXPECT_EQ(sum.both, report.all.both);
  EXPECT_EQ(sum.camera_only, report.all.camera_only);
  EXPECT_NE(to_text(report).find("LiDAR only"), std::string::npos);
  EXPECT_NE(to_json(report).find("\"can_show_trust\""), std::string::npos);
}

TEST(Gates, AWorldInWhichEverySensorSeesAllFails) {
  simulation::SimulationOptions options{.scenes = 12};
  options.world.dark_share = 0;
  options.world.camouflage_share = 0;
  options.world.night_share = 0;
  options.world.radius = 12;
  const GateReport report = simulated_report(options, 5);
  EXPECT_FALSE(report.can_show_trust());
  EXPECT_FALSE(report.gates[1].holds) << report.gates[1].sentence;  // the cameras alone see hardly anything
}

TEST(AreaUnderCurve, CountsPairsAndHalvesTies) {
  EXPECT_EQ(area_under_curve({2, 3}, {0, 1}), 1);
  EXPECT_EQ(area_under_curve({0, 1}, {2, 3}), 0);
  EXPECT_EQ(area_under_curve({1}, {1}), 0.5);
  EXPECT_EQ(area_under_curve({1, 2}, {1, 3}), (0.5 + 0 + 1 + 0) / 4);
  EXPECT_EQ(area_under_curve({}, {1}), 0.5);
}

TEST(CueSeparation, EveryFaultThatCuesMustBetrayIsBetrayed) {
  const auto& world = simulated_world();
  std::vector<Fault> faults;
  for (const Fault& fault : cue_faults())
    if (fault.severity % 2 == 1) faults.push_back(fault);
  for (const CueSeparation& row : cue_separation(world.dataset, world.test.samples, simulated_frames(), faults, 3))
    EXPECT_GT(row.joint, row.fault == "dark:1" ? 0.8 : 0.95) << row.fault;
  // A fault that no cue can know of stays unseen.
  const std::vector<Fault> hidden = parse_faults("calibration:3");
  EXPECT_NEAR(cue_separation(world.dataset, world.test.samples, simulated_frames(), hidden, 3)[0].joint, 0.5, 0.01);
}

}  // namespace
}  // namespace camber::sensors
