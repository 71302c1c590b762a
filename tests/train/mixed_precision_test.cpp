// Training in lower precision: what is lowered, the loss scale of half, and runs that go on exactly.
#include <cmath>

#include <camber/storage/file.h>
#include <gtest/gtest.h>

#include <ATen/autocast_mode.h>

#include "train/tiny_model.h"

namespace camber::train {
namespace {

using testing::losses_of;
using testing::TemporaryFolder;
using testing::tiny_options;
using testing::TinyModel;

TrainingLoopOptions options_in(TrainingPrecision precision) {
  TrainingLoopOptions options = tiny_options();
  options.precision = precision;
  return options;
}

TEST(LossScale, GrowsAfterManySoundStepsAndShrinksAtAnOverflow) {
  LossScale scale;
  EXPECT_EQ(scale.factor(), 65536);
  for (std::int64_t i = 1; i < LossScale::kStepsToGrow; ++i) scale.step_was_sound();
  EXPECT_EQ(scale.factor(), 65536);
  scale.step_was_sound();
  EXPECT_EQ(scale.factor(), 131072);
  scale.step_was_sound();
  EXPECT_TRUE(scale.shrink());
  EXPECT_EQ(scale.factor(), 65536);
  EXPECT_EQ(scale.sound_steps(), 0);
  scale.restore(1, 7);
  EXPECT_FALSE(scale.shrink());
  EXPECT_EQ(scale.factor(), 1);
  scale.restore(LossScale::kLargest, LossScale::kStepsToGrow - 1);
  scale.step_was_sound();
  EXPECT_EQ(scale.factor(), LossScale::kLargest);
}

TEST(MixedPrecision, ProductsAreLoweredAndAllElseIsFloat) {
  for (const auto precision : {TrainingPrecision::kFloat, TrainingPrecision::kBfloat16, TrainingPrecision::kHalf}) {
    TinyModel model;
    TrainingLoop loop(*model, options_in(precision));
    const auto wanted = precision == TrainingPrecision::kFloat      ? torch::kFloat
                        : precision == TrainingPrecision::kBfloat16 ? torch::kBFloat16
                                                                    : torch::kHalf;
    loop.train_step([&](std::int64_t batch) {
      EXPECT_EQ(model->first->forward(testing::inputs_of(batch)).scalar_type(), wanted);
      EXPECT_EQ(model->scale->value().scalar_type(), torch::kFloat);
      return losses_of(model, batch);
    });
    EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
    for (const auto& parameter : model->named_parameters()) {
      EXPECT_EQ(parameter.value().scalar_type(), torch::kFloat) << parameter.key();
      EXPECT_EQ(parameter.value().grad().scalar_type(), torch::kFloat) << parameter.key();
    }
  }
}

TEST(MixedPrecision, LearnsAsFloatDoes) {
  std::vector<double> last;
  for (const auto precision : {TrainingPrecision::kFloat, TrainingPrecision::kBfloat16, TrainingPrecision::kHalf}) {
    TinyModel model;
    auto options = options_in(precision);
    options.steps = 60;
    options.groups.scale_lr_mult = 10;
    TrainingLoop loop(*model, options);
    TrainingHooks hooks;
    std::vector<double> losses;
    double largest = 0;
    hooks.after_step = [&](const StepReport& report) {
      losses.push_back(report.loss);
      largest = std::max(largest, model->scale->raw().item<double>());
    };
    EXPECT_TRUE(loop.run([&](std::int64_t batch) { return losses_of(model, batch); }, nullptr, hooks));
    EXPECT_LT(losses.back(), 0.3 * losses.front());
    EXPECT_LE(largest, 5);
    EXPECT_GT(largest, 3);
    last.push_back(losses.back());
  }
  EXPECT_NEAR(last[1], last[0], 0.05 * last[0]);  // half skips steps at the beginning: it is on another way
}

// A loss so large that its gradients leave half's range: the first steps are skipped and the factor falls until they
// fit. Weights and running statistics stay, the guard counts nothing broken.
TEST(MixedPrecision, AnOverflowSkipsTheStepAndHalvesTheFactor) {
  TinyModel model;
  TrainingLoop loop(*model, options_in(TrainingPrecision::kHalf));
  const auto losses = [&](std::int64_t batch) -> NamedLosses {
    return {{"large", 3e3 * torch::square(model->forward(testing::inputs_of(batch)).to(torch::kFloat)).mean()}};
  };
  const auto weight = model->first->weight.detach().clone(), mean = model->norm->running_mean.clone();
  const auto report = loop.train_step(losses);
  EXPECT_TRUE(report.overflowed);
  EXPECT_TRUE(report.skipped);
  EXPECT_FALSE(report.finding);
  EXPECT_EQ(loop.loss_scale().factor(), 32768);
  EXPECT_EQ(loop.guard().skipped(), 0);
  EXPECT_TRUE(weight.equal(model->first->weight));
  EXPECT_TRUE(mean.equal(model->norm->running_mean));
  int skipped = 1;
  while (loop.step() < 20 && loop.train_step(losses).overflowed) ++skipped;
  EXPECT_LT(skipped, 20);
  EXPECT_FALSE(weight.equal(model->first->weight));
  EXPECT_EQ(loop.loss_scale().factor(), std::ldexp(65536, -skipped));
}

// At a factor of 1 an overflow is the model's: the guard speaks.
TEST(MixedPrecision, WhatOverflowsWithoutAFactorIsBroken) {
  TinyModel model;
  auto options = options_in(TrainingPrecision::kHalf);
  options.guard.stop_after = 3;
  TrainingLoop loop(*model, options);
  const auto losses = [&](std::int64_t batch) -> NamedLosses {
    return {{"large", 1e9 * torch::square(model->forward(testing::inputs_of(batch)).to(torch::kFloat)).mean()}};
  };
  for (int i = 0; i < 16; ++i) EXPECT_TRUE(loop.train_step(losses).overflowed) << i;
  const auto report = loop.train_step(losses);
  EXPECT_FALSE(report.overflowed);
  EXPECT_TRUE(report.skipped);
  ASSERT_TRUE(report.finding);
}

TEST(MixedPrecision, ResumedRunsHaveTheBitsOfUnbrokenOnes) {
  for (const auto precision : {TrainingPrecision::kBfloat16, TrainingPrecision::kHalf}) {
    const TemporaryFolder folder("lower");
    const CheckpointFolder unbroken(folder.path() / "unbroken"), broken(folder.path() / "broken");
    const auto train = [&](const CheckpointFolder& checkpoints, std::int64_t until) {
      TinyModel model;
      TrainingLoop loop(*model, options_in(precision));
      loop.resume(checkpoints);
      TrainingHooks hooks;
      hooks.stop_requested = [&] { return loop.step() >= until; };
      // Overflows at the beginning, so that the factor is not the first one.
      loop.run(
          [&](std::int64_t batch) -> NamedLosses {
            const double factor = batch < 8 ? 3e3 : 1;
            const auto found = model->forward(testing::inputs_of(batch));
            return {{"square", factor * torch::square(found.to(torch::kFloat) - 1).mean()}};
          },
          &checkpoints, hooks);
      return loop.loss_scale().factor();
    };
    const double factor = train(unbroken, 40);
    EXPECT_EQ(factor < 65536, precision == TrainingPrecision::kHalf);
    for (const std::int64_t until : {2, 5, 17, 40}) train(broken, until);
    EXPECT_EQ(storage::read_file(unbroken.last()), storage::read_file(broken.last()));
  }
}

}  // namespace
}  // namespace camber::train
