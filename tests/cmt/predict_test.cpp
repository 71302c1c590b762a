// The program as a person brings a CMT to it, at the reduced size: import a checkpoint, look at frames of a data set.
#include <fstream>
#include <map>

#include <nlohmann/json.hpp>

#include "camber/detection/cmt_weights.h"
#include "camber/weights/torch_file.h"
#include "cmt/small_program.h"
#include "nuscenes/small_world.h"

namespace camber::cmt_tests {
namespace {

using Json = nlohmann::json;
using Key = std::pair<std::int64_t, std::int64_t>;  // query, label

class CmtPredict : public SmallCmtProgram {
 protected:
  void import(const std::filesystem::path& checkpoint) const {
    const auto answer =
        call("import cmt '" + checkpoint.string() + "' --config small.toml --out model.safetensors --quiet");
    ASSERT_EQ(answer.code, 0) << answer.errors;
  }
  // The detections of each frame; the file's bytes stay in `out`.
  std::map<std::string, std::map<Key, Json>> predict(const std::string& data, const std::string& out,
                                                     int threads) const {
    const auto answer = call("predict --checkpoint model.safetensors --data " + data + " --threads " +
                             std::to_string(threads) + " --raw " + out);
    EXPECT_EQ(answer.code, 0) << answer.errors;
    EXPECT_NE(answer.errors.find("has no splits.json: all "), std::string::npos) << answer.errors;
    std::map<std::string, std::map<Key, Json>> frames;
    const Json file = Json::parse(storage::read_file(folder_ / out));
    for (const auto& [token, rows] : file["results"].items())
      for (const Json& row : rows)
        frames[token][{row["query"].get<std::int64_t>(), row["label"].get<std::int64_t>()}] = row;
    return frames;
  }
  void expect_deterministic(const std::string& data, std::size_t frames) const {
    const auto one = predict(data, "one.json", 1), two = predict(data, "two.json", 2);
    predict(data, "again.json", 1);
    EXPECT_EQ(storage::read_file(folder_ / "one.json"), storage::read_file(folder_ / "again.json"));
    ASSERT_EQ(one.size(), frames);
    for (const auto& [token, found] : one) {
      const auto& other = two.at(token);
      ASSERT_EQ(found.size(), other.size());
      for (const auto& [key, row] : found) {
        ASSERT_TRUE(other.contains(key)) << token << ": query " << key.first << ", label " << key.second;
        EXPECT_NEAR(row["score"].get<double>(), other.at(key)["score"].get<double>(), 1e-5);
      }
    }
  }
};

TEST_F(CmtPredict, ImportsAndPredictsOnMadeFrames) {
  const detection::Detector like(small_options());
  const std::vector<WeightRule> rules = {
      {"num_batches_tracked$", "zero", "0", "0"}, {"running_mean$", "range", "-0.3", "0.3"},
      {"running_var$", "range", "0.5", "1.5"},    {"reference_points", "range", "0", "1"},
      {"bias$", "range", "-0.2", "0.2"},          {"weight$", "fan_or_norm", "1.0", "normal"}};
  const auto made = recipe_weights(detection::export_cmt(*like, detection::SpconvLayout::kTwo), rules, 19);
  weights::write_torch_file(folder_ / "recipe.pth", made, {}, {});
  import(folder_ / "recipe.pth");
  tests::write_small_world(folder_ / "data");
  expect_deterministic("data --version " + tests::kSmallVersion, 6);
}

TEST_F(CmtPredict, ImportsAndPredictsOnTheRealKeyFrame) {
  const auto weights = golden_folder() / "small" / "weights.safetensors",
             frame = tests::real_data() / "nuscenes_keyframe";
  if (!std::filesystem::exists(weights) || !std::filesystem::exists(frame))
    GTEST_SKIP() << "no stage values of CMT and key frame below " << tests::real_data() << " (set CAMBER_DATA)";
  import(std::filesystem::absolute(weights));
  expect_deterministic("'" + std::filesystem::absolute(frame).string() + "' --version v1.0-keyframe", 1);
}

}  // namespace
}  // namespace camber::cmt_tests
