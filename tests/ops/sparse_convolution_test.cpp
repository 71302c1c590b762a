#include "camber/ops/sparse_convolution.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>

#include "support/comparison.h"
#include "support/sparse_cases.h"

namespace camber::ops {
namespace {

using namespace camber::proof;

// The layers of a sparse encoder, and what else the operator promises.
const std::vector<std::pair<std::string, SparseKernel>> kConvolutionLayers = {
    {"submanifold", {.submanifold = true}},
    {"submanifold, padding not used", {.padding = {1, 2, 0}, .submanifold = true}},
    {"stride 2", {.stride = {2, 2, 2}, .padding = {1, 1, 1}}},
    {"stride 2, no padding in z", {.stride = {2, 2, 2}, .padding = {0, 1, 1}}},
    {"columns", {.size = {3, 1, 1}, .stride = {2, 1, 1}}},
    {"dilated submanifold", {.size = {1, 3, 5}, .dilation = {3, 2, 1}, .submanifold = true}},
    {"dilated, even kernel", {.size = {2, 3, 4}, .stride = {1, 3, 2}, .padding = {1, 0, 3}, .dilation = {2, 1, 2}}},
    {"one tap", {.size = {1, 1, 1}}},
};

struct ConvolutionCase {
  at::Tensor coordinates, features, weight;
  SparseIndices indices;
};

ConvolutionCase draw_convolution(const SparseKernel& kernel, std::int64_t sites = 150, std::int64_t wide_in = 6,
                                 std::int64_t wide_out = 7) {
  at::manual_seed(5);
  ConvolutionCase drawn;
  drawn.coordinates = draw_sites(2, {6, 9, 8}, sites);
  drawn.features = at::randn({drawn.coordinates.size(0), wide_in}, at::kDouble);
  const auto& k = kernel.size;
  drawn.weight = at::randn({wide_out, k[0], k[1], k[2], wide_in}, at::kDouble);
  drawn.indices = build_sparse_indices(drawn.coordinates, {6, 9, 8}, 2, kernel);
  return drawn;
}

TEST(SparseConvolution, EqualsTheDenseConvolutionAtTheActiveSites) {
  for (const auto& [name, kernel] : kConvolutionLayers) {
    SCOPED_TRACE(name);
    auto in = draw_convolution(kernel);
    const auto dense = dense_convolution(in.coordinates, {6, 9, 8}, 2, in.features.requires_grad_(true),
                                         in.weight.requires_grad_(true), kernel);
    // The active sites are those of the dense mask, in the promised order.
    const auto expected_sites = kernel.submanifold ? in.coordinates : dense.sites;
    ASSERT_TRUE(in.indices.coordinates.equal(expected_sites.to(at::kInt)));
    EXPECT_EQ(in.indices.spatial_shape, (GridShape{dense.grid.size(2), dense.grid.size(3), dense.grid.size(4)}));
    const auto actual = sparse_convolution(in.features, in.weight, in.indices);
    const auto expected = rows_at(dense.grid, expected_sites);
    EXPECT_TRUE(close(actual, expected, 1e-13));
    const auto incoming = at::randn_like(expected);
    const auto of_actual = torch::autograd::grad({actual}, {in.features, in.weight}, {incoming});
    const auto of_expected = torch::autograd::grad({expected}, {in.features, in.weight}, {incoming});
    EXPECT_TRUE(close(of_actual[0], of_expected[0], 1e-13));
    EXPECT_TRUE(close(of_actual[1], of_expected[1], 1e-13));
  }
}

TEST(SparseConvolution, GradientsAreTheNumericJacobian) {
  for (const auto& [name, kernel] : kConvolutionLayers) {
    SCOPED_TRACE(name);
    auto in = draw_convolution(kernel, 20, 3, 2);
    in.features.requires_grad_(true);
    in.weight.requires_grad_(true);
    EXPECT_TRUE(gradients_match([&] { return sparse_convolution(in.features, in.weight, in.indices).square().sum(); },
                                {{"features", in.features}, {"weight", in.weight}}));
  }
}

struct ConvolutionResults {
  at::Tensor output, of_features, of_weight;
};

// All three results in one type, for the same incoming gradient.
ConvolutionResults run_convolution(const ConvolutionCase& in, at::ScalarType type) {
  const auto features = in.features.detach().to(type).requires_grad_(true),
             weight = in.weight.detach().to(type).requires_grad_(true);
  const auto output = sparse_convolution(features, weight, in.indices);
  at::manual_seed(6);
  const auto incoming = at::randn(output.sizes(), at::kDouble).to(type);
  const auto gradients = torch::autograd::grad({output}, {features, weight}, {incoming});
  return {output.detach(), gradients[0], gradients[1]};
}

// Widths below, at and beyond the vectors, panels and rounds of the kernels; tiles of more than one block.
TEST(SparseConvolution, TheKernelsAgreeWithTheDefinition) {
  for (const auto& [name, kernel] : kConvolutionLayers)
    for (const auto& [wide_in, wide_out] : {std::pair{5, 16}, {16, 16}, {33, 1}, {1, 40}, {64, 32}, {130, 136}}) {
      SCOPED_TRACE(name + ", " + std::to_string(wide_in) + " to " + std::to_string(wide_out));
      const auto in = draw_convolution(kernel, 800, wide_in, wide_out);
      const auto expected = run_convolution(in, at::kDouble), actual = run_convolution(in, at::kFloat);
      EXPECT_TRUE(close_to_largest(actual.output, expected.output, 1e-6));
      EXPECT_TRUE(close_to_largest(actual.of_features, expected.of_features, 1e-6));
      EXPECT_TRUE(close_to_largest(actual.of_weight, expected.of_weight, 1e-6));
    }
}

TEST(SparseConvolution, BfloatAddsInFloatAndRoundsOnce) {
  for (const auto& [name, kernel] : kConvolutionLayers)
    for (const auto& [wide_in, wide_out] : {std::pair{5, 16}, {64, 33}, {300, 20}}) {
      SCOPED_TRACE(name + ", " + std::to_string(wide_in) + " to " + std::to_string(wide_out));
      auto in = draw_convolution(kernel, 300, wide_in, wide_out);
      in.features = in.features.to(at::kBFloat16);
      in.weight = in.weight.to(at::kBFloat16);
      const auto actual = sparse_convolution(in.features, in.weight, in.indices);
      ASSERT_EQ(actual.scalar_type(), at::kBFloat16);
      const auto expected = sparse_convolution(in.features.to(at::kDouble), in.weight.to(at::kDouble), in.indices);
      EXPECT_TRUE(close_to_largest(actual.to(at::kDouble), expected, 0x1p-8));
      // No element is further away than its own rounding, and a little for the sum in float.
      const auto allowed = expected.abs() * 0x1p-8 + expected.abs().max() * 1e-6;
      EXPECT_TRUE(actual.to(at::kDouble).sub(expected).abs().le(allowed).all().item<bool>());
    }
}

}  // namespace
}  // namespace camber::ops
