#include "camber/simulation/simulate.h"

#include <chrono>
#include <iterator>
#include <map>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "camber/storage/file.h"

namespace camber::simulation {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class Simulate : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("camber_simulate_" + std::to_string(::getpid()));
    fs::remove_all(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  static SimulationOptions small() {
    SimulationOptions options{.scenes = 5};
    options.world.frames = 3;
    return options;
  }
  static std::map<std::string, std::string> contents(const fs::path& root) {
    std::map<std::string, std::string> result;
    for (const auto& entry : fs::recursive_directory_iterator(root))
      if (entry.is_regular_file()) result[fs::relative(entry.path(), root)] = storage::read_file(entry.path());
    return result;
  }
  static Json table(const fs::path& root, const std::string& name) {
    return Json::parse(storage::read_file(root / "v1.0-simulated" / (name + ".json")));
  }
  static std::string message(const SimulationOptions& options, const fs::path& out, int threads = 1) {
    try {
      simulate(options, 1, threads, out);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "(no error)";
  }

  fs::path root_;
};

TEST_F(Simulate, SameSeedSameBytesForAnyNumberOfThreads) {
  simulate(small(), 7, 1, root_ / "one");
  simulate(small(), 7, 3, root_ / "three");
  simulate(small(), 8, 2, root_ / "other");
  EXPECT_EQ(contents(root_ / "one"), contents(root_ / "three"));
  const auto one = contents(root_ / "one"), other = contents(root_ / "other");
  int same = 0, images = 0;
  for (const auto& [name, bytes] : one) {
    if (name.find(".jpg") == std::string::npos) continue;
    ++images;
    same += other.contains(name) && other.at(name) == bytes ? 1 : 0;
  }
  EXPECT_EQ(images, 5 * 3 * 6);
  EXPECT_EQ(same, 0);
}

TEST_F(Simulate, SplitsShareNoInstanceTextureOrFile) {
  SimulationOptions options = small();
  options.scenes = 12;
  simulate(options, 3, 2, root_);
  const Json splits = table(root_, "splits");
  EXPECT_EQ(splits["train"].size() + splits["val"].size() + splits["test"].size(), 12U);
  EXPECT_GE(splits["val"].size(), 1U);
  std::map<std::string, std::set<std::string>> seen;  // split -> tokens, seeds, file contents
  const Json simulation = table(root_, "simulation");
  for (const Json& scene : simulation["scenes"]) {
    for (const Json& instance : scene["instances"]) {
      seen[scene["split"]].insert(instance["instance_token"].get<std::string>());
      seen[scene["split"]].insert(instance["texture_seed"].get<std::string>());
    }
  }
  for (const auto& [name, bytes] : contents(root_))
    for (auto& [split, values] : seen)
      if (name.find("simulated-" + split) != std::string::npos) values.insert(bytes);
  ASSERT_EQ(seen.size(), 3U);
  std::size_t all = 0;
  std::set<std::string> together;
  for (const auto& [split, values] : seen) {
    EXPECT_GT(values.size(), 20U);
    all += values.size();
    together.insert(values.begin(), values.end());
  }
  EXPECT_EQ(all, together.size());
}

TEST_F(Simulate, MoreTrainingScenesLeaveTheTestScenesAlone) {
  SimulationOptions few = small(), many = small();
  few.test_share = 0.2;
  many.scenes = 10;
  many.test_share = 0.1;
  simulate(few, 3, 2, root_ / "few");
  simulate(many, 3, 2, root_ / "many");
  const auto images = [](const std::map<std::string, std::string>& files) {
    std::multiset<std::string> result;
    for (const auto& [name, bytes] : files)
      if (name.find("simulated-test") != std::string::npos) result.insert(bytes);
    return result;
  };
  EXPECT_EQ(images(contents(root_ / "few")), images(contents(root_ / "many")));
}

TEST_F(Simulate, TablesReferToEachOtherAndToFilesThatExist) {
  const SimulationSummary summary = simulate(small(), 7, 2, root_);
  std::map<std::string, Json> tables;
  std::map<std::string, std::set<std::string>> tokens;
  for (const char* name : {"attribute", "calibrated_sensor", "category", "ego_pose", "instance", "log", "map", "sample",
                           "sample_annotation", "sample_data", "scene", "sensor", "visibility"}) {
    tables[name] = table(root_, name);
    for (const Json& row : tables[name])
      EXPECT_TRUE(tokens[name].insert(row["token"].get<std::string>()).second) << name << " has a token twice";
  }
  const auto refers = [&](const char* from, const char* field, const char* to) {
    for (const Json& row : tables[from]) {
      const auto token = row[field].get<std::string>();
      EXPECT_TRUE(tokens[to].contains(token)) << from << "." << field;
    }
  };
  refers("sample_data", "sample_token", "sample");
  refers("sample_data", "ego_pose_token", "ego_pose");
  refers("sample_data", "calibrated_sensor_token", "calibrated_sensor");
  refers("calibrated_sensor", "sensor_token", "sensor");
  refers("sample", "scene_token", "scene");
  refers("scene", "log_token", "log");
  refers("sample_annotation", "sample_token", "sample");
  refers("sample_annotation", "instance_token", "instance");
  refers("sample_annotation", "visibility_token", "visibility");
  refers("instance", "category_token", "category");
  refers("instance", "first_annotation_token", "sample_annotation");
  EXPECT_EQ(tables["sample_data"].size(), 5U * 3 * (6 + 3));
  for (const Json& row : tables["sample_data"]) EXPECT_TRUE(fs::exists(root_ / row["filename"].get<std::string>()));
  EXPECT_TRUE(fs::exists(root_ / tables["map"][0]["filename"].get<std::string>()));
  EXPECT_EQ(summary.frames, 15);
  EXPECT_EQ(summary.annotations, static_cast<std::int64_t>(tables["sample_annotation"].size()));
  std::int64_t bytes = 0;
  for (const auto& [name, text] : contents(root_)) bytes += static_cast<std::int64_t>(text.size());
  EXPECT_EQ(summary.bytes, bytes);
}

TEST_F(Simulate, SweepsLeadUpToTheirKeyFrame) {
  simulate(small(), 7, 1, root_);
  std::map<std::string, Json> by_token;
  for (const Json& row : table(root_, "sample_data")) by_token[row["token"]] = row;
  int chains = 0;
  for (const auto& [token, row] : by_token) {
    if (row["fileformat"] != "pcd" || !row["is_key_frame"].get<bool>()) continue;
    const Json& one = by_token.at(row["prev"]);
    const Json& two = by_token.at(one["prev"]);
    EXPECT_FALSE(one["is_key_frame"].get<bool>());
    EXPECT_EQ(row["timestamp"].get<std::int64_t>() - one["timestamp"].get<std::int64_t>(), 50000);
    EXPECT_EQ(row["timestamp"].get<std::int64_t>() - two["timestamp"].get<std::int64_t>(), 100000);
    EXPECT_EQ(one["sample_token"], row["sample_token"]);
    ++chains;
  }
  EXPECT_EQ(chains, 15);
}

TEST_F(Simulate, AnyRigEvenWithoutCameras) {
  SimulationOptions options = small();
  options.rig.cameras.clear();
  options.rig.lidar.name = "TOP";
  simulate(options, 7, 1, root_);
  EXPECT_EQ(table(root_, "sensor").size(), 1U);
  for (const Json& row : table(root_, "sample_annotation")) {
    EXPECT_GE(row["num_lidar_pts"].get<int>(), 2);
    EXPECT_EQ(row["visibility_token"], "1");
  }
}

TEST_F(Simulate, RefusesWhatCannotBe) {
  SimulationOptions options = small();
  EXPECT_EQ(message(options, root_), "(no error)");
  EXPECT_EQ(message(options, root_),
            "[simulate] out must be a new or an empty folder, got " + root_.string() + ", which holds files");
  options.version = "a/b";
  EXPECT_EQ(message(options, root_), "[simulate] version must be the name of a folder, got 'a/b'");
  options = small();
  options.val_share = 0.9;
  EXPECT_EQ(message(options, root_), "[simulate] val_share + test_share must be below 1, got 1.100000");
  options = small();
  options.world.min_objects = 20;
  EXPECT_EQ(message(options, root_), "[world] min_objects must be at most max_objects (11), got 20");
  EXPECT_EQ(message(small(), root_ / "x", 0), "[simulate] threads must be at least 1, got 0");
}

TEST(SimulationOptions, SplitsAddUp) {
  for (std::int64_t scenes = 1; scenes < 300; ++scenes) {
    const auto splits = SimulationOptions{.scenes = scenes}.splits();
    EXPECT_EQ(splits[0].scenes + splits[1].scenes + splits[2].scenes, scenes);
    EXPECT_GE(splits[0].scenes, 1);
    EXPECT_TRUE(scenes < 3 || (splits[1].scenes >= 1 && splits[2].scenes >= 1));
  }
  const auto study = SimulationOptions{.scenes = 280}.splits();
  EXPECT_EQ(study[0].scenes, 196);
  EXPECT_EQ(study[2].scenes, 56);
}

}  // namespace
}  // namespace camber::simulation
