#include <cmath>
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "camber/config/options.h"
#include "camber/report/study_report.h"
#include "camber/storage/atomic_file.h"
#include "storage/scratch_folder.h"

namespace camber::report {
namespace {

using nlohmann::json;

class StudyPage : public storage::ScratchFolder {
 protected:
  StudyPage() {
    study::StudyPlan plan;
    plan.title = "An invented study";
    plan.seeds = 3;
    plan.conditions = {"clean", "frozen:5", "stale:5"};
    plan.arms = {{.name = "plain"},
                 {.name = "constant"},
                 {.name = "trust", .title = "trust & cues"},
                 {.name = "oracle"},
                 {.name = "extra", .role = study::ArmRole::kNotes}};
    std::filesystem::create_directories(folder_ / "records");
    storage::write_file(folder_ / "records/plan.toml", config::to_toml(plan));
    double gain = 0;
    for (const study::StudyArm& arm : plan.arms) {
      for (std::int64_t seed = 0; seed < plan.seeds; ++seed) {
        study::RunRecord record{.arm = arm.name, .seed = seed, .steps = 700, .milliseconds_a_step = 90};
        for (const char* condition : {"clean", "frozen:5", "stale:5"})
          record.measurements.push_back({.condition = condition,
                                         .mean_ap = 0.4 + gain + 0.001 * static_cast<double>(seed * seed),
                                         .trust_lidar = std::nan(""),
                                         .trust_camera = std::nan("")});
        record.measurements.push_back({.condition = "clean", .control = "zero", .mean_ap = 0.4});
        record.curves["scale/bias/value"] = {{1, 20, 40}, {2.5, 2.5 + gain, 2.75}};
        record.curves["effective_bias/lidar/mean"] = {{1, 20, 40}, {0, 0.5, 1}};
        storage::write_file(folder_ / "records" / (record.key() + ".json"), to_json(record));
      }
      gain += 0.02;
    }
  }
};

TEST_F(StudyPage, ShowsGatesArmsDifferencesControlsAndAllSeeds) {
  const json page = json::parse(to_json(study_page(folder_)));
  EXPECT_EQ(page["title"], "An invented study");
  std::vector<std::string> titles;
  for (const json& section : page["sections"]) titles.push_back(section["title"]);
  EXPECT_EQ(titles, (std::vector<std::string>{"In words", "Gates", "Arms by faults", "Paired differences", "Controls",
                                              "Scales and time", "Scale curves", "Bias curves", "Plan"}));
  const std::string first = page["sections"][0]["blocks"][0]["sentences"][0]["text"];
  EXPECT_NE(first.find("'trust & cues' against 'constant'"), std::string::npos) << first;
  EXPECT_EQ(first.find('*'), std::string::npos) << first;
  const json& map = page["sections"][2]["blocks"][0];
  EXPECT_EQ(map["columns"], (json{"arm", "outcome", "clean", "frozen:5", "stale:5"}));
  EXPECT_EQ(map["rows"][0], (json{"plain", "40.2", "40.2", "40.2", "40.2"}));
  EXPECT_EQ(map["rows"][2], (json{"trust & cues", "+4.0", "+4.0", "+4.0", "+4.0"}));
  EXPECT_EQ(map["shades"][0], (json{nullptr, nullptr, nullptr, nullptr, nullptr}));
  EXPECT_NEAR(map["shades"][2][1].get<double>(), 0.5, 1e-6) << "half of the largest";
  EXPECT_EQ(page["sections"][2]["blocks"][1]["rows"].size(), 5U) << "behind the heat map";
  const json& forest = page["sections"][3]["blocks"][0];
  EXPECT_EQ(forest["kind"], "intervals");
  EXPECT_EQ(forest["rows"][0]["label"], "trust & cues - constant, outcome");
  EXPECT_EQ(forest["rows"][0]["words"], "+2.00  better");
  EXPECT_NEAR(forest["rows"][0]["mean"].get<double>(), 2, 1e-6);
  EXPECT_LT(forest["from"].get<double>(), -forest["margin"].get<double>());
  EXPECT_EQ(page["sections"][6]["blocks"].size(), 5U);
  EXPECT_EQ(page["sections"][6]["blocks"][0]["series"].size(), 3U) << "one curve a seed";
  EXPECT_EQ(page["sections"][6]["blocks"][2]["title"], "trust & cues: bias");
  EXPECT_EQ(page["sections"][7]["blocks"][2]["title"], "trust & cues: lidar");
  bool verdict = false;
  for (const json& tile : page["tiles"])
    verdict = verdict || (tile["label"] == "Verdict" && tile["value"] == "better" &&
                          tile["detail"] == "trust & cues against constant");
  EXPECT_TRUE(verdict) << page["tiles"];
  EXPECT_THROW(study_page(folder_ / "records/none"), std::invalid_argument);
}

TEST(StudyPageOfAlarms, ShowsWhichPolicyWins) {
  const json page =
      json::parse(to_json(study_page(std::filesystem::path(std::getenv("CAMBER_SOURCE")) / "study/alarms")));
  ASSERT_EQ(page["sections"][1]["title"], "Policies");
  const json& chart = page["sections"][1]["blocks"][0];
  EXPECT_EQ(chart["title"], "Which policy wins");
  EXPECT_EQ(chart["rows"].size(), 5U);
  const std::string middle = chart["rows"][2][2];
  EXPECT_TRUE(middle.starts_with("verified rule, +0.3 above")) << middle;
  EXPECT_EQ(page["sections"][1]["blocks"].size(), 3U);
}

TEST_F(StudyPage, DrawsARowAComparison) {
  study::StudyPlan plan;
  plan.arms = {{.name = "a", .title = "a < b & c"}, {.name = "b"}};
  study::Comparison sure{
      .arm = "a", .against = "b", .difference = {.pairs = 8, .mean = 0.03, .low = 0.02, .high = 0.04}};
  sure.conclusion = study::Conclusion{.words = "better"};
  study::Comparison lone{.arm = "b", .against = "a", .measure = "clean", .difference = {.pairs = 1, .mean = -0.01}};
  lone.difference.low = lone.difference.high = std::nan("");
  const std::string svg = forest_plot(plan, {sure, lone});
  const auto count = [&svg](const std::string& words) {
    std::size_t found = 0;
    for (std::size_t position = svg.find(words); position != std::string::npos;
         position = svg.find(words, position + 1))
      ++found;
    return found;
  };
  EXPECT_EQ(count("<circle"), 2U);
  EXPECT_EQ(count("stroke-width=\"2\""), 1U) << "one pair has no interval";
  EXPECT_EQ(count("a &lt; b &amp; c - b, outcome"), 1U);
  EXPECT_EQ(count("+3.00  better"), 1U);
  EXPECT_EQ(count("nan"), 0U);
}

TEST_F(StudyPage, HasImagesThatStandAlone) {
  const auto images = study_images(study::read_study(folder_));
  std::vector<std::string> names;
  names.reserve(images.size());
  for (const StudyImage& image : images) names.push_back(image.name);
  EXPECT_EQ(names, (std::vector<std::string>{"arms", "differences", "exploratory", "scales"})) << "no curve of trust";
  const std::string& arms = images[0].svg;
  EXPECT_NE(arms.find("fill=\"#eeeeee\"/>\n<text x=\"346.0\" y=\"89.0\" text-anchor=\"middle\" "
                      "fill=\"#222222\">40.2<"),
            std::string::npos)
      << "the reference's own mAP\n"
      << arms;
  EXPECT_NE(arms.find(">trust &amp; cues<"), std::string::npos);
  EXPECT_NE(arms.find(">+2.0<"), std::string::npos) << "the others' differences";
  EXPECT_NE(arms.find("fill=\"#4a90d9\""), std::string::npos) << "the largest of them is the deepest";
  EXPECT_NE(images[3].svg.find("scale/bias/value"), std::string::npos);
  for (const StudyImage& image : images) {
    EXPECT_EQ(image.svg.find("nan"), std::string::npos) << image.name;
    EXPECT_TRUE(image.svg.ends_with("</svg>\n")) << image.name;
  }
}

TEST_F(StudyPage, ShowsArmsFromScratchBesideOneAnother) {
  study::StudyResults results = study::read_study(folder_);
  EXPECT_NE(arm_map(results).find(">+8.0<"), std::string::npos) << "the last arm, above the reference";
  results.plan.arms[3].from_scratch = results.plan.arms[4].from_scratch = true;
  results.plan.arms[4].against = results.plan.arms[3].name;
  const std::string map = arm_map(results);
  EXPECT_EQ(map.find(">+8.0<"), std::string::npos) << map;
  EXPECT_NE(map.find(">46.2<"), std::string::npos) << "the mAP of the one that names no other\n" << map;
}

}  // namespace
}  // namespace camber::report
