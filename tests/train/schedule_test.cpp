// Schedules against values worked out by hand.
#include <cmath>
#include <stdexcept>

#include <camber/train/schedule.h>
#include <gtest/gtest.h>

namespace camber::train {
namespace {

TEST(Schedule, CyclicPassesThroughThePublishedValues) {
  const Schedule schedule(
      {.kind = ScheduleKind::kCyclic, .warmup_share = 0, .peak_factor = 6, .end_factor = 1e-4, .up_share = 0.4}, 1000);
  const double base = 1.4e-4;
  EXPECT_DOUBLE_EQ(base * schedule.rate_factor(0), 1.4e-4);
  EXPECT_NEAR(base * schedule.rate_factor(200), 4.9e-4, 1e-18);
  EXPECT_NEAR(base * schedule.rate_factor(400), 8.4e-4, 1e-18);
  EXPECT_NEAR(base * schedule.rate_factor(700), 4.2e-4, 1e-8);
  EXPECT_NEAR(base * schedule.rate_factor(1000), 1.4e-8, 1e-18);
  EXPECT_NEAR(0.9 * schedule.momentum_factor(0), 0.9, 1e-15);
  EXPECT_NEAR(0.9 * schedule.momentum_factor(200), 0.85263, 1e-5);
  EXPECT_NEAR(0.9 * schedule.momentum_factor(400), 0.80526, 1e-5);
  EXPECT_NEAR(0.9 * schedule.momentum_factor(700), 0.85263, 1e-5);
  EXPECT_NEAR(0.9 * schedule.momentum_factor(1000), 0.9, 1e-15);
}

TEST(Schedule, WarmsUpInAStraightLineAndFallsByACosine) {
  const Schedule schedule({.kind = ScheduleKind::kCosine, .warmup_share = 0.1}, 100);
  EXPECT_DOUBLE_EQ(schedule.rate_factor(0), 0.1);
  EXPECT_DOUBLE_EQ(schedule.rate_factor(4), 0.5);
  EXPECT_DOUBLE_EQ(schedule.rate_factor(9), 1);
  EXPECT_DOUBLE_EQ(schedule.rate_factor(10), 1);
  EXPECT_NEAR(schedule.rate_factor(55), 0.5, 1e-15);
  EXPECT_NEAR(schedule.rate_factor(100), 0, 1e-15);
  EXPECT_DOUBLE_EQ(schedule.momentum_factor(55), 1);
}

TEST(Schedule, OneCycleHasItsPeakAtTheLearningRateItself) {
  const Schedule schedule(
      {.kind = ScheduleKind::kOneCycle, .warmup_share = 0, .start_factor = 0.04, .end_factor = 4e-6, .up_share = 0.3},
      1000);
  EXPECT_NEAR(schedule.rate_factor(0), 0.04, 1e-15);
  EXPECT_NEAR(schedule.rate_factor(150), 0.52, 1e-15);
  EXPECT_NEAR(schedule.rate_factor(300), 1, 1e-15);
  EXPECT_NEAR(schedule.rate_factor(1000), 4e-6, 1e-15);
}

TEST(Schedule, MilestonesMultiply) {
  const Schedule schedule({.kind = ScheduleKind::kMilestones, .warmup_share = 0, .milestones = {0.5, 0.75}}, 200);
  EXPECT_DOUBLE_EQ(schedule.rate_factor(99), 1);
  EXPECT_DOUBLE_EQ(schedule.rate_factor(100), 0.5);
  EXPECT_DOUBLE_EQ(schedule.rate_factor(150), 0.25);
}

TEST(Schedule, RefusesMilestonesThatDoNotRise) {
  EXPECT_THROW(Schedule({.kind = ScheduleKind::kMilestones}, 10), std::invalid_argument);
  EXPECT_THROW(Schedule({.kind = ScheduleKind::kMilestones, .milestones = {0.5, 0.5}}, 10), std::invalid_argument);
  EXPECT_THROW(Schedule({}, 0), std::invalid_argument);
}

}  // namespace
}  // namespace camber::train
