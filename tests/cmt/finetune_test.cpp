// Fine-tuning an imported CMT with router and bias, at the reduced size.
#include <cstdlib>
#include <filesystem>
#include <numeric>

#include "camber/config/options.h"
#include "camber/runs/detector_run.h"
#include "camber/simulation/simulate.h"
#include "camber/storage/file.h"
#include "cmt/golden_fixture.h"
#include "nuscenes/small_world.h"
#include "support/comparison.h"

namespace camber::cmt_tests {
namespace {

using namespace detection;

DetectorOptions with_bias(DetectorOptions options) {
  options.router = {.mode = nn::RouterMode::kLearned,
                    .width = options.head.decoder.width,
                    .num_heads = 4,
                    .feedforward_width = 64,
                    .bev_window = 5,
                    .camera_window = 3};
  options.bias.segments = true;
  options.bias.camera_window = 3;
  options.bias.num_layers = options.head.decoder.num_layers;
  options.bias.num_heads = options.head.decoder.num_heads;
  return options;
}

runs::DetectorTrainingOptions published_bias() {
  const char* source = std::getenv("CAMBER_SOURCE");
  const auto file = std::filesystem::path(source == nullptr ? "." : source) / "configs/cmt_r50_bias.toml";
  return config::load<runs::DetectorTrainingOptions>({.file = file.string()});
}

TEST(CmtFinetune, TheConfigurationIsThePublishedModelWithRouterAndBias) {
  const auto options = published_bias();
  options.validate();
  auto expected = DetectorOptions::preset("cmt_r50");
  expected.router.mode = nn::RouterMode::kLearned;
  expected.bias.segments = true;
  EXPECT_EQ(config::to_toml(options.detector), config::to_toml(expected));
  // CMT's policy, from 3.5e-5 to six times that and down to a ten-thousandth; beta1 0.9, 0.80526, 0.9.
  const train::Schedule schedule(options.loop.schedule, options.loop.steps);
  const auto at = [&](double share) {
    return static_cast<std::int64_t>(share * static_cast<double>(options.loop.steps));
  };
  EXPECT_NEAR(schedule.rate_factor(0), 1, 1e-12);
  EXPECT_NEAR(schedule.rate_factor(at(0.2)), 3.5, 1e-12);
  EXPECT_NEAR(schedule.rate_factor(at(0.4)), 6, 1e-12);
  EXPECT_NEAR(schedule.rate_factor(at(0.7)), (6 + 1e-4) / 2, 1e-12);
  EXPECT_NEAR(schedule.rate_factor(options.loop.steps), 1e-4, 1e-12);
  EXPECT_NEAR(0.9 * schedule.momentum_factor(at(0.4)), 0.80526, 1e-5);
  EXPECT_NEAR(0.9 * schedule.momentum_factor(at(0.2)), 0.85263, 1e-5);
}

class CmtUntrainedRouter : public CmtGolden {};

// Every layer's outputs and the boxes, in float and in double, whatever the cues say.
TEST_F(CmtUntrainedRouter, GivesTheImportedModelsBits) {
  const torch::NoGradGuard guard;
  for (const auto type : {torch::kFloat, torch::kDouble}) {
    Detector plain = detector_in(type), biased(with_bias(small_options()));
    import_cmt(Golden("weights.safetensors").all(), *biased, "weights.safetensors");
    biased->to(type);
    for (const bool training : {false, true}) {          // with dropout, whose draws the router does not share
      if (training && type == torch::kDouble) continue;  // the same code, in a second more
      plain->train(training);
      biased->train(training);
      auto batch = batch_in(type);
      batch.age = torch::linspace(0, 1, 7).view({1, 7});
      batch.level = torch::linspace(-1, 1, 7).view({1, 7});
      const ForwardOptions options{.seed = 3, .step = 5};
      const auto expected = plain->forward(batch, options), found = biased->forward(batch, options);
      EXPECT_TRUE(torch::equal(found.class_logits, expected.class_logits)) << type;
      EXPECT_TRUE(torch::equal(found.codes, expected.codes)) << type;
      ASSERT_TRUE(found.trust.defined());
      EXPECT_EQ(found.trust.abs().max().item<double>(), 0);
      EXPECT_GT(expected.class_logits.abs().max().item<double>(), 0);
    }
  }
}

// A detector whose router has learned something does not.
TEST_F(CmtUntrainedRouter, ATrainedOneDoesNot) {
  const torch::NoGradGuard guard;
  Detector biased(with_bias(small_options()));
  import_cmt(Golden("weights.safetensors").all(), *biased, "weights.safetensors");
  biased->eval();
  const auto before = biased->forward(batch_in(torch::kFloat));
  biased->named_parameters()["head.router.offset"].fill_(0.5);
  EXPECT_FALSE(torch::equal(biased->forward(batch_in(torch::kFloat)).class_logits, before.class_logits));
}

TEST(CmtEncoders, FrozenOnesRecordNothingAndGiveTheSameMaps) {
  Detector detector(small_options(), 2);
  detector->eval();
  tests::TemporaryFolder folder;
  tests::write_small_world(folder.path());
  const nuscenes::Dataset dataset(folder.path(), tests::kSmallVersion);
  sensors::LoaderOptions options{.frame = small_options().frame_options(), .batch_size = 1, .shuffle = false};
  options.faults.share = 0;
  sensors::Loader loader(dataset, {0}, options, 1, 1);
  const auto batch = collate(*loader.next(), small_options());
  const auto learning = detector->encode(batch);
  EXPECT_TRUE(learning.bev.requires_grad());
  EXPECT_TRUE(learning.cameras.requires_grad());
  const train::Freezing freezing(*detector, {.patterns = {"camera_encoder", "lidar_encoder"}});
  const auto frozen = detector->encode(batch);
  EXPECT_FALSE(frozen.bev.requires_grad());
  EXPECT_FALSE(frozen.cameras.requires_grad());
  EXPECT_TRUE(proof::close(frozen.bev, learning.bev.detach(), 1e-4));
  EXPECT_TRUE(proof::close(frozen.cameras, learning.cameras.detach(), 1e-4));
  // What enters may want a gradient all the same.
  auto images = batch;
  images.images[0] = images.images[0].clone().set_requires_grad(true);
  EXPECT_TRUE(detector->encode(images).cameras.requires_grad());
}

// A mask covers what it says, in all planes and cameras, with the mean colour.
TEST(CmtCollate, GridMaskCoversItsSquares) {
  tests::TemporaryFolder folder;
  tests::write_small_world(folder.path());
  const nuscenes::Dataset dataset(folder.path(), tests::kSmallVersion);
  sensors::LoaderOptions options{.frame = small_options().frame_options(), .batch_size = 1, .shuffle = false};
  options.faults.share = 0;
  options.augmentation.grid_mask = 1;
  sensors::Loader loader(dataset, {0}, options, 1, 1);
  auto samples = *loader.next();
  const auto mask = samples.samples[0].augmentation.grid_mask;
  ASSERT_TRUE(mask);
  const auto covered = collate(samples, small_options()).images[0];
  samples.samples[0].augmentation.grid_mask.reset();
  const auto whole = collate(samples, small_options()).images[0];
  const auto rows = mask->open_rows(64), columns = mask->open_columns(160);
  auto open = torch::zeros({64, 160});
  for (std::int64_t v = 0; v < 64; ++v)
    for (std::int64_t u = 0; u < 160; ++u)
      if (rows[static_cast<std::size_t>(v)] || columns[static_cast<std::size_t>(u)]) open[v][u] = 1;
  EXPECT_TRUE(torch::equal(covered, whole * open));
  EXPECT_LT(open.sum().item<double>(), 64 * 160);
}

// The published recipe on a simulated world, with a model of small widths: weights by recipe, as an import gives them.
class CmtFinetuneRun : public ::testing::Test {
 protected:
  static constexpr std::int64_t kSteps = 30, kKept = 24;

