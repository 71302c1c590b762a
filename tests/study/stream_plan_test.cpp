#include "camber/study/stream_plan.h"

#include <cmath>
#include <map>
#include <stdexcept>

#include <gtest/gtest.h>

#include "camber/study/analysis.h"
#include "camber/study/plan.h"

namespace camber::study {
namespace {

std::map<std::pair<std::int64_t, std::int64_t>, double> shares_of(const StudyStream& stream) {
  constexpr std::int64_t kScenes = 1000, kFrames = 10;
  std::map<std::pair<std::int64_t, std::int64_t>, double> shares;
  for (std::uint64_t scene = 0; scene < kScenes; ++scene)
    for (std::int64_t frame = 0; frame < kFrames; ++frame) {
      const StreamState state = state_of(stream, scene, frame);
      EXPECT_EQ(state, state_of(stream, scene, frame));
      shares[{state.fault, state.cues}] += 1.0 / (kScenes * kFrames);
    }
  return shares;
}

TEST(Streams, HaveTheSharesThatTheySay) {
  for (const std::int64_t burst : {1, 4}) {
    const StudyStream stream{
        .name = "s", .prevalence = 0.4, .false_alarms = 0.2, .misses = 0.1, .wrong_culprit = 0.5, .burst = burst};
    auto shares = shares_of(stream);
    const double near = burst == 1 ? 0.02 : 0.04;
    EXPECT_NEAR((shares[{-1, -1}]), 0.6 * 0.8, near) << burst;
    EXPECT_NEAR((shares[{-1, 0}]), 0.6 * 0.1, near) << burst;
    EXPECT_NEAR((shares[{-1, 1}]), 0.6 * 0.1, near) << burst;
    EXPECT_NEAR((shares[{0, -1}] + shares[{1, -1}]), 0.4 * 0.1, near) << burst;
    EXPECT_NEAR((shares[{0, 1}] + shares[{1, 0}]), 0.4 * 0.9 * 0.5, near) << burst;
    EXPECT_NEAR((shares[{0, 0}] + shares[{1, 1}]), 0.4 * 0.9 * 0.5, near) << burst;
    EXPECT_NEAR((shares[{0, 0}]), (shares[{1, 1}]), 2 * near) << burst;
  }
  const auto sure = shares_of({.name = "sure", .prevalence = 1, .false_alarms = 1, .misses = 0});
  EXPECT_EQ(sure.size(), 2U);
  EXPECT_EQ(shares_of({.name = "clean", .prevalence = 0, .false_alarms = 0}).size(), 1U);
}

StudyPlan stream_plan() {
  StudyPlan plan;
  plan.seeds = 3;
  plan.few_seeds = 2;
  plan.conditions = {"clean", "frozen:5", "stale:5"};
  plan.streams = {{.name = "stream"}};
  plan.primary = {.conditions = {"stream"}, .arm = "verified", .against = "bias"};
  plan.gates.oracle_arm = "";
  plan.arms = {{.name = "plain"}, {.name = "bias"}, {.name = "verified", .policy = "verified_bias", .shares = "bias"}};
  plan.comparisons = {{.arm = "verified", .against = "plain"},
                      {.arm = "verified", .against = "bias", .measure = "clean", .not_inferior_within = 0.01}};
  return plan;
}

std::string refusal(const StudyPlan& plan) {
  try {
    plan.validate();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(StreamPlan, RefusesWhatDoesNotFit) {
  EXPECT_EQ(refusal(stream_plan()), "");
  auto plan = stream_plan();
  plan.arms[2].shares = "plan";
  EXPECT_NE(refusal(plan).find("did you mean 'plain'?"), std::string::npos);
  plan = stream_plan();
  plan.arms[2].options = {"detector.router.mode=off"};
  EXPECT_EQ(refusal(plan),
            "[study] an arm that shares a model must have no options of its own, got some for 'verified'");
  plan = stream_plan();
  plan.arms[1].role = ArmRole::kExploratory;
  EXPECT_EQ(refusal(plan), "[study] an arm must have no more seeds than the one whose model it shares, got 'verified'");
  plan = stream_plan();
  plan.arms[2].policy = "verify";
  EXPECT_NE(refusal(plan).find("[study] policy must be none, rule, verified_rule, bias or verified_bias"),
            std::string::npos);
  plan = stream_plan();
  plan.streams[0].name = "frozen:5";
  EXPECT_EQ(refusal(plan),
            "[study] the name of a stream must be its own, no condition and not outcome, got 'frozen:5'");
  plan = stream_plan();
  plan.streams[0].wrong_culprit = 0.1;
  EXPECT_EQ(refusal(plan), "[study] wrong_culprits must be true for the stream 'stream', got false");
  EXPECT_EQ(stream_plan().sharing("bias").size(), 1U);
}

RunRecord record_of(const std::string& arm, std::int64_t seed, double stream, double clean) {
  RunRecord record{.arm = arm, .seed = seed};
  record.measurements = {{.condition = "clean", .mean_ap = clean}, {.condition = "stream", .mean_ap = stream}};
  return record;
}

TEST(StreamPlan, ComparisonsThatItListsAreTheSecondaryOnes) {
  const StudyPlan plan = stream_plan();
  std::vector<RunRecord> records;
  for (std::int64_t seed = 0; seed < 3; ++seed) {
    const double noise = 0.001 * static_cast<double>(seed);
    records.push_back(record_of("plain", seed, 0.5 + noise, 0.8));
    records.push_back(record_of("bias", seed, 0.5 - noise, 0.8));
    records.push_back(record_of("verified", seed, 0.6 + 2 * noise, 0.8 - noise));
  }
  const StudyAnalysis analysis = analyze(plan, records);
  ASSERT_TRUE(analysis.primary);
  EXPECT_NEAR(analysis.primary->difference.mean, 0.103, 1e-9);
  EXPECT_EQ(analysis.primary->conclusion->words, "better");
  ASSERT_EQ(analysis.secondary.size(), 2U);
  EXPECT_EQ(analysis.secondary[0].against, "plain");
  EXPECT_EQ(analysis.secondary[1].conclusion->verdict, Verdict::kNotInferior);
  EXPECT_EQ(analysis.secondary[1].conclusion->words, "not inferior within 1 point");
}

// t = (mean + margin) / error with n - 1 degrees: for differences -0.01, 0, 0.01 and a margin of 0.02 it is
// 0.02 / (0.01 / sqrt 3) = 3.4641, whose upper tail with 2 degrees is (1 - t / sqrt(t^2 + 2)) / 2.
TEST(Noninferiority, IsOneTestAgainstTheMargin) {
  const std::vector<double> a = {0.49, 0.5, 0.51}, b = {0.5, 0.5, 0.5};
  const PairedDifference difference = paired_difference(a, b);
  const double t = 2 * std::sqrt(3.0);
  EXPECT_NEAR(noninferiority_p(difference, 0.02), (1 - t / std::sqrt(t * t + 2)) / 2, 1e-9);
  EXPECT_GT(noninferiority_p(difference, 0.001), 0.4);
  EXPECT_TRUE(std::isnan(noninferiority_p(paired_difference(std::vector{0.5}, std::vector{0.4}), 0.01)));
  EXPECT_THROW(noninferiority_p(difference, 0), std::invalid_argument);
  EXPECT_EQ(conclude_not_inferior(difference, 0.2, 0.01).words,
            "unresolved: inferiority within 1 point is not ruled out");
}

}  // namespace
}  // namespace camber::study
