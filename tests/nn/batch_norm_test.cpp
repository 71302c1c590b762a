// Batch norms whose statistics are those of several ranks, beside torch's own over the whole batch.
#include "camber/nn/batch_norm.h"

#include <mutex>

#include <gtest/gtest.h>

#include "support/comparison.h"
#include "support/thread_ranks.h"

namespace camber::nn {
namespace {

using camber::proof::close;
using camber::proof::ThreadRanks;

struct Pass {
  torch::Tensor output{}, d_input{}, d_weight{}, d_bias{}, mean{}, variance{};
  std::int64_t batches = 0;
};

// A loss that weighs every element differently.
torch::Tensor loss_of(const torch::Tensor& output, const torch::Tensor& weights) {
  return (output.sin() * weights).sum();
}

Pass pass_of(const torch::Tensor& rows, const torch::Tensor& weights, const ThreadRanks::Group& group) {
  BatchNorm2d norm(torch::nn::BatchNorm2dOptions(3).momentum(0.2));
  norm->to(torch::kDouble);
  {
    const torch::NoGradGuard guard;
    norm->weight.copy_(torch::tensor({0.5, -1.5, 2.0}));
    norm->bias.copy_(torch::tensor({0.1, 0.2, -0.3}));
  }
  if (group) norm->share_statistics(group);
  const auto input = rows.clone().requires_grad_(true);
  const auto output = norm->forward(input);
  loss_of(output, weights).backward();
  return {output.detach(),
          input.grad(),
          norm->weight.grad(),
          norm->bias.grad(),
          norm->running_mean,
          norm->running_var,
          norm->num_batches_tracked.item<std::int64_t>()};
}

// Shares of these sizes, put together again.
Pass shared(const torch::Tensor& input, const torch::Tensor& weights, const std::vector<std::int64_t>& sizes) {
  std::vector<Pass> passes(sizes.size());
  ThreadRanks::run(static_cast<std::int64_t>(sizes.size()), [&](const ThreadRanks::Group& group) {
    std::int64_t begin = 0;
    const auto rank = static_cast<std::size_t>(group->rank());
    for (std::size_t i = 0; i < rank; ++i) begin += sizes[i];
    passes[rank] = pass_of(input.narrow(0, begin, sizes[rank]), weights.narrow(0, begin, sizes[rank]), group);
  });
  Pass all = passes[0];
  for (std::size_t i = 1; i < passes.size(); ++i) {
    all.output = torch::cat({all.output, passes[i].output});
    all.d_input = torch::cat({all.d_input, passes[i].d_input});
    all.d_weight = all.d_weight + passes[i].d_weight;
    all.d_bias = all.d_bias + passes[i].d_bias;
    EXPECT_TRUE(torch::equal(passes[i].mean, all.mean));
    EXPECT_TRUE(torch::equal(passes[i].variance, all.variance));
  }
  return all;
}

class SharedStatisticsTest : public testing::TestWithParam<std::vector<std::int64_t>> {};

TEST_P(SharedStatisticsTest, AreThoseOfTheWholeBatch) {
  torch::manual_seed(3);
  // A channel whose mean is far larger than its deviation.
  const auto offset = torch::tensor({0.0, 1e3, -2.0}, torch::kDouble).view({1, 3, 1, 1});
  for (const bool channels_last : {false, true}) {
    auto input = torch::randn({6, 3, 4, 5}, torch::kDouble) + offset;
    const auto weights = torch::randn({6, 3, 4, 5}, torch::kDouble);
    if (channels_last) input = input.contiguous(torch::MemoryFormat::ChannelsLast);
    const Pass whole = pass_of(input, weights, nullptr), parts = shared(input, weights, GetParam());
    EXPECT_TRUE(close(parts.output, whole.output, 1e-9));
    EXPECT_TRUE(close(parts.d_input, whole.d_input, 1e-9));
    EXPECT_TRUE(close(parts.d_weight, whole.d_weight, 1e-9));
    EXPECT_TRUE(close(parts.d_bias, whole.d_bias, 1e-9));
    EXPECT_TRUE(close(parts.mean, whole.mean, 1e-12));
    EXPECT_TRUE(close(parts.variance, whole.variance, 1e-9));
    EXPECT_EQ(parts.batches, whole.batches);
  }
}

INSTANTIATE_TEST_SUITE_P(Shares, SharedStatisticsTest,
                         testing::Values(std::vector<std::int64_t>{3, 3}, std::vector<std::int64_t>{1, 0, 5},
                                         std::vector<std::int64_t>{0, 6}));

TEST(SharedStatistics, HaveTheGradientOfTheirFormula) {
  torch::manual_seed(4);
  const auto fixed = torch::randn({2, 3, 2, 2}, torch::kDouble), weights = torch::randn({4, 3, 2, 2}, torch::kDouble);
  const auto input = torch::randn({2, 3, 2, 2}, torch::kDouble);
  // The loss of both ranks over the first rank's elements, by central differences; by autograd rank 0's own gradient.
  const auto total = [&](const torch::Tensor& moved) {
    double sum = 0;
    std::mutex mutex;
    ThreadRanks::run(2, [&](const ThreadRanks::Group& group) {
      BatchNorm2d norm(3);
      norm->to(torch::kDouble);
      norm->share_statistics(group);
      const torch::NoGradGuard guard;
      const auto own =
          loss_of(norm->forward(group->rank() == 0 ? moved : fixed), weights.narrow(0, 2 * group->rank(), 2));
      const std::lock_guard lock(mutex);
      sum += own.item<double>();
    });
    return sum;
  };
  torch::Tensor gradient;
  ThreadRanks::run(2, [&](const ThreadRanks::Group& group) {
    BatchNorm2d norm(3);
    norm->to(torch::kDouble);
    norm->share_statistics(group);
    const auto own = (group->rank() == 0 ? input : fixed).clone().requires_grad_(true);
    loss_of(norm->forward(own), weights.narrow(0, 2 * group->rank(), 2)).backward();
    if (group->rank() == 0) gradient = own.grad();
  });
  constexpr double kStep = 1e-5;
  for (std::int64_t i = 0; i < input.numel(); ++i) {
    const auto moved_by = [&](double step) {
      auto moved = input.clone();
      moved.view(-1)[i] += step;
      return total(moved);
    };
    EXPECT_NEAR(gradient.view(-1)[i].item<double>(), (moved_by(kStep) - moved_by(-kStep)) / (2 * kStep), 1e-7) << i;
  }
}

TEST(SharedStatistics, OfFewerThanTwoElementsAreTheRunningOnes) {
  ThreadRanks::run(2, [](const ThreadRanks::Group& group) {
    BatchNorm1d norm(2);
    norm->share_statistics(group);
    const auto row = torch::tensor({{3.0F, -1.0F}}).narrow(0, 0, group->rank());
    const auto output = norm->forward(row);  // rank 1 alone has a row
    EXPECT_EQ(output.sizes(), row.sizes());
    EXPECT_TRUE(close(output, row, 1e-5));
    EXPECT_EQ(norm->num_batches_tracked.item<std::int64_t>(), 0);
  });
}

TEST(SharedStatistics, OfAGroupOfOneAreTorchsOwnToTheBit) {
  torch::manual_seed(5);
  const auto input = torch::randn({4, 3, 5, 5});
  BatchNorm2d ours(3);
  torch::nn::BatchNorm2d theirs(3);
  ours->share_statistics(distributed::alone());
  EXPECT_TRUE(torch::equal(ours->forward(input), theirs->forward(input)));
  EXPECT_TRUE(torch::equal(ours->running_var, theirs->running_var));
}

}  // namespace
}  // namespace camber::nn