  void SetUp() override {
    simulation::SimulationOptions world{.scenes = 4, .val_share = 0.25, .test_share = 0.25};
    world.world.frames = 4;
    simulation::simulate(world, 5, 2, folder_.path() / "world");
    const Detector like(small_options());
    const std::vector<WeightRule> rules = {
        {"num_batches_tracked$", "zero", "0", "0"}, {"running_mean$", "range", "-0.3", "0.3"},
        {"running_var$", "range", "0.5", "1.5"},    {"reference_points", "range", "0", "1"},
        {"bias$", "range", "-0.2", "0.2"},          {"weight$", "fan_or_norm", "1.0", "normal"}};
    Detector made(small_options());
    import_cmt(recipe_weights(export_cmt(*like, SpconvLayout::kTwo), rules, 19), *made, "recipe");
    write_state(*made, folder_.path() / "model.safetensors");
  }
  runs::DetectorTrainingOptions options() const {
    runs::DetectorTrainingOptions options = published_bias();
    options.detector = with_bias(small_options());
    options.data.root = (folder_.path() / "world").string();
    options.data.version = "v1.0-simulated";
    options.loop.steps = kSteps;
    options.loop.accumulate = 1;
    options.loop.keep_every = kKept;
    return options;
  }
  // The losses of its steps.
  std::vector<double> train(const std::string& run, const runs::DetectorTrainingOptions& options, bool resume) {
    std::vector<double> losses;
    runs::DetectorRunRequest request{.options = options, .out = folder_.path() / run, .resume = resume};
    if (!resume) request.from = folder_.path() / "model.safetensors";
    request.evaluate = false;
    request.after_step = [&](const train::StepReport& report, const std::string&) {
      losses.push_back(report.loss);
      EXPECT_FALSE(report.skipped) << report.step;
    };
    request.say = [this](const std::string& line) { said_ += line + "\n"; };
    runs::train_detector(request);
    return losses;
  }
  static void write_state(const DetectorImpl& detector, const std::filesystem::path& file) {
    weights::write_state(file, weights::tensors_of(detector), {});
  }

