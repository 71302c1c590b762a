#include "camber/study/analysis.h"

#include <cmath>

#include <gtest/gtest.h>

#include "camber/analysis/bound.h"
#include "camber/config/options.h"
#include "camber/storage/atomic_file.h"
#include "camber/study/findings.h"
#include "camber/study/tables.h"
#include "storage/scratch_folder.h"

namespace camber::study {
namespace {

StudyPlan example_plan() {
  StudyPlan plan;
  plan.conditions = {"clean", "frozen:5", "stale:5"};
  plan.seeds = 4;
  plan.few_seeds = 1;
  plan.gates.doubled_seeds = 1;
  plan.arms = {{.name = "plain", .title = "no bias"},
               {.name = "constant"},
               {.name = "trust"},
               {.name = "oracle"},
               {.name = "fixed_0", .role = ArmRole::kNotes}};
  return plan;
}

Measurement measured(const std::string& condition, double mean_ap, const std::string& control = "") {
  return {.condition = condition,
          .control = control,
          .mean_ap = mean_ap,
          .nd_score = mean_ap,
          .by_distance = {mean_ap / 2, 1.5 * mean_ap},
          .trust_lidar = std::nan(""),
          .trust_camera = std::nan(""),
          .replicates = {static_cast<std::int32_t>(1e4 * mean_ap) - 50, static_cast<std::int32_t>(1e4 * mean_ap) + 50}};
}

RunRecord record(const std::string& arm, std::int64_t seed, double clean, double frozen, double stale) {
  RunRecord made{.arm = arm, .seed = seed, .steps = 700, .milliseconds_a_step = 100};
  made.measurements = {measured("clean", clean), measured("frozen:5", frozen), measured("stale:5", stale)};
  return made;
}

std::vector<RunRecord> example_records() {
  std::vector<RunRecord> records;
  for (std::int64_t seed = 0; seed < 4; ++seed) {
    const double noise = 0.001 * static_cast<double>(seed * seed % 3);
    records.push_back(record("base", seed, 0.60 + noise, 0.2, 0.1));
    records.back().measurements.push_back(measured("lidar_off", 0.32));
    records.back().measurements.push_back(measured("cameras_off", 0.40));
    records.push_back(record("plain", seed, 0.62 + noise, 0.20, 0.10));
    records.push_back(record("constant", seed, 0.63 + noise, 0.21 + noise, 0.10));
    records.push_back(record("trust", seed, 0.63 + noise / 2, 0.29 - noise, 0.14));
    records.back().measurements.push_back(measured("clean", 0.6, "zero"));
    records.back().measurements.push_back(measured("clean", 0.55, "cues of frozen:5"));
    records.push_back(record("oracle", seed, 0.62, 0.33, 0.15));
  }
  records.push_back(record("doubled", 0, 0.61, 0.2, 0.1));
  records.push_back(record("fixed_0", 0, 0.62, 0.20, 0.10));
  return records;
}

TEST(Analysis, ThePrimaryComparisonIsPairedBySeed) {
  const StudyAnalysis analysis = analyze(example_plan(), example_records());
  ASSERT_TRUE(analysis.primary);
  EXPECT_EQ(analysis.primary->difference.pairs, 4);
  EXPECT_NEAR(analysis.primary->difference.mean, (0.08 + 0.04) / 2 - 0.0005, 1e-12);
  EXPECT_EQ(analysis.primary->conclusion->verdict, Verdict::kBetter);
}

TEST(Analysis, PointsHaveASignAndZeroIsNeverNegative) {
  EXPECT_EQ(signed_points(0.0123), "+1.2");
  EXPECT_EQ(signed_points(-0.1, 2), "-10.00");
  EXPECT_EQ(signed_points(-0.0004), "+0.0");
  EXPECT_EQ(signed_points(std::nan("")), "-");
}

TEST(Analysis, TheRestSharesOneCorrection) {
  const StudyAnalysis analysis = analyze(example_plan(), example_records());
  EXPECT_EQ(analysis.secondary.size(), 3U * 2 + 3);  // three arms in outcome and clean, the pair in three conditions
  std::vector<double> p, corrected;
  for (const Comparison& one : analysis.secondary) {
    p.push_back(one.difference.p);
    corrected.push_back(one.conclusion->corrected_p);
  }
  EXPECT_EQ(corrected, holm(p));
  ASSERT_EQ(analysis.exploratory.size(), 2U);
  EXPECT_FALSE(analysis.exploratory[0].conclusion);
}

TEST(Analysis, ArmsFromScratchAreComparedWithOneAnotherAlone) {
  StudyPlan plan = example_plan();
  plan.arms.push_back({.name = "plain_scratch", .role = ArmRole::kExploratory, .from_scratch = true});
  plan.arms.push_back(
      {.name = "trust_scratch", .role = ArmRole::kExploratory, .against = "plain_scratch", .from_scratch = true});
  std::vector<RunRecord> records = example_records();
  records.push_back(record("plain_scratch", 0, 0.50, 0.10, 0.05));
  records.push_back(record("trust_scratch", 0, 0.51, 0.13, 0.06));
  const std::vector<Comparison> rows = analyze(plan, records).exploratory;
  ASSERT_EQ(rows.size(), 4U) << "fixed_0 and trust_scratch, in outcome and clean";
  EXPECT_EQ(rows[2].arm + " - " + rows[2].against, "trust_scratch - plain_scratch");
  const std::string text = findings_in_markdown({plan, records});
  const std::string words =
      "'trust_scratch' less 'plain_scratch' is +2.0 points in the outcome (1 seed) and +1.0 on clean";
  EXPECT_NE(text.find(words), std::string::npos) << text;
}

TEST(Analysis, AMissingRunCostsItsPairAndTheVerdictOnIt) {
  std::vector<RunRecord> records = example_records();
  std::erase_if(records, [](const RunRecord& one) { return one.arm == "constant" && one.seed == 1; });
  const StudyAnalysis analysis = analyze(example_plan(), records);
  EXPECT_EQ(analysis.primary->difference.pairs, 3);
  EXPECT_LT(analysis.primary->difference.p, 0.05) << "it would be called better";
  EXPECT_EQ(analysis.primary->conclusion->verdict, Verdict::kUnresolved);
  EXPECT_EQ(analysis.primary->conclusion->words, "none yet: 3 of 4 seeds");
  std::erase_if(records, [](const RunRecord& one) { return one.arm == "constant"; });
  EXPECT_FALSE(analyze(example_plan(), records).primary);
}

TEST(Gates, HaveValuesAndTargets) {
  const std::vector<Gate> gates = all_gates(example_plan(), example_records());
  ASSERT_EQ(gates.size(), 6U);
  EXPECT_EQ(gates[0].measured, "20.1 points");
  EXPECT_EQ(gates[0].state, GateState::kHolds);
  EXPECT_EQ(gates[1].measured, "0.53 and 0.67");
  EXPECT_EQ(gates[2].measured, "4: frozen:5 67 %, stale:5 83 %, lidar_off 47 %, cameras_off 33 %");
  EXPECT_EQ(gates[3].measured, "1.0 points");
  EXPECT_EQ(gates[4].state, GateState::kHolds);
  EXPECT_EQ(gates[5].measured, "2: frozen:5 +13.0, stale:5 +5.0");
  EXPECT_EQ(gates[0].text(),
            "holds   mAP of fusion above the better single sensor: 20.1 points (target: at least 5.0 points)");
  StudyPlan strict = example_plan();
  strict.gates.fusion_gain = 0.3;
  EXPECT_EQ(base_gates(strict, example_records())[0].state, GateState::kFails);
  for (const Gate& gate : all_gates(example_plan(), {})) EXPECT_EQ(gate.state, GateState::kUnknown) << gate.text();
}

TEST(Plan, RefusesNamesThatDoNotFit) {
  const auto refused = [](auto change, const std::string& words) {
    StudyPlan plan = example_plan();
    change(plan);
    try {
      plan.validate();
      ADD_FAILURE() << words;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  EXPECT_NO_THROW(example_plan().validate());
  refused([](StudyPlan& plan) { plan.arms[1].name = "plain"; }, "'plain' twice");
  refused([](StudyPlan& plan) { plan.arms[1].name = "base"; }, "not base or doubled");
  refused([](StudyPlan& plan) { plan.arms[1].against = "constant"; }, "must name another arm, got 'constant'");
  refused([](StudyPlan& plan) { plan.reference = "plane"; }, "did you mean 'plain'?");
  refused([](StudyPlan& plan) { plan.primary.conditions = {"frozen:4"}; }, "did you mean 'frozen:5'?");
  refused([](StudyPlan& plan) { plan.conditions = {"frozen:5"}; }, "must begin with clean");
  refused([](StudyPlan& plan) { plan.controls = {"none"}; }, "zero, mean, shuffled or oracle");
}

class StudyFiles : public storage::ScratchFolder {};

TEST_F(StudyFiles, RecordsReadBackAndMakeTheSameTables) {
  std::filesystem::create_directories(folder_ / "records");
  storage::write_file(folder_ / "records/plan.toml", config::to_toml(example_plan()));
  RunRecord with_curve = example_records()[3];
  with_curve.curves["scale/a/value"] = {{1, 2}, {2.5, 2.625}};
  with_curve.scales["head.attention_bias.scale"] = 2.625;
  const RunRecord again = parse_record(to_json(with_curve), "x");
  EXPECT_EQ(to_json(again), to_json(with_curve));
  EXPECT_EQ(again.find("clean", "zero")->mean_ap, 0.6);
  EXPECT_TRUE(std::isnan(again.measurements[0].trust_lidar));
  for (const RunRecord& one : example_records())
    storage::write_file(folder_ / "records" / (one.key() + ".json"), to_json(one));
  EXPECT_TRUE(is_study(folder_));
  EXPECT_TRUE(is_study(folder_ / "records"));
  EXPECT_FALSE(is_study(folder_ / "nowhere"));
  const std::string tables = to_markdown(all_tables(read_study(folder_)));
  EXPECT_EQ(to_markdown(all_tables(read_study(folder_ / "records"))), tables);
  for (const char* words : {"### Gates", "| no bias | 4 | 0.150 ± 0.000 | 0.621 ± 0.001 |", "| trust | constant |",
                            "cues of frozen:5", "| fixed_0 | 1 |", "better"})
    EXPECT_NE(tables.find(words), std::string::npos) << words << "\n" << tables;
  storage::write_file(folder_ / "records/broken.json", "{}");
  EXPECT_THROW(read_study(folder_), std::runtime_error);
}

TEST(Tables, StandBetweenTheirMarks) {
  EXPECT_EQ(with_tables("a\n<!-- tables -->\nold\n<!-- end of tables -->\nb\n", "new\n"),
            "a\n<!-- tables -->\nnew\n<!-- end of tables -->\nb\n");
  EXPECT_THROW(with_tables("a", "new"), std::invalid_argument);
}

TEST(Tables, TellOfTheBiasOnWholeSensorsWhereTheRecordsDo) {
  StudyResults results{.plan = example_plan(), .records = {record("trust", 0, 0.5, 0.4, 0.4)}};
  RunRecord& one = results.records[0];
  one.scales = {{"head.attention_bias.scale", 2.5}};
  one.curves["effective_bias/lidar/mean"] = {{1, 20}, {2.5, 1}};
  const auto columns = scales_table(results).columns;
  EXPECT_EQ(std::count(columns.begin(), columns.end(), "segment bias LiDAR"), 0);
  one.curves["effective_bias/segments/lidar/mean"] = {{1, 20}, {0, 0.75}};
  const StudyTable table = scales_table(results);
  ASSERT_EQ(table.columns.size(), columns.size() + 2);
  EXPECT_EQ(table.columns[6], "segment bias LiDAR");
  ASSERT_EQ(table.rows.size(), 1U);
  ASSERT_EQ(table.rows[0].size(), table.columns.size());
  EXPECT_EQ(table.rows[0][6], "0.75");
  EXPECT_EQ(table.rows[0][7], "-");
}

TEST(Reach, HasARowALayer) {
  StudyResults results{.plan = example_plan(), .records = example_records()};
  EXPECT_TRUE(reach_table(results).rows.empty()) << "no curves";
  for (RunRecord& one : results.records) {
    if (one.arm != "constant") continue;
    one.curves["effective_bias/lidar/mean"] = {{1, 20}, {2.5, 9}};
    for (const auto& [layer, mass] : {std::pair{"0", 0.1}, {"1", 0.2}})
      one.curves[std::string("attention/layer") + layer + "/change"] = {{1, 20},
                                                                        {analysis::mass_after(mass, 2.5) - mass, 9}};
  }
  const StudyTable table = reach_table(results);
  ASSERT_EQ(table.rows.size(), 3U);
  EXPECT_EQ(table.rows[0], (std::vector<std::string>{"0", "2.50", "0.475", "0.100", "0.575", "0.055", "0.132", "0.475",
                                                     "0.843", "0.900"}));
  EXPECT_EQ(table.rows[1][3], "0.200");
  EXPECT_EQ(table.rows[2][2], "at most 0.555");
}

// Trust with every control, and with the cues of clean frames under a fault.
std::vector<RunRecord> records_with_controls(double shuffled_loss) {
  std::vector<RunRecord> records = example_records();
  for (RunRecord& one : records) {
    if (one.arm != "trust") continue;
    for (const auto& [condition, without] : {std::pair{"frozen:5", 0.20}, {"stale:5", 0.10}}) {
      const double own = one.find(condition)->mean_ap;
      one.measurements.push_back(measured(condition, without, "zero"));
      one.measurements.push_back(measured(condition, own, "mean"));
      one.measurements.push_back(measured(condition, own - shuffled_loss, "shuffled"));
      one.measurements.push_back(measured(condition, without, "cues of clean"));
    }
  }
  return records;
}

TEST(Findings, SayWhatTheRecordsHold) {
  const StudyPlan plan = example_plan();
  const auto all = [&](const std::vector<RunRecord>& records) { return findings_in_markdown({plan, records}); };
  const std::string text = all(records_with_controls(0));
  // 5.95 points, between two roundings: the value itself is tested above.
  const std::string difference = signed_points(analyze(plan, example_records()).primary->difference.mean);
  for (const std::string& words : std::vector<std::string>{
           "'trust' against 'constant' in the outcome (mean mAP over frozen:5, stale:5): better; the difference is " +
               difference + " points (95 % interval +",
           "In the outcome, against 'no bias': better, but within 1 point: 'constant' (+0.5); better: 'trust' (+6.5)",
           "'trust' (+6.5), 'oracle' (+9.0).", "On clean frames, against 'no bias': ",
           "equivalent within 1 point: 'oracle' (-0.1).", "gains 69 % under frozen:5 and 80 % under stale:5.",
           "in the outcome: zero -6.5, mean +0.0, shuffled +0.0 points.", "that queries differ in theirs adds nothing",
           "A false alarm of frozen:5 changes clean mAP by -8.0 points; a missed one ", "leaves +0.0 of the ",
           "The bias pays while false alarms are rarer than 1.1 for each true one."})
    EXPECT_NE(text.find(words), std::string::npos) << words << "\n" << text;
  EXPECT_EQ(text.find("stale:5 changes clean"), std::string::npos) << "its false alarm was not measured\n" << text;
  EXPECT_EQ(all(records_with_controls(0.02)).find("adds nothing"), std::string::npos) << "shuffling costs two points";
  EXPECT_EQ(all({}), "");
}

TEST(Findings, SetARuleOnTheSameCuesBesideTheBias) {
  StudyPlan plan = example_plan();
  plan.arms.push_back({.name = "rule", .role = ArmRole::kExploratory, .against = "trust", .absent_above_age = 0.75});
  std::vector<RunRecord> records = records_with_controls(0);
  EXPECT_EQ(findings_in_markdown({plan, records}).find("A rule"), std::string::npos) << "no run of it";
  records.push_back(record("rule", 0, 0.61, 0.30, 0.15));
  records.back().measurements.push_back(measured("clean", 0.40, "cues of frozen:5"));
  records.back().measurements.push_back(measured("frozen:5", 0.20, "cues of clean"));
  const std::string text = findings_in_markdown({plan, records});
  for (const char* words : {"'rule': 'trust' less the rule is -1.0 points in the outcome (1 seed) and +2.0 on clean",
                            "a false alarm of frozen:5 changes clean mAP by -21.0 points, and a true one pays for 0.5 "
                            "(with the bias -8.0 and 1.1)."})
    EXPECT_NE(text.find(words), std::string::npos) << words << "\n" << text;
}

TEST(Findings, SpeakNoVerdictBeforeAllSeedsAreIn) {
  std::vector<RunRecord> records = example_records();
  std::erase_if(records, [](const RunRecord& one) { return one.seed == 1; });
  const std::string text = findings_in_markdown({example_plan(), records});
  EXPECT_NE(text.find(": none yet: 3 of 4 seeds; "), std::string::npos) << text;
  EXPECT_EQ(text.find("better"), std::string::npos) << text;
}

TEST(SceneError, IsOfTheDifferenceOfPairedDraws) {
  Measurement first = measured("clean", 0.5), second = measured("clean", 0.5);
  first.replicates = {5000, 5100, 5200};
  second.replicates = {4900, 5000, 5100};
  EXPECT_NEAR(scene_error(first, second), 0, 1e-12);
  EXPECT_NEAR(scene_error(first), 0.01, 1e-12);
}

}  // namespace
}  // namespace camber::study
