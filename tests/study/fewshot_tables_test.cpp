#include "camber/study/fewshot_tables.h"

#include <gtest/gtest.h>

#include "camber/config/options.h"
#include "camber/storage/atomic_file.h"
#include "storage/scratch_folder.h"

namespace camber::study {
namespace {

FewshotPlan example_plan_of_parts() {
  FewshotPlan plan{.seeds = {1, 2}};
  plan.parts = {{.name = "letter",
                 .config = "letter.toml",
                 .reference = "none",
                 .arms = {{.name = "none", .title = "no scale"}, {.name = "fixed"}, {.name = "later"}}},
                {.name = "glyphs",
                 .config = "glyphs.toml",
                 .table = FewshotTable::kLeaks,
                 .reference = "none",
                 .gain_over = "nothing",
                 .arms = {{.name = "none"}, {.name = "sap"}}}};
  return plan;
}

RunRecord tested(const std::string& arm, std::int64_t seed, double one_shot, double five_shot) {
  RunRecord record{.arm = arm, .seed = seed};
  record.values = {{"5-way 1-shot/accuracy", one_shot}, {"5-way 5-shot/accuracy", five_shot}};
  return record;
}

RunRecord probed(const std::string& arm, std::int64_t seed, double purified) {
  RunRecord record = tested(arm, seed, 0.5, 0.75);
  for (const char* feature : {"domain", "purified"}) {
    const std::string name = std::string("leak/") + feature + "/";
    const double probe = feature == std::string("domain") ? 0.5 : purified;
    record.values[name + "leak_index"] = 0.0125;
    record.values[name + "class_probe"] = probe;
    record.values[name + "domain_probe"] = 0.75;
    record.values[name + "class_chance"] = 0.0625;
    record.values[name + "domain_chance"] = 0.25;
  }
  return record;
}

FewshotResults example_results() {
  FewshotResults results{.plan = example_plan_of_parts()};
  for (const std::int64_t seed : {1, 2}) {
    const double change = seed == 1 ? 0.01 : -0.01;
    results.records.push_back(tested("letter_none", seed, 0.5, 0.6));
    RunRecord fixed = tested("letter_fixed", seed, 0.5 + change, 0.65 + change);
    fixed.scales["head.scale"] = 25 + 100 * change;
    fixed.values["scale/head.scale/share_at_bound"] = seed == 1 ? 0.5 : 0;
    results.records.push_back(fixed);
    results.records.push_back(probed("glyphs_none", seed, 0.5));
    results.records.push_back(probed("glyphs_sap", seed, 0.375));
  }
  return results;
}

// The interval of two numbers m -+ h is m -+ t h with t = 12.7062 (one degree of freedom, 97.5 %).
TEST(FewshotTables, ShowMeansOverSeedsWithIntervalsAndGainsBySeed) {
  const StudyTable table = fewshot_table(example_results(), example_plan_of_parts().parts[0]);
  EXPECT_EQ(table.columns,
            (std::vector<std::string>{"arm", "5-way 1-shot, %", "5-way 5-shot, %", "5-shot gain over no scale",
                                      "scale at the end", "steps at a bound"}));
  ASSERT_EQ(table.rows.size(), 2U) << "an arm without a record has no row";
  EXPECT_EQ(table.rows[0], (std::vector<std::string>{"no scale", "50.0 ± 0.0", "60.0 ± 0.0", "–", "–", "–"}));
  EXPECT_EQ(table.rows[1],
            (std::vector<std::string>{"fixed", "50.0 ± 12.7", "65.0 ± 12.7", "+5.0 ± 12.7", "24.0 – 26.0", "25 %"}));
}

TEST(FewshotTables, TellWhatPurificationTookFromBothProbes) {
  const StudyTable table = fewshot_table(example_results(), example_plan_of_parts().parts[1]);
  EXPECT_EQ(table.columns[3], "5-shot gain over nothing");
  EXPECT_EQ(table.columns[5], "class probe, % (chance 6)");
  EXPECT_EQ(table.rows[1], (std::vector<std::string>{"sap", "50.0 ± 0.0", "75.0 ± 0.0", "+0.0 ± 0.0", "0.0125",
                                                     "37.5 ± 0.0", "75.0 ± 0.0", "+12.5 / +0.0"}));
}

TEST(FewshotTables, HaveNoIntervalForOneSeedAndNoGainWithoutAPair) {
  FewshotResults results = example_results();
  std::erase_if(results.records,
                [](const RunRecord& record) { return record.seed == (record.arm == "letter_none" ? 1 : 2); });
  const StudyTable table = fewshot_table(results, results.plan.parts[0]);
  EXPECT_EQ(table.rows[1], (std::vector<std::string>{"fixed", "51.0", "66.0", "–", "26.0 – 26.0", "50 %"}));
}

TEST(FewshotTables, NameARecordWithoutItsValues) {
  FewshotResults results = example_results();
  results.records[0].values.erase("5-way 5-shot/accuracy");
  try {
    fewshot_table(results, results.plan.parts[0]);
    FAIL() << "a missing value must not become a number";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "[study] the record of letter_none_s1 must hold the value '5-way 5-shot/accuracy'");
  }
}

TEST(FewshotTables, StandBetweenTheirMarksAlone) {
  const FewshotResults results = example_results();
  const std::string text =
      "a\n<!-- table: letter -->\nold\n<!-- end: letter -->\nb\n<!-- table: glyphs -->\n"
      "<!-- end: glyphs -->\nc\n";
  const std::string once = with_fewshot_tables(text, results);
  EXPECT_EQ(with_fewshot_tables(once, results), once);
  EXPECT_EQ(once.find("old"), std::string::npos);
  for (const char* kept :
       {"a\n<!-- table: letter -->\n| arm |", "<!-- end: letter -->\nb\n", "<!-- end: glyphs -->\nc\n"})
    EXPECT_NE(once.find(kept), std::string::npos) << once;
  EXPECT_THROW(with_fewshot_tables("a\n", results), std::invalid_argument);
}

using FewshotFiles = storage::ScratchFolder;

TEST_F(FewshotFiles, ReadBackAndMakeTheSameTables) {
  const FewshotResults results = example_results();
  for (const RunRecord& record : results.records) {
    storage::write_file(folder_ / (record.key() + ".json"), to_json(record));
    EXPECT_EQ(parse_record(to_json(record), "x").values, record.values);
  }
  storage::write_file(folder_ / "plan.toml", config::to_toml(results.plan));
  EXPECT_EQ(fewshot_tables(read_fewshot_study(folder_)), fewshot_tables(results));
  EXPECT_THROW(read_study(folder_), std::invalid_argument) << "it is the plan of another kind of study";
}

TEST(FewshotPlan, RefusesWhatCannotBeRun) {
  const auto refuses = [](auto change) {
    FewshotPlan plan = example_plan_of_parts();
    change(plan);
    EXPECT_THROW(plan.validate(), std::invalid_argument);
  };
  example_plan_of_parts().validate();
  FewshotPlan().validate();
  refuses([](FewshotPlan& plan) { plan.seeds.clear(); });
  refuses([](FewshotPlan& plan) { plan.seeds = {1, 1}; });
  refuses([](FewshotPlan& plan) { plan.tests.clear(); });
  refuses([](FewshotPlan& plan) { plan.parts[0].reference = "nobody"; });
  refuses([](FewshotPlan& plan) { plan.parts[0].config.clear(); });
  refuses([](FewshotPlan& plan) { plan.parts[0].arms[1].name = "none"; });
  refuses([](FewshotPlan& plan) { plan.parts[0].arms[1].name = "../x"; });
  refuses([](FewshotPlan& plan) { plan.parts[1].name = "letter"; });
  // a_b_none twice: the arm b_none of a, and the arm none of a_b.
  refuses([](FewshotPlan& plan) {
    plan.parts[0].name = "a";
    plan.parts[0].arms[1].name = "b_none";
    plan.parts[1].name = "a_b";
  });
}

}  // namespace
}  // namespace camber::study
