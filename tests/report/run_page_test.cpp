#include <fstream>
#include <map>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "camber/report/run_report.h"
#include "camber/storage/atomic_file.h"
#include "health/made_run_folder.h"
#include "storage/scratch_folder.h"

namespace camber::report {
namespace {

using nlohmann::json;

class RunPage : public storage::ScratchFolder {
 protected:
  std::vector<std::string> titles(const json& page) const {
    std::vector<std::string> found;
    for (const json& section : page["sections"]) {
      found.push_back(section["title"]);
      for (const json& block : section["blocks"])
        if (block.contains("title")) found.push_back(block["title"]);
    }
    return found;
  }
  static bool contains(const std::vector<std::string>& list, const std::string& word) {
    return std::find(list.begin(), list.end(), word) != list.end();
  }
  // Value and detail by label.
  static std::map<std::string, std::pair<std::string, std::string>> tiles_of(const json& page) {
    std::map<std::string, std::pair<std::string, std::string>> tiles;
    for (const json& tile : page["tiles"]) tiles[tile["label"]] = {tile["value"], tile["detail"]};
    return tiles;
  }
};

TEST_F(RunPage, ShowsAllThatAFinishedRunHolds) {
  health::write_made_run(folder_, {.steps = 300});
  const json page = json::parse(to_json(run_page(folder_)));
  const auto found = titles(page);
  for (const char* title : {"Health",
                            "Results",
                            "Under faults",
                            "By class",
                            "Validation while training",
                            "Precision over recall, car",
                            "Images",
                            "Scale",
                            "Scale bias",
                            "Gradient of bias",
                            "Effective bias, lidar",
                            "Mean trust",
                            "Entropy",
                            "Saturated rows",
                            "Attention on lidar",
                            "Attention on camera",
                            "Heads",
                            "Entropy, layer2",
                            "Loss",
                            "Configuration",
                            "Environment"})
    EXPECT_TRUE(contains(found, title)) << title;
  const json& scale = page["sections"][0]["blocks"][0];
  ASSERT_EQ(scale["title"], "Scale bias");
  ASSERT_EQ(scale["series"].size(), 4U);
  EXPECT_EQ(scale["series"][2]["role"], "bound");
  EXPECT_EQ(scale["series"][3]["role"], "warn");
  const json& faults = page["sections"][2]["blocks"][0];
  EXPECT_EQ(faults["rows"][0][0], "clean");
  EXPECT_EQ(faults["rows"][1][1], "0.330");
  EXPECT_EQ(faults["columns"].size(), 9U) << "without dense heads nothing is known of the sensors' agreement";
  EXPECT_EQ(page["tiles"].back()["value"], "good");
}

TEST_F(RunPage, ShowsTheBiasOfEveryLayerAndOfWholeSensors) {
  health::write_made_run(folder_, {.steps = 20});
  const json plain = json::parse(to_json(run_page(folder_)));  // a run that tells of no layers
  EXPECT_TRUE(contains(titles(plain), "Effective bias, lidar"));
  EXPECT_FALSE(contains(titles(plain), "Effective bias by layer, lidar"));
  std::ofstream metrics(folder_ / "metrics.jsonl", std::ios::app);
  for (const int step : {30, 40})
    metrics
        << R"({"step":)" << step
        << R"(,"time":1,"effective_bias/lidar/mean":1,"effective_bias/segments/camera/mean":2,)"
        << R"("effective_bias/layer0/lidar/mean":0.5,"effective_bias/layer1/lidar/mean":1.5,"effective_bias/layer1/segments/camera/mean":2})"
        << "\n";
  metrics.close();
  const json page = json::parse(to_json(run_page(folder_)));
  for (const json& section : page["sections"])
    for (const json& block : section["blocks"])
      if (block.value("title", "") == "Effective bias by layer, lidar") {
        ASSERT_EQ(block["series"].size(), 2U);
        EXPECT_EQ(block["series"][1]["name"], "layer1");
      }
  for (const char* title : {"Effective bias, lidar", "Effective bias by layer, lidar",
                            "Effective bias, camera as a whole", "Effective bias by layer, camera as a whole"})
    EXPECT_TRUE(contains(titles(page), title)) << title;
  EXPECT_FALSE(contains(titles(page), "Effective bias, layer0/lidar"));
}

TEST_F(RunPage, ShowsTheScalesOfADetectorFirst) {
  health::write_made_run(folder_, {.steps = 20});
  std::ofstream metrics(folder_ / "metrics.jsonl", std::ios::app);
  for (const int step : {30, 40})
    metrics << R"({"step":)" << step << R"(,"time":1,"scale/head.attention_bias.scale/value":2.5,)"
            << R"("scale/head.attention_bias.scale/max":5,"scale/head.attention_bias.scale/warn_threshold":4,)"
            << R"("attention/layer0/head3/entropy_share":0.5})"
            << "\n";
  metrics.close();
  const json page = json::parse(to_json(run_page(folder_)));
  EXPECT_EQ(page["sections"][0]["title"], "Scale");
  // Curves before what explains them; the name of a part of the model is not that of one head.
  EXPECT_EQ(page["sections"][0]["blocks"][0]["title"], "Scale bias");
  EXPECT_EQ(page["sections"][0]["blocks"][1]["title"], "Scale");
  EXPECT_EQ(page["sections"][0]["blocks"][1]["series"].size(), 3U);
  for (const json& section : page["sections"])
    for (const json& block : section["blocks"])
      if (block.value("title", "") == "Entropy") {
        for (const json& series : block["series"])
          EXPECT_EQ(series["name"].get<std::string>().find("head"), std::string::npos);
      }
}

TEST_F(RunPage, HasATileForEachOfAFewScales) {
  health::write_made_run(folder_, {.steps = 20});
  std::ofstream(folder_ / "metrics.jsonl", std::ios::app)
      << R"({"step":30,"time":1,"scale/head.attention_bias.segment_scale/value":3.5,)"
      << R"("scale/head.attention_bias.segment_scale/min":0,"scale/head.attention_bias.segment_scale/max":10,)"
      << R"("scale/sap.scale/value":25,"scale/sap.scale/gradient":0.5,"scale/x/value":1})"
      << "\n";
  const json page = json::parse(to_json(run_page(folder_)));
  auto tiles = tiles_of(page);
  EXPECT_EQ(tiles["Segment scale"], std::pair(std::string("3.5"), std::string("bounds 0 to 10")));
  EXPECT_TRUE(tiles.contains("Scale bias"));
  EXPECT_EQ(tiles["Sap scale"].first, "25");
  EXPECT_FALSE(tiles.contains("Scale x")) << "a fourth would fill the page";
  EXPECT_TRUE(contains(titles(page), "Gradient of sap scale"));
}

TEST_F(RunPage, ShowsTheAccuraciesOfAFewshotRun) {
  health::write_made_run(folder_, {.steps = 20, .finished = false});
  storage::write_file(
      folder_ / "result.json",
      R"({"settings": [{"name": "5-way 1-shot", "episodes": 600, "accuracy": 0.512, "interval": 0.008, )"
      R"("chance": 0.2}]})");
  const json page = json::parse(to_json(run_page(folder_)));
  EXPECT_EQ(page["sections"][0]["title"], "Scale");
  EXPECT_EQ(tiles_of(page)["Accuracy"], std::pair(std::string("51.2 %"), std::string("5-way 1-shot, chance 20.0 %")));
  bool found = false;
  for (const json& section : page["sections"])
    for (const json& block : section["blocks"])
      if (block.value("title", "") == "Accuracy") {
        found = true;
        EXPECT_EQ(block["rows"][0], (json{"5-way 1-shot", "0.512", "0.008", "0.200", "600"}));
      }
  EXPECT_TRUE(found);
}

TEST_F(RunPage, SaysWhatIsWrong) {
  health::write_made_run(folder_, {.run = {.situation = health::Situation::kRunawayScale}});
  const json page = json::parse(to_json(run_page(folder_)));
  const json& sentences = page["sections"][1]["blocks"][0]["sentences"];
  ASSERT_GE(sentences.size(), 3U);
  EXPECT_EQ(page["tiles"].back()["value"], "warning");
}

TEST_F(RunPage, ShowsWhatBroke) {
  health::write_made_run(folder_, {.steps = 20, .finished = false});
  std::ofstream(folder_ / "metrics.jsonl", std::ios::app)
      << R"({"step":30,"time":1,"loss/total":"NaN","validation/mean_ap":"NaN","validation/nd_score":"NaN"})"
      << "\n";
  storage::write_file(folder_ / "result.json",
                      "{\"clean\": {\"mean_ap\": 0.1, \"nd_score\": -Infinity}, \"faults\": {}, "
                      "\"mean_resilience\": Infinity}");
  const json page = json::parse(to_json(run_page(folder_)));
  EXPECT_EQ(tiles_of(page)["Loss"].first, "not finite");
  EXPECT_EQ(tiles_of(page)["mAP"], std::pair(std::string("10.0 %"), std::string("NDS not finite")));
  std::filesystem::remove(folder_ / "result.json");  // then the last validation speaks
  EXPECT_EQ(tiles_of(json::parse(to_json(run_page(folder_))))["mAP"].first, "not finite");
}

TEST_F(RunPage, ShowsTheAgreementOfTheSensorsUnderEachCondition) {
  health::write_made_run(folder_, {.steps = 20});
  storage::write_file(folder_ / "result.json",
                      R"({"clean": {"mean_ap": 0.5, "nd_score": 0.5}, "faults": {"frozen:4": {"mean_ap": 0.3}},
                          "agreement": {"clean": {"mean": 0.31, "area_under_curve": 0.5},
                                        "frozen:4": {"mean": NaN, "area_under_curve": 0.93}}})");
  const json page = json::parse(to_json(run_page(folder_)));
  std::vector<json> rows;
  for (const json& section : page["sections"])
    for (const json& block : section["blocks"])
      if (block.value("title", "") == "Under faults") {
        EXPECT_EQ(block["columns"][9], "agreement");
        rows = block["rows"];
      }
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0][9], "0.310");
  EXPECT_EQ(rows[0][10], "-") << "a condition cannot be told from itself";
  EXPECT_EQ(rows[1][9], "-") << "not known";
  EXPECT_EQ(rows[1][10], "0.93");
}

TEST_F(RunPage, ShowsARunThatGoesOn) {
  health::write_made_run(folder_, {.steps = 30, .finished = false});
  std::ofstream(folder_ / "metrics.jsonl", std::ios::app) << "{\"step\":31,\"ti";  // being written
  const Page page = run_page(folder_, {.refresh_seconds = 5});
  EXPECT_EQ(page.refresh_seconds, 5);
  EXPECT_FALSE(contains(titles(json::parse(to_json(page))), "Results"));
  storage::write_file(folder_ / "result.json", "{\"clean\": {\"mean_ap\": 0.1, \"nd_score\": NaN}, \"faults\": {}}");
  EXPECT_EQ(run_page(folder_, {.refresh_seconds = 5}).refresh_seconds, 0) << "a finished run does not change";
}

TEST_F(RunPage, RefusesAFolderThatIsNoRun) {
  EXPECT_THROW(run_page(folder_), std::invalid_argument);
  std::ofstream(folder_ / "metrics.jsonl") << "";
  EXPECT_NO_THROW(to_html(run_page(folder_)));
  std::ofstream(folder_ / "result.json") << "{";
  EXPECT_THROW(run_page(folder_), std::runtime_error);
}

}  // namespace
}  // namespace camber::report
