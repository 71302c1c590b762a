// The situations that the monitor is for: each is named by its sentence within 50 steps, and a healthy run is silent.
#include "health/made_run.h"

#include <set>

#include <gtest/gtest.h>

#include "camber/health/monitor.h"

namespace camber::health {
namespace {

Findings watch(const MadeRunOptions& options, std::int64_t steps, std::vector<Record>* records = nullptr) {
  HealthMonitor monitor;
  Findings said;
  for (std::int64_t step = 1; step <= steps; ++step) {
    if (!monitor.due(step)) continue;
    const MadeSample made(options, step);
    const HealthReport report = monitor.observe(made.sample);
    if (records != nullptr) records->push_back({.step = step, .metrics = report.metrics});
    said.insert(said.end(), report.findings.begin(), report.findings.end());
  }
  return said;
}

struct Expectation {
  Situation situation;
  std::set<std::string> rules;  // all that may speak; the first word is not said elsewhere
  std::string named;
};

class MadeRun : public testing::TestWithParam<Expectation> {};

TEST_P(MadeRun, IsNamedWithinFiftySteps) {
  const auto& [situation, rules, named] = GetParam();
  std::int64_t first = -1;
  for (const Finding& finding : watch({.situation = situation}, 600)) {
    EXPECT_TRUE(rules.contains(finding.rule)) << finding.sentence;
    EXPECT_GT(finding.step, 200) << finding.sentence;
    if (finding.rule == named && first < 0) first = finding.step;
  }
  EXPECT_GT(first, 200);
  EXPECT_LE(first, 250) << named;
}

INSTANTIATE_TEST_SUITE_P(
    Situations, MadeRun,
    testing::Values(Expectation{Situation::kRunawayScale, {"above_warn_threshold", "near_cap", "at_cap"}, "near_cap"},
                    Expectation{Situation::kSaturatedSoftmax, {"saturated_softmax"}, "saturated_softmax"},
                    Expectation{Situation::kNoGradient, {"no_gradient"}, "no_gradient"},
                    Expectation{Situation::kPinnedAtCap,
                                {"above_warn_threshold", "near_cap", "similar_prototypes"},
                                "similar_prototypes"},
                    Expectation{Situation::kRouterSaturated, {"router_saturated"}, "router_saturated"}));

TEST(HealthyRun, IsSilent) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed)
    for (const Finding& finding : watch({.seed = seed}, 2000)) ADD_FAILURE() << finding.sentence;
}

TEST(HealthyRun, GivesTheSameFindingsFromItsRecords) {
  std::vector<Record> records;
  const Findings live = watch({.situation = Situation::kRunawayScale}, 1500, &records);
  Rules rules;
  Findings replayed;
  for (const Record& record : records)
    for (const Finding& finding : rules.observe(record.step, record.metrics)) replayed.push_back(finding);
  EXPECT_EQ(live, replayed);
  EXPECT_GE(live.size(), 6U);  // three rules, said again after 500 steps
}

TEST(HealthyRun, GoesOnAfterAReplayAsIfItHadNotStopped) {
  std::vector<Record> records;
  const MadeRunOptions options{.situation = Situation::kNoGradient};
  const Findings whole = watch(options, 800, &records);
  std::erase_if(records, [](const Record& record) { return record.step > 220; });
  HealthMonitor resumed;
  resumed.replay(records);
  Findings said;
  for (std::int64_t step = 221; step <= 800; ++step) {
    if (!resumed.due(step)) continue;
    const MadeSample made(options, step);
    for (const Finding& finding : resumed.observe(made.sample).findings) said.push_back(finding);
  }
  EXPECT_EQ(said, whole);
}

}  // namespace
}  // namespace camber::health
