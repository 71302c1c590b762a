#include "camber/sensors/cue_errors.h"

#include <gtest/gtest.h>

#include "camber/sensors/fault.h"
#include "nuscenes/small_world.h"

namespace camber::sensors {
namespace {

using tests::message_of;

// LiDAR and two cameras.
std::vector<SensorCues> cues_with(double lidar, double cameras) {
  return {{.age = lidar, .level = 0.25}, {.age = cameras}, {.age = cameras}};
}

struct Shares {
  double lidar = 0, cameras = 0, both = 0, repeated = 0;  // ages above an alarm's; frames like the one before
};

Shares shares_of(const CueErrorOptions& options, double lidar, double cameras) {
  constexpr std::int64_t kScenes = 500, kFrames = 20;
  Shares shares;
  for (std::uint64_t scene = 0; scene < kScenes; ++scene) {
    bool before = false;
    for (std::int64_t frame = 0; frame < kFrames; ++frame) {
      auto cues = cues_with(lidar, cameras);
      apply_cue_errors(cues, options, random::Stream(1, "test").at(scene), frame);
      const bool first = cues[0].age > kAlarmAge, second = cues[1].age > kAlarmAge;
      EXPECT_EQ(cues[1].age, cues[2].age);
      EXPECT_EQ(cues[0].level, 0.25);
      shares.lidar += first;
      shares.cameras += second;
      shares.both += first && second;
      shares.repeated += frame > 0 && first == before;
      before = first;
    }
  }
  for (double* share : {&shares.lidar, &shares.cameras, &shares.both}) *share /= kScenes * kFrames;
  shares.repeated /= kScenes * (kFrames - 1);
  return shares;
}

TEST(CueErrors, ComeAsOftenAsTheySay) {
  for (const std::int64_t burst : {1, 4}) {
    const Shares sound = shares_of({.false_alarms = 0.1, .misses = 0.3, .burst = burst}, 0.1, 0.2);
    EXPECT_NEAR(sound.lidar, 0.1, 0.02) << burst;
    EXPECT_NEAR(sound.cameras, 0.1, 0.02) << burst;
    EXPECT_NEAR(sound.both, 0.01, 0.01) << burst << ": each errs on its own";
    const Shares stale = shares_of({.false_alarms = 0.1, .misses = 0.3, .burst = burst}, 1, 0.2);
    EXPECT_NEAR(stale.lidar, 0.7, 0.03) << burst;
    EXPECT_NEAR(stale.cameras, 0.1, 0.02) << burst;
  }
  const CueErrorOptions alone{.false_alarms = 0.2}, bursts{.false_alarms = 0.2, .burst = 5};
  EXPECT_GT(shares_of(bursts, 0, 0).repeated, shares_of(alone, 0, 0).repeated + 0.15);
}

TEST(CueErrors, TheWrongCulpritTakesTheAlarm) {
  auto cues = cues_with(1, 0.1);
  apply_cue_errors(cues, {.wrong_culprit = 1}, random::Stream(1, "test"), 0);
  EXPECT_EQ(cues[0].age, 0);
  EXPECT_EQ(cues[1].age, 1);
  auto quiet = cues_with(0.2, 0.1);  // nobody to accuse
  apply_cue_errors(quiet, {.wrong_culprit = 1}, random::Stream(1, "test"), 0);
  EXPECT_EQ(quiet[0].age, 0.2);
}

TEST(CueErrors, LeaveWhoDeliversNothingAlone) {
  auto cues = cues_with(0.1, 0.1);
  cues[0] = {.age = 1, .level = -1, .available = false};
  cues[2] = {.age = 1, .level = -1, .available = false};
  apply_cue_errors(cues, {.false_alarms = 1, .misses = 1}, random::Stream(1, "test"), 3);
  EXPECT_EQ(cues[0].age, 1);
  EXPECT_EQ(cues[1].age, 1);
  EXPECT_EQ(cues[2].level, -1);
  std::vector<SensorCues> none, one{{.age = 0.1}};
  apply_cue_errors(none, {.false_alarms = 1}, random::Stream(1, "test"), 0);
  apply_cue_errors(one, {.false_alarms = 1}, random::Stream(1, "test"), 0);
  EXPECT_EQ(one[0].age, 0.1);
}

TEST(CueErrors, TextComesBack) {
  for (const char* text :
       {"none", "false_alarms:0.1", "misses:0.25,burst:4", "false_alarms:0.1,misses:0.1,wrong_culprit:1"})
    EXPECT_EQ(parse_cue_errors(text).text(), text);
  EXPECT_EQ(message_of([] { parse_cue_errors("false_alarm:0.1"); }),
            "[cue errors] a name must be false_alarms, misses, wrong_culprit or burst, got 'false_alarm' (did you mean "
            "'false_alarms'?)");
  EXPECT_EQ(message_of([] { parse_cue_errors("misses:2"); }),
            "[cue errors] misses must be a share from 0 to 1, got '2'");
  EXPECT_EQ(message_of([] { parse_cue_errors("misses"); }), "[cue errors] misses must be a share from 0 to 1, got ''");
  EXPECT_EQ(message_of([] { parse_cue_errors("burst:1.5"); }),
            "[cue errors] burst must be a whole number of frames from 1 to 1000, got '1.5'");
}

TEST(CueErrors, AreNamedInOneTable) {
  for (const CueErrorRow& row : cue_error_table()) {
    const std::string name(row.name), value = row.chance == nullptr ? ":3" : ":0.5";
    EXPECT_TRUE(is_cue_error(name));
    EXPECT_TRUE(is_cue_error(name + value));
    EXPECT_NO_THROW(parse_cue_errors(name + value));
    EXPECT_NE(cue_error_table_markdown().find("| " + name + " | "), std::string::npos);
    EXPECT_EQ(message_of([&] { parse_fault(name + value); }),
              "[fault] kind must be a fault of a sensor, got the cue error '" + name +
                  "': option --cue-errors and data.cue_errors take those");
  }
  for (const FaultRow& row : fault_table()) EXPECT_FALSE(is_cue_error(row.name));
}

TEST(CueErrors, AreRefusedWhereThereAreNoCues) {
  EXPECT_NO_THROW(refuse_cue_errors("frozen:4,stale", "[faults] --faults", "a copy of a data set has no cues"));
  EXPECT_NO_THROW(refuse_cue_errors("", "[faults] --faults", "a copy of a data set has no cues"));
  EXPECT_EQ(
      message_of(
          [] { refuse_cue_errors("frozen:4,misses:0.1", "[faults] --faults", "a copy of a data set has no cues"); }),
      "[faults] --faults must be faults of sensors, got the cue error 'misses:0.1': a copy of a data set has no cues");
}

}  // namespace
}  // namespace camber::sensors