  tests::TemporaryFolder folder_;
  std::string said_;
};

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

TEST_F(CmtFinetuneRun, LossFallsFrozenWeightsStayAndResumingIsExact) {
  const auto losses = train("whole", options(), false);
  ASSERT_EQ(losses.size(), kSteps);
  const std::span all(losses);
  EXPECT_LT(mean_of(all.last(10)), 0.9 * mean_of(all.first(10))) << mean_of(all.first(10));
  EXPECT_NE(said_.find("in evaluation mode: lidar_encoder, camera_encoder"), std::string::npos) << said_;
  EXPECT_NE(said_.find("class balance: "), std::string::npos) << said_;

  const storage::SafetensorsFile before(folder_.path() / "model.safetensors");
  const storage::SafetensorsFile after(folder_.path() / "whole/model.safetensors");
  std::size_t frozen = 0, learned = 0;
  for (const auto& view : before.tensors()) {
    const bool same = torch::equal(weights::tensor_of(view), weights::tensor_of(after.at(view.name)));
    if (view.name.find("_encoder.") != std::string::npos) {
      EXPECT_TRUE(same) << view.name;  // running statistics and counters of norms among them
      ++frozen;
    } else if (!same) {
      ++learned;
    }
  }
  EXPECT_GT(frozen, 400);
  EXPECT_GT(learned, 50);

  const auto whole = folder_.path() / "whole", broken = folder_.path() / "broken";
  std::filesystem::copy(whole, broken, std::filesystem::copy_options::recursive);
  for (const char* later : {"checkpoints/last.safetensors", "checkpoints/previous.safetensors", "model.safetensors"})
    std::filesystem::remove(broken / later);
  const auto rest = train("broken", options(), true);
  EXPECT_EQ(rest, std::vector<double>(losses.begin() + kKept, losses.end()));
  EXPECT_EQ(storage::read_file(whole / "model.safetensors"), storage::read_file(broken / "model.safetensors"));
}

TEST_F(CmtFinetuneRun, RouterAndBiasAloneMayLearn) {
  auto alone = options();
  alone.loop.steps = 2;
  alone.loop.freeze = {.patterns = {"encoder", "head"}, .except = {"router", "attention_bias"}};
  alone.data.faults.share = 0;
  train("alone", alone, false);
  const storage::SafetensorsFile before(folder_.path() / "model.safetensors");
  const storage::SafetensorsFile after(folder_.path() / "alone/model.safetensors");
  for (const auto& view : before.tensors())
    EXPECT_TRUE(torch::equal(weights::tensor_of(view), weights::tensor_of(after.at(view.name)))) << view.name;
  const std::string router = std::string(weights::kModelPrefix) + "head.router.";
  for (const char* learned : {"content.weight", "content.bias", "offset"})
    EXPECT_GT(weights::tensor_of(after.at(router + learned)).abs().max().item<double>(), 0) << learned;
}

}  // namespace
}  // namespace camber::cmt_tests
