// What loading takes from a file, what it leaves, and what it says of both.
#include "camber/weights/load.h"

#include <fstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include "camber/nn/attention_bias.h"
#include "camber/storage/file.h"
#include "support/comparison.h"

namespace camber::weights {
namespace {

using camber::proof::error_of;
using nn::AttentionBiasOptions;
using nn::BoundedScaleOptions;
using nn::Constraint;
using nn::Space;

struct ModelImpl : torch::nn::Module {
  explicit ModelImpl(const AttentionBiasOptions& options = {}, std::int64_t outputs = 1) {
    first = register_module("first", torch::nn::Linear(4, 8));
    norm = register_module("norm", torch::nn::BatchNorm1d(8));
    bias = register_module("bias", nn::AttentionBias(options));
    last = register_module("last", torch::nn::Linear(8, outputs));
  }
  double scale() const { return nn::BoundedScale(bias->scale)->value().item<double>(); }
  torch::nn::Linear first{nullptr}, last{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  nn::AttentionBias bias{nullptr};
};
TORCH_MODULE(Model);

class Load : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }
  StateFile saved(const Model& model, const std::vector<std::string>& without = {}) const {
    auto tensors = tensors_of(*model);
    std::erase_if(tensors, [&](const NamedTensor& entry) {
      return std::find(without.begin(), without.end(), entry.name) != without.end();
    });
    write_state(path_, tensors, {});
    return StateFile(path_);
  }
  std::filesystem::path path_ =
      std::filesystem::path(::testing::TempDir()) / ("load_" + std::to_string(::getpid()) + ".safetensors");
};

constexpr LoadOptions kNewRun{.settings = Settings::kOfModel};

TEST_F(Load, ListsWhatDidNotMatch) {
  const Model source;
  const StateFile file = saved(source);
  torch::nn::Module model("other");
  auto first = model.register_module("first", torch::nn::Linear(4, 8));
  model.register_module("last", torch::nn::Linear(8, 3));
  model.register_module("fresh", torch::nn::Linear(2, 2));
  const LoadReport report = load(file, model, {.exclude = {"first.bias"}});
  EXPECT_EQ(report.loaded, (std::vector<std::string>{"first.weight"}));
  EXPECT_EQ(report.excluded, (std::vector<std::string>{"first.bias"}));
  EXPECT_EQ(report.missing, (std::vector<std::string>{"fresh.weight", "fresh.bias"}));
  ASSERT_EQ(report.mismatched.size(), 2U);
  EXPECT_EQ(report.mismatched[0].name, "last.weight");
  EXPECT_EQ(report.mismatched[0].file, "F32 [1, 8]");
  EXPECT_EQ(report.mismatched[0].model, "F32 [3, 8]");
  EXPECT_EQ(report.unknown.size(), 9U);  // norm: five; bias: clip_in_force, raw, bounds, mapping
  EXPECT_TRUE(torch::equal(first->weight, source->first->weight));
  EXPECT_NE(report.text().find("last.weight is F32 [1, 8] in the file and F32 [3, 8] in the model"), std::string::npos)
      << report.text();
  torch::nn::Module stranger("stranger");
  stranger.register_module("nothing", torch::nn::Linear(2, 2));
  EXPECT_NE(error_of([&] { load(file, stranger); }).find("no tensor"), std::string::npos);
}

TEST_F(Load, APartThatNoNameContainsIsAnError) {
  Model model;
  const StateFile file = saved(model);
  const torch::Tensor before = model->first->weight.detach().clone();
  EXPECT_EQ(error_of([&] {
              load(file, *model, {.exclude = {"first", "fisrt"}});
            }),
            "[weights] exclude must hold parts of tensors' names, got 'fisrt', which no name of the model or the file "
            "contains");
  EXPECT_TRUE(torch::equal(model->first->weight, before));
}

TEST_F(Load, FloatingTypesConvertAndOthersDoNot) {
  Model source, model;
  source->first->to(torch::kDouble);
  source->norm->num_batches_tracked = source->norm->num_batches_tracked.to(torch::kInt);
  auto tensors = tensors_of(*source);
  for (NamedTensor& entry : tensors)
    if (entry.name == "model.norm.num_batches_tracked") entry.tensor = entry.tensor.to(torch::kInt);
  write_state(path_, tensors, {});
  const LoadReport report = load(StateFile(path_), *model);
  EXPECT_TRUE(torch::equal(model->first->weight, source->first->weight.to(torch::kFloat)));
  ASSERT_EQ(report.mismatched.size(), 1U);
  EXPECT_EQ(report.mismatched[0].name, "norm.num_batches_tracked");
  EXPECT_NE(error_of([&] { load_whole(StateFile(path_), *model); }).find("must hold the whole state"),
            std::string::npos);
}

TEST_F(Load, AWholeStateBringsItsSettings) {
  Model source(AttentionBiasOptions{.clip_schedule = {{.from_epoch = 0, .clip = 2}},
                                    .scale = {.init = 4, .max = 6, .constraint = Constraint::kSigmoid}});
  source->bias->apply_schedule(0, 0);
  Model model;
  load_whole(saved(source), *model);
  EXPECT_EQ(model->scale(), source->scale());
  EXPECT_EQ(model->bias->scale->max(), 6);
  EXPECT_EQ(model->bias->scale->constraint(), Constraint::kSigmoid);
  EXPECT_EQ(model->bias->clip(), 2);
}

TEST_F(Load, AnOlderFileMeansWhatTheModuleWasBuiltWith) {
  const AttentionBiasOptions options{.clip = 3, .scale = {.init = 4, .constraint = Constraint::kSigmoid}};
  const Model source(options);
  Model model(options);
  load_whole(saved(source, {"model.bias.clip_in_force", "model.bias.scale.mapping"}), *model);
  EXPECT_EQ(model->scale(), source->scale());
  EXPECT_EQ(model->bias->clip(), 3);
}

TEST_F(Load, ANewRunKeepsTheValueAndItsOwnSettingsAndSaysEachChange) {
  Model source(AttentionBiasOptions{.scale = {.init = 2.5}});
  const StateFile file = saved(source);
  const auto notes = [&](const AttentionBiasOptions& options, double value) {
    Model model(options);
    const LoadReport report = load(file, *model, kNewRun);
    EXPECT_TRUE(report.complete()) << report.text();
    EXPECT_NEAR(model->scale(), value, 1e-6);
    EXPECT_EQ(model->bias->scale->max(), options.scale.max);
    EXPECT_EQ(model->bias->scale->constraint(), options.scale.constraint);
    return report.notes;
  };
  using Notes = std::vector<std::string>;
  EXPECT_EQ(notes(AttentionBiasOptions{}, 2.5), Notes{});
  EXPECT_EQ(notes(AttentionBiasOptions{.scale = {.max = 8}}, 2.5),
            (Notes{"scale 'bias.scale': bounds 0.5 to 8 as configured, 0.5 to 5 in the file",
                   "bias 'bias': clip 8 as configured, 5 in the file"}));
  EXPECT_EQ(notes(AttentionBiasOptions{.scale = {.constraint = Constraint::kSigmoid}}, 2.5),
            (Notes{"scale 'bias.scale': constraint sigmoid as configured, projected in the file"}));
  EXPECT_EQ(notes(AttentionBiasOptions{.scale = {.space = Space::kLog}}, 2.5),
            (Notes{"scale 'bias.scale': space log as configured, linear in the file"}));
  EXPECT_EQ(notes(AttentionBiasOptions{.scale = {.init = 3}}, 2.5),
            (Notes{"scale 'bias.scale': starts at 2.5 as in the file, not at its init of 3"}));
  EXPECT_EQ(notes(AttentionBiasOptions{.clip = 1.5, .scale = {.init = 1, .max = 2}}, 2),
            (Notes{"scale 'bias.scale': bounds 0.5 to 2 as configured, 0.5 to 5 in the file",
                   "scale 'bias.scale': its value of 2.5 lies beyond the bounds and starts at 2",
                   "bias 'bias': clip 1.5 as configured, 5 in the file"}));
}

TEST_F(Load, ANewRunReadsAnOlderFileByItsConfiguration) {
  const AttentionBiasOptions written{.clip = 3,
                                     .scale = {.init = 4, .learnable = false, .constraint = Constraint::kSigmoid}};
  const Model source(written);
  Model model(AttentionBiasOptions{.clip = 3});
  const LoadReport report = load(saved(source, {"model.bias.clip_in_force", "model.bias.scale.mapping"}), *model,
                                 {.settings = Settings::kOfModel, .written_for = source.get()});
  EXPECT_NEAR(model->scale(), 4, 1e-6);
  EXPECT_EQ(report.notes,
            (std::vector<std::string>{"scale 'bias.scale': constraint projected as configured, sigmoid in the file",
                                      "scale 'bias.scale': learnable as configured, fixed in the file",
                                      "scale 'bias.scale': starts at 4 as in the file, not at its init of 2.5"}));
}

// A scale for each head takes no raw value from a shared one, and then neither its bounds nor its mapping.
TEST_F(Load, AScaleThatDoesNotFitStaysWhole) {
  const Model source(AttentionBiasOptions{.scale = {.init = 7, .max = 9, .constraint = Constraint::kSigmoid}});
  const StateFile file = saved(source);
  Model model(AttentionBiasOptions{.sharing = nn::ScaleSharing::kPerHead});
  EXPECT_NE(error_of([&] { load_whole(file, *model); }).find("1 of another shape"), std::string::npos);
  EXPECT_FALSE(torch::equal(model->first->weight, source->first->weight)) << "nothing was changed";
  load(file, *model);
  EXPECT_EQ(model->bias->scale->max(), 5);
  EXPECT_EQ(model->bias->scale->constraint(), Constraint::kProjected);
  EXPECT_EQ(model->bias->scale->value().max().item<float>(), 2.5F);
}

TEST_F(Load, AScaleThatIsLeftOutStays) {
  const Model source(AttentionBiasOptions{.scale = {.init = 4}});
  Model model;
  const LoadReport report = load(saved(source), *model, {.exclude = {"bias.scale"}, .settings = Settings::kOfModel});
  EXPECT_EQ(model->scale(), 2.5);
  EXPECT_EQ(report.notes, std::vector<std::string>{});
}

}  // namespace
}  // namespace camber::weights
