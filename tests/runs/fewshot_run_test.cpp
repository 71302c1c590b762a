#include "camber/runs/fewshot_run.h"

#include <cmath>
#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "camber/config/options.h"
#include "camber/runs/fewshot_evaluation.h"
#include "camber/storage/file.h"

namespace camber::runs {
namespace {

namespace fs = std::filesystem;

// A run of a second: eight training classes of 16x16 glyphs, a small network.
FewshotOptions small_run(std::int64_t episodes = 12) {
  FewshotOptions options;
  options.source.test_classes = 5;
  options.source.glyphs = {.classes = 13, .hands = 6, .size = 16, .domains = {"ink", "inverted", "noisy"}};
  options.episode = {.n_way = 4, .k_shot = 2, .queries = 2, .cross_domain = true};
  options.model.encoder.channels = 8;
  options.model.domain_width = 16;
  options.training.episodes = episodes;
  options.training.log_every = 2;
  options.training.checkpoint_every = 5;
  options.tests = {{.n_way = 5, .k_shot = 1, .queries = 3, .episodes = 40},
                   {.n_way = 5, .k_shot = 3, .queries = 3, .episodes = 40}};
  options.leak_episodes = 6;
  return options;
}

class FewshotRuns : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("camber_fewshot_" + std::to_string(getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path folder_;
};

TEST_F(FewshotRuns, TrainsTestsAndTellsEverything) {
  const auto options = small_run();
  const auto result = run_fewshot(options, {.threads = 1, .out = folder_ / "a", .config = config::to_toml(options)});
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(result.episodes, 12);
  ASSERT_EQ(result.settings.size(), 2U);
  EXPECT_EQ(result.settings[0].accuracy.count, 40);
  EXPECT_GT(result.settings[0].accuracy.half_width, 0);
  EXPECT_EQ(result.settings[0].chance, 0.2);
  ASSERT_EQ(result.scales.size(), 1U);
  EXPECT_EQ(result.scales[0].name, "sap.scale");
  EXPECT_EQ(result.scales[0].start, 25);
  EXPECT_GT(result.scales[0].curve.size(), 5U);
  ASSERT_EQ(result.leaks.size(), 3U);
  EXPECT_EQ(result.leaks[1].feature, "purified");
  EXPECT_NEAR(result.leaks[1].domain_probe.chance, 1 / 3.0, 0.15);
  EXPECT_EQ(result.statistics.size(), 9U);
  for (const char* file : {"config.toml", "environment.json", "metrics.jsonl", "metrics.csv", "result.json",
                           "checkpoints/last.safetensors"})
    EXPECT_TRUE(fs::exists(folder_ / "a" / file)) << file;
  const auto json = nlohmann::json::parse(storage::read_file(folder_ / "a" / "result.json"));
  EXPECT_EQ(json["settings"][0]["name"], "5-way 1-shot");
  EXPECT_EQ(json["scale"][0]["constraint"], "projected");
  EXPECT_EQ(json["leak"][0]["feature"], "domain");
  const auto metrics = storage::read_file(folder_ / "a" / "metrics.jsonl");
  for (const char* name : {"sap/logit_scale", "sap/attention_entropy", "sap/logit_scale_clipped", "loss/orthogonality",
                           "gradient_norm", "prototypes/mean_cosine"})
    EXPECT_NE(metrics.find(name), std::string::npos) << name;
  EXPECT_NE(to_text(result).find("class probe"), std::string::npos);
}

TEST_F(FewshotRuns, ResumeEqualsNeverHavingStopped) {
  const auto options = small_run();
  const std::string config = config::to_toml(options);
  run_fewshot(options, {.threads = 1, .out = folder_ / "whole", .config = config});
  int asked = 0;
  const auto stopped = run_fewshot(
      options,
      {.threads = 1, .out = folder_ / "cut", .config = config, .stop_requested = [&asked] { return ++asked > 7; }});
  EXPECT_FALSE(stopped.complete);
  EXPECT_LT(stopped.episodes, 12);
  const auto resumed = run_fewshot(options, {.threads = 1, .out = folder_ / "cut", .resume = true, .config = config});
  EXPECT_EQ(resumed.episodes, 12);
  EXPECT_EQ(storage::read_file(folder_ / "whole" / "checkpoints" / "last.safetensors"),
            storage::read_file(folder_ / "cut" / "checkpoints" / "last.safetensors"))
      << "weights, optimiser state and counters, bit for bit";
  const auto whole = nlohmann::json::parse(storage::read_file(folder_ / "whole" / "result.json")),
             cut = nlohmann::json::parse(storage::read_file(folder_ / "cut" / "result.json"));
  EXPECT_EQ(whole["settings"], cut["settings"]);
  EXPECT_EQ(whole["scale"][0]["curve"], cut["scale"][0]["curve"]);
}

TEST_F(FewshotRuns, TestEpisodesAndDivisionDoNotDependOnTheSeed) {
  auto options = small_run(1);
  options.training.optimizer.learning_rate = 0;
  options.leak_episodes = 0;
  const auto first = run_fewshot(options, {.threads = 1}), again = run_fewshot(options, {.threads = 1});
  EXPECT_EQ(first.settings[0].accuracy.mean, again.settings[0].accuracy.mean);
  options.seed = 9;
  const auto other = run_fewshot(options, {.threads = 1});
  EXPECT_EQ(first.test_classes, other.test_classes);
  EXPECT_NE(first.settings[0].accuracy.mean, other.settings[0].accuracy.mean);
}

TEST_F(FewshotRuns, EveryPurifierAndConstraintRuns) {
  for (const auto& [purifier, name] : config::enum_names<fewshot::Purifier>) {
    auto options = small_run(2);
    options.model.purifier = purifier;
    options.model.feed_classifier = true;
    const auto result = run_fewshot(options, {.threads = 1});
    EXPECT_TRUE(std::isfinite(result.last_loss)) << name;
    EXPECT_EQ(result.oracle, purifier == fewshot::Purifier::kClassMeanOracle);
  }
  for (const auto& [constraint, name] : config::enum_names<nn::Constraint>) {
    auto options = small_run(2);
    options.model.purification.scale.constraint = constraint;
    EXPECT_NEAR(run_fewshot(options, {.threads = 1}).scales.at(0).value, 25, 2) << name;
  }
}

TEST_F(FewshotRuns, LearnsGlyphsWithinSeconds) {
  // Sixty classes to learn from: with the eight of small_run, whether the others profit is luck.
  auto options = small_run(300);
  options.source.glyphs.classes = 65;
  options.source.glyphs.domains = {"ink"};
  options.episode.cross_domain = false;
  options.model.domain_branch = false;
  options.model.losses.class_contrast = 0;
  options.model.head.normalize = false;
  options.training.optimizer = {.kind = train::OptimizerKind::kAdam, .learning_rate = 3e-3, .weight_decay = 0};
  auto untrained = options;
  untrained.training.episodes = 1;
  untrained.training.optimizer.learning_rate = 0;
  const double before = run_fewshot(untrained, {.threads = 1}).settings[1].accuracy.mean;
  const double after = run_fewshot(options, {.threads = 1}).settings[1].accuracy.mean;
  EXPECT_GT(after, before + 0.1);
}

TEST_F(FewshotRuns, RefusesToCountAnswersThatAreNone) {
  // Two classes in two domains, two examples of each; a shot and a query a class.
  episodes::ExampleSet set{.shape = {1, 16, 16}};
  const std::vector<float> image(256, 0.5F);
  for (int i = 0; i < 8; ++i) set.add(image, std::to_string(i / 4), i % 4 < 2 ? "ink" : "noisy", std::to_string(i));
  fewshot::EpisodeModel model(small_run().model, std::vector<std::int64_t>{1, 16, 16}, 2, 2, 1);
  const std::vector<episodes::Episode> episodes = {
      episodes::EpisodeSampler(set, {.n_way = 2, .k_shot = 1, .queries = 1}).sample(random::Stream(1, "test"))};
  fewshot::EpisodeFeatures features = encode_set(model, set);
  EXPECT_NO_THROW(episode_accuracies(model, set, features, episodes));
  features.intrinsic = features.intrinsic.clone().index_put_({episodes[0].examples.back(), 0}, NAN);
  try {
    episode_accuracies(model, set, features, episodes);
    FAIL() << "an answer that is NaN must not count";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("[fewshot] the logits of episode 0 must not be NaN, got 2 of 4"),
              std::string::npos)
        << error.what();
  }
}

TEST_F(FewshotRuns, RefusesBeforeTheFirstStep) {
  auto options = small_run();
  options.tests[1].queries = 50;
  EXPECT_THROW(run_fewshot(options, {}), std::invalid_argument);
  options = small_run();
  options.tests.clear();
  EXPECT_THROW(run_fewshot(options, {}), std::invalid_argument);
}

TEST_F(FewshotRuns, ShowsTheScaleInAGroupWithoutDecay) {
  const auto text = parameter_groups(small_run());
  EXPECT_NE(text.find("scales"), std::string::npos);
  EXPECT_NE(text.find("without decay: sap.scale.raw"), std::string::npos);
}

}  // namespace
}  // namespace camber::runs
