#include <algorithm>
#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "apps/called_program.h"

// `camber fewshot`, called as a person calls it.
namespace camber::app {
namespace {

namespace fs = std::filesystem;

// A second's worth of any configuration.
constexpr const char* kShort = " --training.episodes=2 --tests.0.episodes=5 --tests.1.episodes=5 --threads 1";

class FewshotProgram : public CalledProgram {
 protected:
  void SetUp() override {
    CalledProgram::SetUp();
    const char* source = std::getenv("CAMBER_SOURCE");
    if (source == nullptr) GTEST_SKIP() << "CAMBER_SOURCE names no folder with configurations";
    source_ = source;
  }

  // Runs in the source folder, where the configurations are.
  Answer call(const std::string& arguments) const { return call_program("fewshot " + arguments, source_, folder_); }

  std::string source_;
};

TEST_F(FewshotProgram, RunsTheGlyphsAndWritesARun) {
  const std::string run = (folder_ / "run").string();
  const Answer answer =
      call("--config configs/fewshot_glyphs.toml --leak_episodes=4 --format json --out '" + run + "'" + kShort);
  ASSERT_EQ(answer.code, 0) << answer.errors;
  const auto json = nlohmann::json::parse(answer.output);
  EXPECT_EQ(json["settings"].size(), 2U);
  EXPECT_TRUE(json["settings"][0].contains("interval"));
  EXPECT_NEAR(json["scale"][0]["start"].get<double>(), 25, 1e-9);
  EXPECT_EQ(json["leak"].size(), 3U);
  EXPECT_TRUE(fs::exists(fs::path(run) / "metrics.jsonl"));
  EXPECT_TRUE(fs::exists(fs::path(run) / "config.toml"));
  const Answer again = call("--config configs/fewshot_glyphs.toml --out '" + run + "'" + kShort);
  EXPECT_EQ(again.code, 2) << "a folder with a run is not written over";
  const Answer resumed = call("--resume '" + run + "' --format json");
  ASSERT_EQ(resumed.code, 0) << resumed.errors;
  EXPECT_EQ(nlohmann::json::parse(resumed.output)["settings"], json["settings"]);
}

TEST_F(FewshotProgram, SaysThatACheckpointIsDamaged) {
  const fs::path run = folder_ / "run";
  const std::string plan =
      "--config configs/fewshot_glyphs.toml --leak_episodes=4 --training.episodes=4 "
      "--training.checkpoint_every=1 --tests.0.episodes=5 --tests.1.episodes=5 --threads 1";
  ASSERT_EQ(call(plan + " --out '" + run.string() + "'").code, 0);
  const fs::path last = run / "checkpoints/last.safetensors";
  fs::resize_file(last, fs::file_size(last) / 2);
  const Answer resumed = call("--resume '" + run.string() + "' --threads 1");
  ASSERT_EQ(resumed.code, 0) << resumed.errors;
  EXPECT_NE(resumed.errors.find("last.safetensors"), std::string::npos) << resumed.errors;
  EXPECT_NE(resumed.errors.find("continues from"), std::string::npos) << resumed.errors;
  EXPECT_NE(resumed.errors.find("previous.safetensors at step"), std::string::npos) << resumed.errors;
  const Answer changed = call("--resume '" + run.string() + "' --training.episodes=8");
  EXPECT_EQ(changed.code, 2);
  EXPECT_EQ(changed.errors,
            "camber: [fewshot] a resumed run keeps its configuration: training.episodes must stay 4, got 8\n");
}

TEST_F(FewshotProgram, IsAloneInItsFolderAndSaysHowToGoOn) {
  const std::string run = (folder_ / "run").string();
  Process training(
      "fewshot --config configs/fewshot_glyphs.toml --training.episodes=100000 --training.checkpoint_every=1 "
      "--threads 1 --out '" +
          run + "'",
      source_, folder_, "training");
  ASSERT_TRUE(appears(folder_ / "run/checkpoints/last.safetensors"));
  const Answer second = call("--resume '" + run + "' --threads 1");
  EXPECT_EQ(second.code, 1);
  EXPECT_NE(second.errors.find("must be free, but process " + std::to_string(training.id()) + " on " + host_name() +
                               " works there"),
            std::string::npos)
      << second.errors;
  training.send(SIGINT);
  const Answer stopped = training.wait();
  EXPECT_EQ(stopped.code, 130) << stopped.errors;
  EXPECT_NE(stopped.errors.find("continue with: camber fewshot --resume " + run), std::string::npos) << stopped.errors;
}

TEST_F(FewshotProgram, ShowsTheGroups) {
  const Answer answer = call("--print-groups --source.glyphs.classes=25 --source.glyphs.hands=2");
  ASSERT_EQ(answer.code, 0) << answer.errors;
  EXPECT_NE(answer.output.find("without decay: sap.scale.raw"), std::string::npos) << answer.output;
}

TEST_F(FewshotProgram, ConfigurationsOfRealDataRunAsTheyAre) {
  const char* root = std::getenv("CAMBER_DATA");
  const fs::path data = root != nullptr && *root != '\0' ? fs::path(root) : fs::path(source_) / "../shared/data";
  if (!fs::exists(data / "letter")) GTEST_SKIP() << "no data below CAMBER_DATA";
  for (const char* name : {"omniglot", "letter"}) {
    const Answer answer = call(std::string("--config configs/fewshot_") + name + ".toml --format json --quiet" +
                               kShort + (name == std::string("omniglot") ? " --tests.2.episodes=5" : ""));
    ASSERT_EQ(answer.code, 0) << answer.errors;
    EXPECT_TRUE(answer.errors.empty()) << answer.errors;
    const auto json = nlohmann::json::parse(answer.output);
    EXPECT_GE(json["settings"].size(), 2U);
    EXPECT_EQ(json["test_classes"], name == std::string("omniglot") ? 106 : 5);
  }
}

TEST_F(FewshotProgram, AnswersMistakesWithOneSentence) {
  const auto expect = [this](const std::string& arguments, const std::string& words) {
    const Answer answer = call(arguments + " --quiet");
    EXPECT_TRUE(answer.code == 1 || answer.code == 2) << arguments;
    EXPECT_NE(answer.errors.find(words), std::string::npos) << answer.errors;
    EXPECT_EQ(std::count(answer.errors.begin(), answer.errors.end(), '\n'), 1) << answer.errors;
  };
  expect("--source.glyphs.classes=30 --source.test_classes=30", "from 1 to 29, got 30");
  expect("--episode.k_shot=20", "12 examples");
  expect("--model.purifier=sab", "sap");
  expect("--source.kind=letter --source.path=absent.data", "absent.data");
  expect("--source.kind=image_folders --source.path=" + folder_.string(), "images");
  expect("--model.purification.scale.init=200", "init");
  expect("--resume " + folder_.string(), "config.toml");
}

}  // namespace
}  // namespace camber::app
