#include "camber/study/policies.h"

#include <cmath>
#include <stdexcept>

#include <gtest/gtest.h>

namespace camber::study {
namespace {

// An arm that takes alarms at their word, and one that does nothing with cues.
RunRecord alarmed(const std::string& arm, std::int64_t seed, double right, double alarm) {
  const double noise = 0.001 * static_cast<double>(seed);
  RunRecord record{.arm = arm, .seed = seed};
  record.measurements = {{.condition = "clean", .mean_ap = 0.8 + noise},
                         {.condition = "stale:5", .mean_ap = right},
                         {.condition = "stale:5", .control = "cues of clean", .mean_ap = 0.1},
                         {.condition = "clean", .control = "cues of stale:5", .mean_ap = alarm + 2 * noise}};
  return record;
}

StudyResults results_of_two() {
  StudyResults results;
  results.plan.title = "two policies";
  results.plan.swapped_cues = {"stale:5"};
  results.plan.gates.oracle_arm = "";
  results.plan.reference = "plain";
  results.plan.streams = {{.name = "stream", .faults = {"stale:5"}}};
  results.plan.arms = {{.name = "plain", .title = "no bias"}, {.name = "rule"}};
  for (std::int64_t seed = 0; seed < 3; ++seed) {
    RunRecord plain{.arm = "plain", .seed = seed};
    plain.measurements = {{.condition = "clean", .mean_ap = 0.8}, {.condition = "stale:5", .mean_ap = 0.1}};
    plain.values = {{"agreement/test/stale:5/area", 0.9},
                    {"agreement/test/stale:5/mean", 0.05},
                    {"agreement/test/stale:5/area_of_five", 0.95}};
    results.records.push_back(plain);
    results.records.push_back(alarmed("rule", seed, 0.5, 0.3));
  }
  return results;
}

TEST(Policies, AreMixedFromTheirCells) {
  const StudyResults results = results_of_two();
  const CueRates rates{.prevalence = 0.5, .false_alarms = 0.2, .misses = 0.1};
  EXPECT_NEAR(*expected_map(results.plan, results.records[1], rates),
              0.5 * (0.8 * 0.8 + 0.2 * 0.3) + 0.5 * (0.9 * 0.5 + 0.1 * 0.1), 1e-12);
  EXPECT_NEAR(*expected_map(results.plan, results.records[0], rates), 0.5 * 0.8 + 0.5 * 0.1, 1e-12);
  RunRecord broken = results.records[1];
  broken.measurements.pop_back();
  EXPECT_FALSE(expected_map(results.plan, broken, rates));
}

TEST(Policies, AreRankedAndAdvisedInSentences) {
  const StudyResults results = results_of_two();
  const auto often = rank_policies(results, {.prevalence = 0.5, .false_alarms = 0, .misses = 0});
  ASSERT_EQ(often.size(), 2U);
  EXPECT_EQ(often[0].arm, "rule");
  EXPECT_EQ(often[0].above_next.pairs, 3);
  const auto wolf = rank_policies(results, {.prevalence = 0.05, .false_alarms = 0.4, .misses = 0});
  EXPECT_EQ(wolf[0].arm, "plain");
  const std::string text = advice(results, {.prevalence = 0.5, .false_alarms = 0, .misses = 0});
  EXPECT_NE(text.find("use 'rule': mAP 0.650, +20.1 points above 'no bias'"), std::string::npos) << text;
  EXPECT_NE(text.find("Mixed from the cells of 'two policies': stale:5"), std::string::npos) << text;
  EXPECT_NE(advice_in_json(results, {}).find("\"arm\": \"rule\""), std::string::npos);
  EXPECT_THROW(advice(results, {.prevalence = 1.5}), std::invalid_argument);
  EXPECT_THROW(advice({.plan = results.plan}, {}), std::runtime_error);
}

TEST(Policies, HaveTables) {
  StudyResults results = results_of_two();
  const StudyTable chart = decision_chart(results), cells = alarms_table(results), told = agreement_table(results);
  ASSERT_EQ(chart.rows.size(), 5U);
  EXPECT_EQ(chart.rows[0][3].substr(0, 4), "rule");
  ASSERT_EQ(cells.rows.size(), 2U);
  EXPECT_EQ(cells.rows[1][5], "0.302");  // the false alarm, mean of 0.300, 0.302, 0.304
  EXPECT_EQ(cells.rows[0][5], "0.800");
  ASSERT_EQ(told.rows.size(), 1U);
  EXPECT_EQ(told.rows[0], (std::vector<std::string>{"test", "stale:5", "0.050", "0.900", "0.950"}));
  for (RunRecord& record : results.records)
    if (record.arm == "plain") record.values["agreement/test/stale:5/area_of_five"] = NAN;  // scenes of fewer frames
  EXPECT_EQ(agreement_table(results).rows[0].back(), "-");
}

}  // namespace
}  // namespace camber::study
