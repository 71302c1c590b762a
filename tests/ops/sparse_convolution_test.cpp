#include "camber/ops/sparse_convolution.h"

#include <algorithm>
#include <array>
#include <cmath>
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

// The definition, the kernels and the lists: the same bits for one thread and for several.
TEST(SparseConvolution, BitsDoNotDependOnTheNumberOfThreads) {
  const int threads = at::get_num_threads();
  for (const auto& [name, kernel] : kConvolutionLayers)
    for (const auto type : {at::kFloat, at::kDouble}) {
      SCOPED_TRACE(name);
      at::set_num_threads(1);
      const auto in = draw_convolution(kernel, 800, 9, 20);
      const auto one = run_convolution(in, type);
      for (const int count : {2, 3, 7}) {
        at::set_num_threads(count);
        const auto again = draw_convolution(kernel, 800, 9, 20);
        EXPECT_TRUE(same_bits(again.indices.coordinates, in.indices.coordinates));
        EXPECT_TRUE(same_bits(again.indices.pair_input, in.indices.pair_input));
        EXPECT_TRUE(same_bits(again.indices.back_output, in.indices.back_output));
        const auto many = run_convolution(again, type);
        EXPECT_TRUE(same_bits(many.output, one.output));
        EXPECT_TRUE(same_bits(many.of_features, one.of_features));
        EXPECT_TRUE(same_bits(many.of_weight, one.of_weight));
      }
    }
  at::set_num_threads(threads);
}

// Each list holds every pair once, by tap and row, and its offsets cut it at every 64th row.
TEST(SparseIndices, ListsHoldTheSamePairsInBothOrders) {
  for (const auto& [name, kernel] : kConvolutionLayers) {
    SCOPED_TRACE(name);
    const auto indices = draw_convolution(kernel, 700).indices;
    const auto pairs_of = [&](const at::Tensor& input, const at::Tensor& output, const at::Tensor& offsets, bool back) {
      std::vector<std::array<std::int64_t, 3>> pairs;
      for (std::int64_t tap = 0; tap < offsets.size(0); ++tap)
        for (std::int64_t block = 0; block + 1 < offsets.size(1); ++block)
          for (auto i = offsets[tap][block].item<std::int64_t>(); i < offsets[tap][block + 1].item<std::int64_t>();
               ++i) {
            const auto row = (back ? input : output)[i].item<std::int64_t>();
            EXPECT_EQ(row / 64, block);
            EXPECT_TRUE(i == offsets[tap][0].item<std::int64_t>() ||
                        (back ? input : output)[i - 1].item<std::int64_t>() < row);
            pairs.push_back({tap, input[i].item<std::int64_t>(), output[i].item<std::int64_t>()});
          }
      std::sort(pairs.begin(), pairs.end());
      return pairs;
    };
    const auto forward = pairs_of(indices.pair_input, indices.pair_output, indices.pair_offsets, false);
    EXPECT_EQ(static_cast<std::int64_t>(forward.size()), indices.pair_input.size(0));
    EXPECT_EQ(forward, pairs_of(indices.back_input, indices.back_output, indices.back_offsets, true));
  }
}

// Sites beyond the grid on either side are counted and read by no one; those left give what they give alone.
TEST(SparseIndices, SitesOutsideTheGridAreDroppedAndCounted) {
  for (const auto& [name, kernel] : kConvolutionLayers) {
    SCOPED_TRACE(name);
    const auto in = draw_convolution(kernel, 100);
    const auto outside = at::tensor(std::vector<std::int64_t>{0, 6, 0, 0,  1, 0, 9, 0, 1, 0,
                                                              0, 8, 0, -1, 0, 0, 0, 0, 0, std::int64_t{1} << 40})
                             .view({5, 4});
    const auto sites = at::cat({outside, in.coordinates, outside});  // outside the grid twice is no error
    const auto features =
        at::cat({at::full({5, 6}, NAN, at::kDouble), in.features, at::full({5, 6}, NAN, at::kDouble)});
    const auto indices = build_sparse_indices(sites, {6, 9, 8}, 2, kernel);
    EXPECT_EQ(indices.dropped, 10);
    EXPECT_EQ(in.indices.dropped, 0);
    EXPECT_TRUE(indices.coordinates.equal(in.indices.coordinates));
    const auto leaf = features.clone().requires_grad_(true), alone = in.features.clone().requires_grad_(true);
    const auto output = sparse_convolution(leaf, in.weight, indices);
    const auto expected = sparse_convolution(alone, in.weight, in.indices);
    EXPECT_TRUE(same_bits(output, expected));
    const auto gradient = torch::autograd::grad({output.sum()}, {leaf})[0];
    EXPECT_TRUE(same_bits(gradient.slice(0, 5, -5), torch::autograd::grad({expected.sum()}, {alone})[0]));
    EXPECT_FALSE(gradient.slice(0, 0, 5).any().item<bool>());
  }
}

