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
const std::vector<std::pair<std::string, SparseKernel>> kLayers = {
    {"submanifold", {.submanifold = true}},
    {"submanifold, padding not used", {.padding = {1, 2, 0}, .submanifold = true}},
    {"stride 2", {.stride = {2, 2, 2}, .padding = {1, 1, 1}}},
    {"stride 2, no padding in z", {.stride = {2, 2, 2}, .padding = {0, 1, 1}}},
    {"columns", {.size = {3, 1, 1}, .stride = {2, 1, 1}}},
    {"dilated submanifold", {.size = {1, 3, 5}, .dilation = {3, 2, 1}, .submanifold = true}},
    {"dilated, even kernel", {.size = {2, 3, 4}, .stride = {1, 3, 2}, .padding = {1, 0, 3}, .dilation = {2, 1, 2}}},
    {"one tap", {.size = {1, 1, 1}}},
};

struct Case {
  at::Tensor coordinates, features, weight;
  SparseIndices indices;
};

Case draw(const SparseKernel& kernel, std::int64_t sites = 150, std::int64_t wide_in = 6, std::int64_t wide_out = 7) {
  at::manual_seed(5);
  Case drawn;
  drawn.coordinates = draw_sites(2, {6, 9, 8}, sites);
  drawn.features = at::randn({drawn.coordinates.size(0), wide_in}, at::kDouble);
  const auto& k = kernel.size;
  drawn.weight = at::randn({wide_out, k[0], k[1], k[2], wide_in}, at::kDouble);
  drawn.indices = build_sparse_indices(drawn.coordinates, {6, 9, 8}, 2, kernel);
  return drawn;
}

TEST(SparseConvolution, EqualsTheDenseConvolutionAtTheActiveSites) {
  for (const auto& [name, kernel] : kLayers) {
    SCOPED_TRACE(name);
    auto in = draw(kernel);
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
  for (const auto& [name, kernel] : kLayers) {
    SCOPED_TRACE(name);
    auto in = draw(kernel, 20, 3, 2);
    in.features.requires_grad_(true);
    in.weight.requires_grad_(true);
    EXPECT_TRUE(gradients_match([&] { return sparse_convolution(in.features, in.weight, in.indices).square().sum(); },
                                {{"features", in.features}, {"weight", in.weight}}));
  }
}

}  // namespace
}  // namespace camber::ops
