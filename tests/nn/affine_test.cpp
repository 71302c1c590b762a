#include "camber/nn/affine.h"

#include <gtest/gtest.h>

#include "support/comparison.h"

namespace camber::nn {
namespace {

using camber::proof::close_to_largest;
using camber::proof::same_bits;

torch::Tensor numbers(torch::IntArrayRef shape, std::uint64_t seed) {
  torch::manual_seed(seed);
  return torch::randn(shape, torch::kDouble);
}

// Rows, inputs, outputs on both sides of the size from which on oneDNN computes, and sizes of one and none.
class AffineSizes : public ::testing::TestWithParam<std::array<std::int64_t, 3>> {};

TEST_P(AffineSizes, EqualsItsDefinitionInEveryType) {
  const auto [rows, inputs, outputs] = GetParam();
  const auto x = numbers({2, rows, inputs}, 1), weight = numbers({outputs, inputs}, 2), bias = numbers({outputs}, 3);
  const auto expected = torch::matmul(x, weight.t()) + bias;
  const torch::NoGradGuard guard;
  EXPECT_TRUE(close_to_largest(affine(x, weight, bias), expected, 1e-13));
  EXPECT_TRUE(
      close_to_largest(affine(x.to(torch::kFloat), weight.to(torch::kFloat), bias.to(torch::kFloat)), expected, 1e-5));
  const auto rounded = [](const torch::Tensor& t) { return t.to(torch::kBFloat16); };
  const auto low = affine(rounded(x), weight.to(torch::kFloat), bias.to(torch::kFloat));  // weights keep their type
  EXPECT_EQ(low.scalar_type(), torch::kBFloat16);
  const auto of_rounded = torch::matmul(rounded(x).to(torch::kDouble), rounded(weight).to(torch::kDouble).t()) + bias;
  EXPECT_TRUE(close_to_largest(low, of_rounded, 1e-2));
}

TEST_P(AffineSizes, WithoutABiasAndOnViews) {
  const auto [rows, inputs, outputs] = GetParam();
  const auto x = numbers({1, inputs, rows}, 1).to(torch::kFloat).transpose(1, 2);
  const auto weight = numbers({3 * outputs, inputs}, 2).to(torch::kFloat).slice(0, outputs, 2 * outputs);
  const torch::NoGradGuard guard;
  EXPECT_TRUE(close_to_largest(affine(x, weight), torch::matmul(x, weight.t()), 1e-5));
  const auto spread = numbers({1, 1, inputs}, 4).to(torch::kFloat).expand({1, rows, inputs});  // a stride of zero
  EXPECT_TRUE(close_to_largest(affine(spread, weight), torch::matmul(spread, weight.t()), 1e-5));
}

INSTANTIATE_TEST_SUITE_P(Sizes, AffineSizes,
                         ::testing::Values(std::array<std::int64_t, 3>{1, 1, 1}, std::array<std::int64_t, 3>{0, 8, 8},
                                           std::array<std::int64_t, 3>{30, 17, 5},
                                           std::array<std::int64_t, 3>{700, 67, 33},
                                           std::array<std::int64_t, 3>{2048, 64, 64}));

TEST(Affine, ANanStaysInItsRow) {
  auto x = numbers({1, 2048, 64}, 1).to(torch::kFloat);
  x[0][7][3] = std::nanf("");
  const torch::NoGradGuard guard;
  const torch::Tensor result = affine(x, numbers({64, 64}, 2).to(torch::kFloat)).isnan().any(-1);
  EXPECT_EQ(result.sum().item<std::int64_t>(), 1);
  EXPECT_TRUE(result[0][7].item<bool>());
}

TEST(Affine, GradientsAreThoseOfTorch) {
  const auto x = numbers({2, 2048, 64}, 1).to(torch::kFloat).requires_grad_();
  const auto weight = numbers({64, 64}, 2).to(torch::kFloat).requires_grad_();
  affine(x, weight).sum().backward();
  const auto ours = weight.grad().clone();
  torch::Tensor(weight.grad()).zero_();
  torch::linear(x, weight).sum().backward();
  EXPECT_TRUE(same_bits(ours, weight.grad()));
}

}  // namespace
}  // namespace camber::nn
