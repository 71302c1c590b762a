// A loop on several ranks: the weights of one process, the same decisions everywhere.
#include <mutex>

#include <gtest/gtest.h>

#include "camber/train/gradient_reducer.h"
#include "support/comparison.h"
#include "support/thread_ranks.h"
#include "train/tiny_model.h"

namespace camber::train {
namespace {

using camber::proof::error_of;
using camber::proof::ThreadRanks;
using testing::inputs_of;
using testing::tiny_options;
using testing::TinyModel;

// Frozen statistics: what batch norms do with ranks is their own test.
TinyModel frozen_model() {
  TinyModel model;
  model->to(torch::kDouble);
  model->norm->eval();
  return model;
}

// The rank's rows of a batch, divided by the rows of all.
NamedLosses share_of_losses(TinyModel& model, std::int64_t batch, distributed::ProcessGroup& group) {
  constexpr std::int64_t kRows = 16;
  model->norm->eval();
  const std::int64_t begin = group.rank() * kRows / group.size(), end = (group.rank() + 1) * kRows / group.size();
  const torch::Tensor x = inputs_of(batch, kRows).to(torch::kDouble).narrow(0, begin, end - begin);
  const torch::Tensor apart = model->forward(x) - x.sum(1, true) * 6;
  NamedLosses losses{{"square", torch::square(apart).sum() / kRows}};
  if (group.is_first()) losses.emplace_back("first alone", 0.01 * model->last->weight.square().sum());
  return losses;
}

std::vector<torch::Tensor> trained(std::int64_t ranks, const std::function<void(const StepReport&)>& watch = {}) {
  std::vector<torch::Tensor> weights;
  std::mutex mutex;
  ThreadRanks::run(ranks, [&](const ThreadRanks::Group& group) {
    TinyModel model = frozen_model();
    TrainingLoop loop(*model, tiny_options(), {}, group);
    loop.begin_together();
    TrainingHooks hooks;
    if (group->is_first()) hooks.after_step = watch;
    loop.run([&](std::int64_t batch) { return share_of_losses(model, batch, *group); }, nullptr, hooks);
    const std::lock_guard lock(mutex);
    for (std::size_t i = 0; i < weights.size(); ++i) EXPECT_TRUE(torch::equal(weights[i], model->parameters()[i]));
    weights = model->parameters();
  });
  return weights;
}

TEST(Ranks, TrainAsOneProcessDoes) {
  std::vector<std::vector<double>> losses(4);
  const auto watch = [&](std::size_t i) {
    return [&losses, i](const StepReport& report) { losses[i].push_back(report.loss); };
  };
  const auto one = trained(1, watch(0));
  std::size_t i = 0;
  for (const std::int64_t ranks : {2, 3, 5}) {
    const auto many = trained(ranks, watch(++i));
    for (std::size_t k = 0; k < one.size(); ++k) EXPECT_TRUE(torch::allclose(many[k], one[k], 1e-9, 1e-12)) << ranks;
    ASSERT_EQ(losses[i].size(), losses[0].size());
    for (std::size_t k = 0; k < losses[0].size(); ++k) EXPECT_NEAR(losses[i][k], losses[0][k], 1e-9 * losses[0][k]);
  }
  EXPECT_TRUE(torch::equal(trained(3)[0], trained(3)[0]));
}

TEST(Ranks, SkipAStepTogetherAndNameTheRankThatBroke) {
  std::vector<std::string> sentences(3);
  std::vector<torch::Tensor> weights(3);
  ThreadRanks::run(3, [&](const ThreadRanks::Group& group) {
    TinyModel model = frozen_model();
    TrainingLoopOptions options = tiny_options();
    options.accumulate = 1;
    TrainingLoop loop(*model, options, {}, group);
    for (std::int64_t step = 0; step < 4; ++step) {
      const StepReport report = loop.train_step([&](std::int64_t batch) {
        NamedLosses losses = share_of_losses(model, batch, *group);
        if (batch == 2 && group->rank() == 1)
          losses[0].second = losses[0].second * std::numeric_limits<double>::quiet_NaN();
        return losses;
      });
      EXPECT_EQ(report.skipped, step == 2);
      if (report.finding) sentences[static_cast<std::size_t>(group->rank())] = report.finding->sentence;
    }
    weights[static_cast<std::size_t>(group->rank())] = model->last->weight.detach().clone();
  });
  EXPECT_NE(sentences[0].find("on rank 1"), std::string::npos) << sentences[0];
  EXPECT_EQ(sentences[1], sentences[0]);
  EXPECT_EQ(sentences[2], sentences[0]);
  EXPECT_TRUE(torch::equal(weights[1], weights[0]));
}

TEST(Ranks, StopTogetherWhenOneIsAsked) {
  std::vector<std::int64_t> steps(3);
  ThreadRanks::run(3, [&](const ThreadRanks::Group& group) {
    TinyModel model = frozen_model();
    TrainingLoop loop(*model, tiny_options(), {}, group);
    TrainingHooks hooks;
    hooks.stop_requested = [&] { return group->rank() == 2 && loop.step() >= 7; };
    EXPECT_FALSE(loop.run([&](std::int64_t batch) { return share_of_losses(model, batch, *group); }, nullptr, hooks));
    steps[static_cast<std::size_t>(group->rank())] = loop.step();
  });
  EXPECT_EQ(steps, (std::vector<std::int64_t>{8, 8, 8}));
}

TEST(Ranks, ThatDriftApartAreStopped) {
  const std::string error = error_of([] {
    ThreadRanks::run(2, [](const ThreadRanks::Group& group) {
      TinyModel model = frozen_model();
      TrainingLoop loop(*model, tiny_options(), {}, group);
      TrainingHooks hooks;
      hooks.after_step = [&](const StepReport& report) {
        const torch::NoGradGuard no_grad;
        if (report.step == 3 && group->rank() == 1) model->last->bias.add_(1e-12);
      };
      loop.run([&](std::int64_t batch) { return share_of_losses(model, batch, *group); }, nullptr, hooks);
    });
  });
  EXPECT_NE(error.find("every rank must have the same parameters"), std::string::npos) << error;
}

TEST(GradientReducer, SumsInBucketsAndLeavesUnusedParametersAlone) {
  ThreadRanks::run(2, [](const ThreadRanks::Group& group) {
    std::vector<torch::Tensor> parameters;
    parameters.reserve(4);
    for (int i = 0; i < 4; ++i) parameters.push_back(torch::full({3, 2}, i + 1.0).requires_grad_(true));
    parameters.push_back(torch::ones({2}, torch::kDouble).requires_grad_(true));
    parameters.push_back(torch::ones({2}));          // learns nothing
    GradientReducer reducer(parameters, group, 48);  // bytes of two
    EXPECT_EQ(reducer.num_buckets(), 3);             // doubles; two of the rest each
    // 0: both ranks; 1: the second alone; 2: nobody; 3: both, in two batches of one step; 4: both.
    const double own = 1.0 + static_cast<double>(group->rank());
    (own * parameters[3].sum()).backward();
    EXPECT_DOUBLE_EQ(parameters[3].grad()[0][0].item<double>(), own);  // not before begin()
    reducer.begin();
    auto loss = own * (parameters[0].sum() + parameters[3].sum() + parameters[4].sum().to(torch::kFloat));
    if (group->rank() == 1) loss = loss + 5 * parameters[1].sum();
    loss.backward();
    reducer.finish();
    EXPECT_TRUE(torch::equal(parameters[0].grad(), torch::full({3, 2}, 3.0)));
    EXPECT_TRUE(torch::equal(parameters[1].grad(), torch::full({3, 2}, 5.0)));
    EXPECT_FALSE(parameters[2].grad().defined());
    EXPECT_TRUE(torch::equal(parameters[3].grad(), torch::full({3, 2}, 6.0)));
    EXPECT_TRUE(torch::equal(parameters[4].grad(), torch::full({2}, 3.0, torch::kDouble)));
  });
}

}  // namespace
}  // namespace camber::train
