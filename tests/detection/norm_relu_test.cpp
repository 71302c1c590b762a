#include "detection/norm_relu.h"

#include <limits>

#include <gtest/gtest.h>

#include <ATen/Parallel.h>

#include "support/comparison.h"

// Norm and ReLU in one operation, beside torch's two in double.
namespace camber::detection {
namespace {

using camber::proof::close;

struct Pass {
  torch::Tensor output{}, d_maps{}, d_weight{}, d_bias{}, mean{}, variance{};
  std::int64_t batches = 0;
};

nn::BatchNorm2d some_norm(std::int64_t channels, torch::ScalarType type) {
  nn::BatchNorm2d norm(torch::nn::BatchNorm2dOptions(channels).momentum(0.2));
  const torch::NoGradGuard guard;
  norm->weight.copy_(torch::linspace(-1.5, 2, channels));
  norm->bias.copy_(torch::linspace(0.5, -0.3, channels));
  norm->to(type);
  return norm;
}

Pass pass_of(const torch::Tensor& values, const torch::Tensor& weights, bool fused) {
  const auto type = fused ? torch::kFloat : torch::kDouble;
  auto norm = some_norm(values.size(1), type);
  const auto maps = values.to(type, false, true).requires_grad_(true);
  const auto output = fused ? norm_relu(maps, *norm) : torch::relu(norm->forward(maps));
  (output * weights.to(type)).sum().backward();
  return {output.detach().to(torch::kDouble),
          maps.grad().to(torch::kDouble),
          norm->weight.grad().to(torch::kDouble),
          norm->bias.grad().to(torch::kDouble),
          norm->running_mean.to(torch::kDouble),
          norm->running_var.to(torch::kDouble),
          norm->num_batches_tracked.item<std::int64_t>()};
}

torch::Tensor maps_of(std::int64_t images, std::int64_t channels, std::int64_t rows, std::int64_t columns) {
  // Every other channel has a mean far larger than its deviation.
  const auto offset = (torch::arange(channels) % 2 * 100).view({1, channels, 1, 1});
  return (torch::randn({images, channels, rows, columns}) + offset).contiguous(torch::MemoryFormat::ChannelsLast);
}

TEST(NormRelu, IsTorchsNormAndReluWithTheirGradients) {
  torch::manual_seed(3);
  for (const auto& [images, channels, rows, columns] :
       {std::array<std::int64_t, 4>{2, 3, 4, 5}, {1, 16, 1, 2}, {3, 24, 13, 11}, {2, 37, 16, 16}}) {
    const auto maps = maps_of(images, channels, rows, columns), weights = torch::randn_like(maps);
    const Pass ours = pass_of(maps, weights, true), torchs = pass_of(maps, weights, false);
    EXPECT_TRUE(close(ours.output, torchs.output, 1e-4));  // inputs near 100 have lost digits before they come
    EXPECT_TRUE(close(ours.d_maps, torchs.d_maps, 1e-3));
    EXPECT_TRUE(close(ours.d_weight, torchs.d_weight, 1e-3));
    EXPECT_TRUE(close(ours.d_bias, torchs.d_bias, 1e-3));
    EXPECT_TRUE(close(ours.mean, torchs.mean, 1e-4));
    EXPECT_TRUE(close(ours.variance, torchs.variance, 1e-4));
    EXPECT_EQ(ours.batches, 1);
  }
}

TEST(NormRelu, GivesTheSameBitsForAnyNumberOfThreads) {
  torch::manual_seed(3);
  const auto maps = maps_of(4, 32, 40, 31), weights = torch::randn_like(maps);
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const Pass one = pass_of(maps, weights, true);
  at::set_num_threads(3);
  const Pass three = pass_of(maps, weights, true);
  at::set_num_threads(before);
  EXPECT_TRUE(torch::equal(one.output, three.output));
  EXPECT_TRUE(torch::equal(one.d_maps, three.d_maps));
  EXPECT_TRUE(torch::equal(one.d_weight, three.d_weight));
  EXPECT_TRUE(torch::equal(one.d_bias, three.d_bias));
  EXPECT_TRUE(torch::equal(one.variance, three.variance));
}

TEST(NormRelu, KeepsWhatIsNoNumber) {
  auto maps = maps_of(2, 3, 4, 4);
  maps[1][1][2][3] = std::numeric_limits<float>::quiet_NaN();
  const auto output = norm_relu(maps, *some_norm(3, torch::kFloat));
  EXPECT_TRUE(output.select(1, 1).isnan().all().item<bool>());
  EXPECT_FALSE(output.select(1, 0).isnan().any().item<bool>());
}

TEST(NormRelu, LeavesOtherMapsAndModesToTorch) {
  const auto maps = maps_of(2, 3, 4, 4);
  auto norm = some_norm(3, torch::kFloat), torchs = some_norm(3, torch::kFloat);
  const auto plain = maps.contiguous();
  EXPECT_TRUE(torch::equal(norm_relu(plain, *norm), torch::relu(torchs->forward(plain))));
  EXPECT_TRUE(torch::equal(norm->running_var, torchs->running_var));
  norm->eval();
  torchs->eval();
  EXPECT_TRUE(torch::equal(norm_relu(maps, *norm), torch::relu(torchs->forward(maps))));
  EXPECT_EQ(norm->num_batches_tracked.item<std::int64_t>(), 1);
}

}  // namespace
}  // namespace camber::detection
