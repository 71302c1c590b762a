#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include "camber/ops/sparse_convolution.h"
#include "support/comparison.h"

namespace camber::ops {
namespace {

using namespace camber::proof;

struct IndexArguments {
  at::Tensor coordinates = at::tensor({0, 0, 0, 0, 1, 2, 3, 4}, at::kLong).view({2, 4});
  GridShape shape{3, 4, 5};
  std::int64_t batch = 2;
  SparseKernel kernel{.submanifold = true};

  std::string error() const {
    return error_of([&] { build_sparse_indices(coordinates, shape, batch, kernel); });
  }
};

TEST(SparseIndicesErrors, NameTheArgumentWhatCameAndWhatIsAllowed) {
  const auto expect = [](const std::function<void(IndexArguments&)>& spoil, const std::string& sentence) {
    IndexArguments arguments;
    spoil(arguments);
    EXPECT_EQ(arguments.error(), "[build_sparse_indices] " + sentence);
  };
  expect(
      [](auto& a) {
        a.coordinates = at::zeros({2, 3}, at::kLong);
      },
      "coordinates must be int32 or int64 [N, 4], got Long [2, 3]");
  expect(
      [](auto& a) {
        a.coordinates = at::zeros({2, 4});
      },
      "coordinates must be int32 or int64 [N, 4], got Float [2, 4]");
  expect([](auto& a) { a.coordinates[1][0] = 2; }, "coordinates must have batches in 0 .. 1, got 2 in row 1");
  expect([](auto& a) { a.coordinates[0][0] = -1; }, "coordinates must have batches in 0 .. 1, got -1 in row 0");
  expect([](auto& a) { a.coordinates[1] = a.coordinates[0]; },
         "coordinates must hold every site once, got (0, 0, 0, 0) twice");
  expect(
      [](auto& a) {
        a.coordinates[0] = a.coordinates[1];
        a.kernel = {.stride = {2, 2, 2}};
      },
      "coordinates must hold every site once, got (1, 2, 3, 4) twice");
  expect(
      [](auto& a) {
        a.shape = {3, 0, 5};
      },
      "spatial_shape must be at least 1 and below 2^31 along every axis, got (3, 0, 5)");
  expect(
      [](auto& a) {
        a.shape = {1 << 20, 1 << 20, 5};
      },
      "spatial_shape must have fewer than 2^32 cells over all batches, got (1048576, 1048576, 5) times 2");
  expect([](auto& a) { a.batch = -1; }, "batch must be at least 0, got -1");
  expect([](auto& a) { a.kernel.size = {3, 2, 3}; }, "kernel must be odd where submanifold, got (3, 2, 3)");
  expect([](auto& a) { a.kernel.stride = {1, 1, 2}; }, "stride must be 1 where submanifold, got (1, 1, 2)");
  expect(
      [](auto& a) {
        a.kernel.size = {0, 1, 1};
      },
      "kernel must be at least 1 and below 2^31 along every axis, got (0, 1, 1)");
  expect([](auto& a) { a.kernel.size = {1, 4097, 1}; }, "kernel must have at most 4096 taps, got (1, 4097, 1)");
  expect(
      [](auto& a) {
        a.kernel = {.stride = {0, 1, 1}};
      },
      "stride must be at least 1 and below 2^31 along every axis, got (0, 1, 1)");
  expect(
      [](auto& a) {
        a.kernel = {.padding = {-1, 1, 1}};
      },
      "padding must be at least 0 and below 2^31 along every axis, got (-1, 1, 1)");
  expect(
      [](auto& a) {
        a.kernel.dilation = {1, 0, 1};
      },
      "dilation must be at least 1 and below 2^31 along every axis, got (1, 0, 1)");
  expect(
      [](auto& a) {
        a.kernel = {.size = {3, 5, 3}};
      },
      "kernel must fit into the padded grid, got a span of 5 on 4 cells along axis 1");
  expect(
      [](auto& a) {
        a.kernel = {.padding = {1 << 20, 1 << 20, 0}};
      },
      "the output grid must have fewer than 2^32 cells over all batches, got (2097153, 2097154, 3) times 2");
  EXPECT_EQ(IndexArguments{}.error(), "(no error)");
}

TEST(SparseConvolutionErrors, NameTheArgumentWhatCameAndWhatIsAllowed) {
  const IndexArguments arguments;
  const auto indices = build_sparse_indices(arguments.coordinates, arguments.shape, 2, arguments.kernel);
  const auto x = at::randn({2, 5}), w = at::randn({4, 3, 3, 3, 5});
  const auto error = [&](const at::Tensor& features, const at::Tensor& weight, const SparseIndices& used) {
    return error_of([&] { sparse_convolution(features, weight, used); });
  };
  EXPECT_EQ(error(x, w, indices), "(no error)");
  EXPECT_EQ(error(at::randn({3, 5}), w, indices),
            "[sparse_convolution] features must be [N, Cin] with the 2 input rows of indices, got Float [3, 5]");
  EXPECT_EQ(
      error(x, at::randn({4, 3, 3, 1, 5}), indices),
      "[sparse_convolution] weight must be [Cout, 3, 3, 3, Cin] for the kernel of indices, got Float [4, 3, 3, 1, 5]");
  EXPECT_EQ(error(x, at::randn({4, 3, 3, 3, 6}), indices),
            "[sparse_convolution] weight must be [Cout, kz, ky, kx, Cin] with the channels and dtype of features Float "
            "[2, 5], got Float [4, 3, 3, 3, 6]");
  EXPECT_EQ(error(x, w.to(at::kDouble), indices),
            "[sparse_convolution] weight must be [Cout, kz, ky, kx, Cin] with the channels and dtype of features Float "
            "[2, 5], got Double [4, 3, 3, 3, 5]");
  EXPECT_EQ(error(x.to(at::kHalf), w.to(at::kHalf), indices),
            "[sparse_convolution] features must be a float, double or bfloat16 tensor [N, Cin], got Half [2, 5]");
  EXPECT_EQ(error(x.to(at::kBFloat16).requires_grad_(true), w.to(at::kBFloat16), indices),
            "[sparse_convolution] features must be float or double where a gradient is needed, got BFloat16 [2, 5]");
  auto spoiled = indices;
  spoiled.pair_input = at::full_like(indices.pair_input, 2);
  const std::string leaves =
      "[sparse_convolution] pairs must be those of one SparseIndices, but a forward pair leaves its list, the 2 rows "
      "it "
      "reads or the block of the 2 rows it adds to";
  EXPECT_EQ(error(x, w, spoiled), leaves);
  spoiled = indices;
  spoiled.pair_output = at::full_like(indices.pair_output, -1);
  EXPECT_EQ(error(x, w, spoiled), leaves);
  spoiled = indices;
  spoiled.pair_offsets = at::full_like(indices.pair_offsets, 3);
  spoiled.pair_offsets.select(1, 1).fill_(1 << 20);
  EXPECT_EQ(error(x, w, spoiled), leaves);
  spoiled.pair_offsets = indices.pair_offsets.slice(0, 1);
  EXPECT_EQ(
      error(x, w, spoiled),
      "[sparse_convolution] pairs must hold int64 [taps, blocks + 1] = [27, 2] offsets for this weight and 2 rows, "
      "got Long [26, 2]");
  spoiled = indices;
  spoiled.back_input = indices.back_input.to(at::kLong);
  EXPECT_EQ(error(x, w, spoiled),
            "[sparse_convolution] pairs must hold int32 [P] rows, all of one length, got Long [2]");
  const auto leaf = x.clone().requires_grad_(true);
  const auto first =
      torch::autograd::grad({sparse_convolution(leaf, w, indices).square().sum()}, {leaf}, {}, true, true)[0];
  EXPECT_EQ(error_of([&] { first.sum().backward(); }),
            "[sparse_convolution] double backward must not be asked for: only first derivatives exist");
}

}  // namespace
}  // namespace camber::ops
