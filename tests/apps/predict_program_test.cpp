#include "apps/train_program.h"

// `predict` beyond the submission: every detection as the detector states it, and data sets without splits.
namespace camber::app {
namespace {

TEST_F(TrainProgram, RawHoldsEveryDetectionOfAQuery) {
  const std::string command = "predict --run run --split train --threads 1";
  ASSERT_EQ(call(command + " --raw raw.json --out found.json").code, 0);
  ASSERT_EQ(call(command + " --raw again.json").code, 0);
  ASSERT_EQ(call("predict --run run --split train --threads 2 --raw two.json").code, 0);
  EXPECT_EQ(storage::read_file(folder_ / "raw.json"), storage::read_file(folder_ / "again.json"));
  const Json raw = Json::parse(storage::read_file(folder_ / "raw.json"));
  const Json two = Json::parse(storage::read_file(folder_ / "two.json"));
  const Json submitted = Json::parse(storage::read_file(folder_ / "found.json"));
  EXPECT_EQ(raw["frame"], "lidar");
  EXPECT_EQ(raw["columns"], Json::parse(R"(["x", "y", "z", "w", "l", "h", "yaw", "vx", "vy"])"));
  ASSERT_EQ(raw["results"].size(), submitted["results"].size());
  ASSERT_FALSE(raw["results"].empty());
  std::size_t compared = 0;
  for (const auto& [token, found] : raw["results"].items()) {
    const Json& global = submitted["results"][token];
    ASSERT_LE(global.size(), found.size());
    ASSERT_FALSE(found.empty());
    std::size_t next = 0;
    double before = 1;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const Json& one = found[i];
      ASSERT_EQ(one["box"].size(), 9);
      EXPECT_LE(one["score"].get<double>(), before);
      before = one["score"].get<double>();
      EXPECT_EQ(one["query"], two["results"][token][i]["query"]);
      EXPECT_EQ(one["label"], two["results"][token][i]["label"]);
      EXPECT_NEAR(before, two["results"][token][i]["score"].get<double>(), 1e-5);
      // The submission is the same list without those beyond their range.
      if (next == global.size() || global[next]["detection_score"] != one["score"]) continue;
      const Json& box = global[next++];
      EXPECT_EQ(box["detection_name"], raw["classes"][one["label"].get<std::size_t>()]);
      EXPECT_EQ(box["size"][0], one["box"][4]);
      EXPECT_EQ(box["size"][1], one["box"][3]);
      EXPECT_EQ(box["size"][2], one["box"][5]);
      const auto speed = [](const Json& x, const Json& y) { return std::hypot(x.get<double>(), y.get<double>()); };
      EXPECT_NEAR(speed(box["velocity"][0], box["velocity"][1]), speed(one["box"][7], one["box"][8]), 1e-6);
      ++compared;
    }
    EXPECT_EQ(next, global.size());
  }
  EXPECT_GT(compared, 0);
  EXPECT_EQ(
      call("predict --run run").errors,
      "camber: [predict] one of --out FILE.json, --raw FILE.json and --image FILE.png, or several, must be given\n");
}

// One real frame or a test set: nobody wrote a splits.json, nobody annotated it.
TEST_F(TrainProgram, ADataSetWithoutSplitsOrAnnotationsIsTakenWhole) {
  const fs::path tables = folder_ / "unsplit" / "v1.0-simulated";
  fs::copy(folder_ / "world", folder_ / "unsplit", fs::copy_options::recursive);
  fs::remove(folder_ / "unsplit" / "splits.json");
  fs::remove(tables / "splits.json");
  for (const char* table : {"sample_annotation", "instance", "attribute"}) {
    fs::remove(tables / (std::string(table) + ".json"));
    std::ofstream(tables / (std::string(table) + ".json")) << "[]";
  }
  const Answer found = call("predict --run run --data unsplit --raw unsplit.json");
  ASSERT_EQ(found.code, 0) << found.errors;
  EXPECT_NE(found.errors.find("unsplit/v1.0-simulated has no splits.json: all 15 samples are taken\n"),
            std::string::npos)
      << found.errors;
  EXPECT_EQ(Json::parse(storage::read_file(folder_ / "unsplit.json"))["results"].size(), 15);
  const Answer quiet = call("predict --run run --data unsplit --raw unsplit.json --quiet");
  EXPECT_EQ(quiet.errors, "");
  const Answer looked = call("inspect --data unsplit");
  EXPECT_EQ(looked.code, 0) << looked.errors;
  EXPECT_NE(looked.output.find("every scene"), std::string::npos) << looked.output;
  // What is named must be there all the same.
  EXPECT_NE(call("predict --run run --data unsplit --split val --raw unsplit.json").code, 0);
}

}  // namespace
}  // namespace camber::app
