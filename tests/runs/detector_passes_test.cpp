// The passes of an evaluation: every one has the frames and the detections that it has alone.
#include <cmath>
#include <map>

#include <camber/runs/detector_options.h>
#include <camber/runs/detector_passes.h>
#include <gtest/gtest.h>

#include "sensors/simulated_world.h"

namespace camber::runs {
namespace {

using detection::TrustControl;

// Boxes and trust of every frame as numbers, by pass.
using Numbers = std::map<std::size_t, std::vector<double>>;

detection::Detector detector_with_cues() {
  detection::DetectorOptions options = detection::DetectorOptions::small();
  options.router.mode = nn::RouterMode::kLearned;
  options.head.cue_input = true;
  detection::Detector detector(options, 5);
  torch::NoGradGuard no_grad;
  detector->named_parameters()["head.cue_input.weight"].fill_(0.3);  // an untrained one is zero
  return detector;
}

nuscenes::Split some_frames() {
  nuscenes::Split split = tests::simulated_world().all;
  split.samples = evenly_spaced(split.samples, 3);
  return split;
}

Numbers numbers_of(const std::vector<DetectionPass>& passes, double absent_above_age = 0) {
  Numbers numbers;
  const DetectionRequest request{.dataset = tests::simulated_world().dataset,
                                 .split = some_frames(),
                                 .batch_size = 2,
                                 .absent_above_age = absent_above_age};
  run_passes(detector_with_cues(), request, passes, {.frame = [&numbers](DetectedFrame&& frame) {
               for (const detection::Detection& one : frame.found) {
                 auto& own = numbers[frame.pass];
                 own.insert(own.end(), {one.score, one.box.center[0], one.box.center[1], one.velocity[0]});
                 own.insert(own.end(), one.trust.begin(), one.trust.end());
               }
             }});
  return numbers;
}

const Condition kClean{}, kFrozen{sensors::parse_fault("frozen:5")}, kDark{sensors::parse_fault("dark:5")};

TEST(DetectorPasses, HaveTheDetectionsThatEachHasAlone) {
  const std::vector<DetectionPass> passes{{.condition = kClean},
                                          {.condition = kClean, .trust = TrustControl::kOracle},
                                          {.condition = kFrozen},
                                          {.condition = kFrozen, .trust = TrustControl::kShuffled},
                                          {.condition = kFrozen, .cues = kClean},
                                          {.condition = kClean, .cues = kFrozen}};
  const Numbers together = numbers_of(passes);
  ASSERT_EQ(together.size(), passes.size());
  for (std::size_t i = 0; i < passes.size(); ++i) EXPECT_EQ(numbers_of({passes[i]}).at(0), together.at(i)) << i;
  EXPECT_NE(together.at(0), together.at(2));
  EXPECT_NE(together.at(2), together.at(4)) << "the cues of clean frames must tell";
  EXPECT_NE(together.at(0), together.at(5)) << "the cues of frozen frames must tell";
}

// Whether the lender of the cues is loaded before or after the frames.
TEST(DetectorPasses, TakeCuesFromAConditionBeforeAndAfter) {
  const DetectionPass dark{.condition = kDark, .cues = kFrozen};
  EXPECT_EQ(numbers_of({{.condition = kFrozen}, dark}).at(1), numbers_of({dark, {.condition = kFrozen}}).at(0));
  EXPECT_EQ(numbers_of({{.condition = kDark, .cues = kDark}}), numbers_of({{.condition = kDark}}));
}

TEST(DetectorPasses, TakeOldSensorsOutByTheCuesThatAreGiven) {
  const DetectionPass alarmed{.condition = kClean, .cues = kFrozen};
  EXPECT_NE(numbers_of({alarmed}, 0.75), numbers_of({alarmed}));
}

// The frames of a condition are a function of the samples, the seed and its name, whoever evaluates.
TEST(DetectorPasses, RepeatDeliveriesOfTheFramesThatAreEvaluated) {
  const auto& world = tests::simulated_world();
  const nuscenes::Split split = some_frames();
  const Condition other{sensors::parse_fault("frozen:4:other_scene")};
  std::size_t frames = 0;
  const auto compare = [&](DetectedFrame&& frame) {
    const sensors::SensorFrame expected =
        sensors::load_sensor_frame(world.dataset, frame.origin.sample, detector_with_cues()->options().frame_options(),
                                   other, split.samples, random::Stream(0, "faults"));
    EXPECT_EQ(frame.sample->sensor_frame.sensors[1].source, expected.sensors[1].source);
    EXPECT_EQ(frame.sample->sensor_frame.frame.cameras[0].image.pixels, expected.frame.cameras[0].image.pixels);
    ++frames;
  };
  run_passes(detector_with_cues(), {.dataset = world.dataset, .split = split}, {{.condition = other}},
             {.frame = compare});
  EXPECT_EQ(frames, split.samples.size());
}

TEST(DetectorPasses, OneSceneTakesTheOthersOfItsSplit) {
  const auto& world = tests::simulated_world();
  nuscenes::Split split = some_frames();
  EXPECT_EQ(nuscenes::fault_pool(world.dataset, split), split.samples);
  split.samples.resize(1);
  EXPECT_EQ(nuscenes::fault_pool(world.dataset, split), world.all.samples);
}

// What a page shows of the sensors is what the pass's own policy makes of their alarms.
TEST(DetectorPasses, TellWhatBecameOfAlarms) {
  using detection::AlarmState;
  detection::Detector detector = detector_with_cues();
  detector->set_alarms({.threshold = -1});  // whatever is known speaks against an alarm
  DetectionRequest request{.dataset = tests::simulated_world().dataset, .split = some_frames(), .alarms = true};
  request.cue_errors = {.false_alarms = 1};
  std::size_t frames = 0;
  const auto look = [&](detection::TrustPolicy policy, AlarmState known, bool taken_out) {
    request.policy = policy;
    run_passes(detector, request, {{}}, {.frame = [&](DetectedFrame&& frame) {
                 ASSERT_EQ(frame.alarms.size(), 7U);
                 ASSERT_EQ(frame.camera_agreement.size(), 6U);
                 const bool is_known = !std::isnan(frame.agreement);
                 for (const detection::SensorAlarm& alarm : frame.alarms) {
                   EXPECT_EQ(alarm.age, 1);
                   EXPECT_EQ(alarm.state, is_known || known == AlarmState::kRaised ? known : AlarmState::kKept);
                   EXPECT_EQ(alarm.taken_out, taken_out || (!is_known && is_rule(policy)));
                 }
                 ++frames;
               }});
  };
  look(detection::TrustPolicy::kBias, AlarmState::kRaised, false);
  look(detection::TrustPolicy::kRule, AlarmState::kRaised, true);
  look(detection::TrustPolicy::kVerifiedRule, AlarmState::kDropped, false);
  EXPECT_EQ(frames, 9U);
  request.alarms = false;
  run_passes(detector, request, {{}}, {.frame = [](DetectedFrame&& frame) { EXPECT_TRUE(frame.alarms.empty()); }});
}

TEST(TrustControl, IsNamed) {
  EXPECT_EQ(trust_control("shuffled", "--trust"), TrustControl::kShuffled);
  try {
    trust_control("none", "[eval] --trust");
    ADD_FAILURE() << "none must be refused";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "[eval] --trust must be model, zero, mean, shuffled or oracle, got 'none'");
  }
}

}  // namespace
}  // namespace camber::runs