TEST(SparseConvolution, EmptyCloudsOneVoxelAndWidthsOfZero) {
  for (const auto& [name, kernel] : kConvolutionLayers)
    for (const std::int64_t sites : {0, 1})
      for (const auto type : {at::kFloat, at::kDouble})
        for (const auto& [wide_in, wide_out] : {std::pair{3, 4}, {0, 4}, {3, 0}}) {
          SCOPED_TRACE(name + ", " + std::to_string(sites) + " sites");
          const auto in = draw_convolution(kernel, sites, wide_in, wide_out);
          const auto found = run_convolution(in, type);
          EXPECT_EQ(found.output.sizes(), (std::vector<std::int64_t>{in.indices.outputs(), wide_out}));
          EXPECT_EQ(found.of_features.sizes(), in.features.sizes());
          EXPECT_EQ(found.of_weight.sizes(), in.weight.sizes());
          EXPECT_EQ(found.of_weight.any().item<bool>(), sites > 0 && found.of_weight.numel() > 0);
          EXPECT_EQ(found.output.any().item<bool>(), found.output.numel() > 0 && wide_in > 0);
        }
  // No batch at all, and a batch in which one cloud is empty.
  const auto none = build_sparse_indices(at::empty({0, 4}, at::kInt), {4, 4, 4}, 0, {});
  EXPECT_EQ(none.outputs(), 0);
  const auto second = build_sparse_indices(at::tensor({1, 2, 2, 2}, at::kInt).view({1, 4}), {4, 4, 4}, 3, {});
  EXPECT_EQ(second.coordinates.select(1, 0).min().item<int>(), 1);
  EXPECT_EQ(second.outputs(), 8);
}

// Views with strides, expanded features and weights: the numbers count, not where they lie.
TEST(SparseConvolution, TakesAnyStrides) {
  const SparseKernel kernel{.stride = {2, 2, 2}, .padding = {1, 1, 1}};
  const auto in = draw_convolution(kernel, 200);
  const auto sites = at::stack({in.coordinates, in.coordinates}, 2).select(2, 0);
  EXPECT_TRUE(build_sparse_indices(sites, {6, 9, 8}, 2, kernel).pair_input.equal(in.indices.pair_input));
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const auto row = at::randn({1, 6}).to(type), one = at::randn({1, 3, 3, 3, 6}).to(type);
    const auto features = row.expand({in.coordinates.size(0), 6});
    const auto expected =
        sparse_convolution(features.contiguous(), one.expand({7, 3, 3, 3, 6}).contiguous(), in.indices);
    EXPECT_TRUE(same_bits(sparse_convolution(features, one.expand({7, 3, 3, 3, 6}), in.indices), expected));
    const auto turned = features.t().contiguous().t();
    EXPECT_TRUE(same_bits(sparse_convolution(turned, one.expand({7, 3, 3, 3, 6}), in.indices), expected));
  }
}

// A NaN reaches the outputs whose taps read it, and no other.
TEST(SparseConvolution, NanStaysWithTheTapsThatReadIt) {
  for (const auto type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const auto in = draw_convolution({.submanifold = true}, 100, 20, 18);
    const auto clean = sparse_convolution(in.features.to(type), in.weight.to(type), in.indices);
    auto spoiled = in.features.to(type).clone();
    spoiled[7][3] = NAN;
    const auto output = sparse_convolution(spoiled, in.weight.to(type), in.indices);
    const auto reads = in.indices.pair_output.masked_select(in.indices.pair_input.eq(7)).to(at::kLong);
    auto expected = at::zeros({in.indices.outputs()}, at::kBool);
    expected.index_fill_(0, reads, true);
    EXPECT_TRUE(output.isnan().all(1).equal(expected));
    EXPECT_TRUE(output.isnan().any(1).equal(expected));
    const auto others = expected.logical_not().nonzero().squeeze(1);
    EXPECT_TRUE(same_bits(output.index_select(0, others), clean.index_select(0, others)));
  }
}

// Any geometry: kernels, strides, paddings, dilations and widths drawn at random.
TEST(SparseConvolution, RandomGeometriesEqualTheDenseConvolution) {
  at::manual_seed(21);
  const auto drawn = [](std::int64_t from, std::int64_t to) {
    return at::randint(from, to + 1, {1}).item<std::int64_t>();
  };
  for (int i = 0; i < 60; ++i) {
    SparseKernel kernel{.submanifold = drawn(0, 2) == 0};
    GridShape shape{};
    for (std::size_t d = 0; d < 3; ++d) {
      kernel.size[d] = kernel.submanifold ? 2 * drawn(0, 2) + 1 : drawn(1, 4);
      kernel.stride[d] = kernel.submanifold ? 1 : drawn(1, 3);
      kernel.padding[d] = drawn(0, 3);
      kernel.dilation[d] = drawn(1, 2);
      shape[d] = drawn(kernel.dilation[d] * (kernel.size[d] - 1) + 1, 12);
    }
    const std::int64_t batch = drawn(1, 3), wide_in = drawn(1, 40), wide_out = drawn(1, 40);
    const auto sites = draw_sites(batch, shape, drawn(0, batch * shape[0] * shape[1] * shape[2]));
    const auto x = at::randn({sites.size(0), wide_in}, at::kDouble),
               w = at::randn({wide_out, kernel.size[0], kernel.size[1], kernel.size[2], wide_in}, at::kDouble);
    const auto indices = build_sparse_indices(sites, shape, batch, kernel);
    const auto dense = dense_convolution(sites, shape, batch, x, w, kernel);
    const auto expected_sites = kernel.submanifold ? sites : dense.sites;
    ASSERT_TRUE(indices.coordinates.equal(expected_sites.to(at::kInt))) << i;
    const auto expected = rows_at(dense.grid, expected_sites);
    EXPECT_TRUE(close(sparse_convolution(x, w, indices), expected, 1e-12)) << i;
    EXPECT_TRUE(close(sparse_convolution(x.to(at::kFloat), w.to(at::kFloat), indices), expected, 2e-6)) << i;
  }
}

}  // namespace
}  // namespace camber::ops
