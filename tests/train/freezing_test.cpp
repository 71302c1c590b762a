// What is frozen by name stays as it is to the bit, statistics of norms included.
#include <camber/storage/file.h>
#include <camber/train/freezing.h>
#include <gtest/gtest.h>

#include "train/tiny_model.h"

namespace camber::train {
namespace {

using testing::losses_of;
using testing::TemporaryFolder;
using testing::tiny_options;
using testing::TinyModel;

std::map<std::string, torch::Tensor> state_of(const TinyModel& model) {
  std::map<std::string, torch::Tensor> state;
  for (const auto& entry : model->named_parameters()) state[entry.key()] = entry.value().detach().clone();
  for (const auto& entry : model->named_buffers()) state[entry.key()] = entry.value().detach().clone();
  return state;
}

std::string sentence_of(const FreezingOptions& options) {
  TinyModel model;
  try {
    const Freezing freezing(*model, options);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(Freezing, WeightsAndStatisticsStayToTheBitAndTheRestLearns) {
  for (const OptimizerKind kind : {OptimizerKind::kSgd, OptimizerKind::kAdam, OptimizerKind::kAdamW}) {
    TinyModel model;
    TrainingLoopOptions options = tiny_options();
    options.optimizer.kind = kind;
    options.optimizer.weight_decay = 0.1;  // would move what has no gradient
    options.freeze.patterns = {"first", "norm"};
    const auto before = state_of(model);
    TrainingLoop loop(*model, options);
    EXPECT_EQ(loop.freezing().modules(), (std::vector<std::string>{"first", "norm"}));
    loop.run([&model](std::int64_t batch) { return losses_of(model, batch); });
    const auto after = state_of(model);
    for (const auto& [name, tensor] : before) {
      const bool frozen = name.starts_with("first") || name.starts_with("norm");
      if (frozen || name.ends_with("weight")) {
        EXPECT_EQ(torch::equal(tensor, after.at(name)), frozen) << name;
      }
    }
    for (const auto& entry : loop.average()->entries()) {
      if (entry.name.starts_with("norm") || entry.name.starts_with("first")) {
        EXPECT_TRUE(torch::equal(entry.average, before.at(entry.name))) << entry.name;
      }
    }
    EXPECT_TRUE(model->is_training());
    EXPECT_FALSE(model->norm->is_training());
  }
}

TEST(Freezing, NeitherGradientsNorOptimiserStateExist) {
  TinyModel model;
  TrainingLoopOptions options = tiny_options();
  options.freeze.patterns = {"first", "norm"};
  TrainingLoop loop(*model, options);
  model->train();
  loop.train_step([&model](std::int64_t batch) { return losses_of(model, batch); });
  EXPECT_EQ(loop.groups().frozen(),
            (std::vector<std::string>{"first.weight", "first.bias", "norm.weight", "norm.bias"}));
  EXPECT_EQ(loop.freezing().parameters(), loop.groups().frozen());
  const auto& kept = loop.state().optimizer->state();
  for (const auto& entry : model->named_parameters()) {
    const bool frozen = entry.key().starts_with("first") || entry.key().starts_with("norm");
    EXPECT_EQ(entry.value().grad().defined(), !frozen) << entry.key();
    EXPECT_EQ(kept.count(entry.value().unsafeGetTensorImpl()) == 1, !frozen) << entry.key();
  }
}

// The same statistics as of a model that is in evaluation mode, not those of the batch.
TEST(Freezing, AFrozenNormNormalisesByItsStatistics) {
  TinyModel model;
  Freezing freezing(*model, {.patterns = {"norm"}});
  const auto x = testing::inputs_of(1);
  model->eval();
  const auto expected = model->forward(x);
  model->train();
  EXPECT_FALSE(torch::equal(model->forward(x), expected));
  model->norm->reset_running_stats();
  freezing.hold();
  EXPECT_TRUE(torch::equal(model->forward(x), expected));
}

TEST(Freezing, ExceptionsLearnAndPartlyFrozenModulesTrain) {
  TinyModel model;
  Freezing freezing(*model, {.patterns = {"first", "norm"}, .except = {"norm.bias"}});
  EXPECT_TRUE(model->norm->bias.requires_grad());
  EXPECT_FALSE(model->norm->weight.requires_grad());
  model->train();
  freezing.hold();
  EXPECT_TRUE(model->norm->is_training());
  EXPECT_FALSE(model->first->is_training());
}

TEST(Freezing, RulesMayNameWhatIsFrozen) {
  TinyModel model;
  TrainingLoopOptions options = tiny_options();
  options.groups.rules.push_back({.pattern = "first", .lr_mult = 0.1});
  options.freeze.patterns = {"first"};
  const TrainingLoop loop(*model, options);
  EXPECT_NE(loop.groups().table().find("frozen"), std::string::npos) << loop.groups().table();
  EXPECT_NE(loop.groups().table().find("40\n"), std::string::npos) << loop.groups().table();  // 4 x 8 + 8 numbers
}

TEST(Freezing, ResumedRunsHaveTheBitsOfUnbrokenOnes) {
  const TemporaryFolder folder("freezing");
  TrainingLoopOptions options = tiny_options();
  options.freeze.patterns = {"first", "norm"};
  const CheckpointFolder unbroken(folder.path() / "unbroken"), broken(folder.path() / "broken");
  const auto train_until = [&](const CheckpointFolder& checkpoints, std::int64_t until) {
    TinyModel model;
    TrainingLoop loop(*model, options);
    loop.resume(checkpoints);
    TrainingHooks hooks;
    hooks.stop_requested = [&loop, until] { return loop.step() >= until; };
    loop.run([&model](std::int64_t batch) { return losses_of(model, batch); }, &checkpoints, hooks);
  };
  train_until(unbroken, options.steps);
  for (const std::int64_t until : {7, 8, 40}) train_until(broken, until);
  EXPECT_EQ(storage::read_file(unbroken.last()), storage::read_file(broken.last()));
}

TEST(Freezing, SaysWhatIsWrong) {
  EXPECT_EQ(sentence_of({.patterns = {"encoder"}}),
            "[freeze] patterns must match a parameter, got 'encoder', which matches none");
  EXPECT_EQ(sentence_of({.patterns = {"first"}, .except = {"norm"}}),
            "[freeze] except must match a parameter that a pattern names, got 'norm', which matches none");
  EXPECT_EQ(sentence_of({.patterns = {""}}), "[freeze] patterns must be parts of names, got an empty one");
  EXPECT_EQ(sentence_of({.patterns = {"a", "a"}}), "[freeze] patterns must be given once, got 'a' twice");
  EXPECT_EQ(sentence_of({.except = {"a"}}), "[freeze] except must come with patterns, got 'a' alone");
  TinyModel model;
  TrainingLoopOptions options = tiny_options();
  options.freeze.patterns = {"first", "norm", "scale", "last", "conv"};
  EXPECT_THROW(TrainingLoop(*model, options), std::invalid_argument);  // nothing is left to learn
}

}  // namespace
}  // namespace camber::train
