#include "camber/ops/windows.h"

#include <gtest/gtest.h>

#include <torch/csrc/autograd/autograd.h>

#include "support/comparison.h"

namespace camber::ops {
namespace {

using namespace camber::proof;

TEST(WindowValues, SpreadStrengthAndSumItBack) {
  const auto center = at::tensor({1, 1, -1, 0, 3, 0, 0, 0}, at::kLong).view({1, 2, 2, 2});
  const auto size = at::tensor({3, 3, 3, 1}, at::kInt).view({1, 2, 2});
  const auto shape = at::tensor({4, 3, 2, 2}, at::kLong).view({2, 2});
  const auto index = build_windows(center, size, shape);
  // Query 0: 3x3 on map 0, nothing on map 1. Query 1: cut at the corner of map 0 to 2x2, one cell on map 1.
  EXPECT_TRUE(index.row_offsets.equal(at::tensor({0, 9, 14}, at::kLong)));
  EXPECT_TRUE(index.key_index.equal(at::tensor({0, 1, 2, 4, 5, 6, 8, 9, 10, 2, 3, 6, 7, 12}, at::kInt)));
  EXPECT_TRUE(index.squared_distance.equal(at::tensor({2, 1, 2, 1, 0, 1, 2, 1, 2, 1, 0, 2, 1, 0}, at::kInt)));
  const auto strength = at::randn({2, 2, 2}, at::kDouble).requires_grad_(true);
  const auto profile = at::rand({14}, at::kDouble);
  const auto value = window_values(strength, profile, index.row_offsets, index.map_index);
  EXPECT_NEAR(value[1][13].item<double>(), profile[13].item<double>() * strength[1][1][1].item<double>(), 1e-15);
  EXPECT_TRUE(gradients_match(
      [&] { return window_values(strength, profile, index.row_offsets, index.map_index).square().sum(); },
      {{"strength", strength}}));
}

// Queries anywhere on three maps, or on none, with windows of several sizes.
struct DrawnWindows {
  at::Tensor center, size, shape = at::tensor({9, 7, 4, 12, 1, 5}, at::kLong).view({3, 2});

  explicit DrawnWindows(std::int64_t queries) {
    at::manual_seed(11);
    const auto column = [&](std::int64_t m) { return at::randint(-1, shape[m][0].item<std::int64_t>(), {2, queries}); };
    const auto row = [&](std::int64_t m) { return at::randint(0, shape[m][1].item<std::int64_t>(), {2, queries}); };
    std::vector<at::Tensor> cells;
    cells.reserve(3);
    for (std::int64_t m = 0; m < 3; ++m) cells.push_back(at::stack({column(m), row(m)}, -1));
    center = at::stack(cells, 2).to(at::kLong);
    size = (2 * at::randint(0, 4, {2, queries, 3}) + 1).to(at::kInt);
  }
};

TEST(BuildWindows, EqualsTheObviousLoop) {
  const DrawnWindows drawn(40);
  const auto index = build_windows(drawn.center, drawn.size, drawn.shape);
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> keys, maps, distances;
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t q = 0; q < 40; ++q) {
      std::int64_t first_key = 0;
      for (std::int64_t m = 0; m < 3; ++m) {
        const auto columns = drawn.shape[m][0].item<std::int64_t>(), rows = drawn.shape[m][1].item<std::int64_t>();
        const auto x = drawn.center[b][q][m][0].item<std::int64_t>(), y = drawn.center[b][q][m][1].item<std::int64_t>();
        const std::int64_t half = drawn.size[b][q][m].item<std::int32_t>() / 2;
        for (std::int64_t row = 0; row < rows; ++row)
          for (std::int64_t column = 0; column < columns; ++column) {
            if (x < 0 || std::abs(column - x) > half || std::abs(row - y) > half) continue;
            keys.push_back(static_cast<std::int32_t>(first_key + row * columns + column));
            maps.push_back(static_cast<std::int32_t>(m));
            distances.push_back(static_cast<std::int32_t>((column - x) * (column - x) + (row - y) * (row - y)));
          }
        first_key += columns * rows;
      }
      offsets.push_back(static_cast<std::int64_t>(keys.size()));
    }
  EXPECT_TRUE(index.row_offsets.equal(at::tensor(offsets, at::kLong)));
  EXPECT_TRUE(index.key_index.equal(at::tensor(keys, at::kInt)));
  EXPECT_TRUE(index.map_index.equal(at::tensor(maps, at::kInt)));
  EXPECT_TRUE(index.squared_distance.equal(at::tensor(distances, at::kInt)));
}

// The float kernels against the double reference, on enough rows for several threads.
TEST(WindowValues, TheKernelsAgreeWithTheReference) {
  const DrawnWindows drawn(700);
  const auto index = build_windows(drawn.center, drawn.size, drawn.shape);
  const auto strength = at::randn({4, 1400, 3}, at::kDouble),
             profile = at::rand({index.key_index.size(0)}, at::kDouble);
  const auto incoming = at::randn({4, index.key_index.size(0)}, at::kDouble);
  const auto run = [&](at::ScalarType type) {
    const auto leaf = strength.to(type).requires_grad_(true);
    const auto value = window_values(leaf, profile.to(type), index.row_offsets, index.map_index);
    return std::pair{value.detach(), torch::autograd::grad({value}, {leaf}, {incoming.to(type)})[0]};
  };
  const auto [expected, expected_gradient] = run(at::kDouble);
  const auto [actual, gradient] = run(at::kFloat);
  EXPECT_TRUE(close(actual, expected, 2e-7));
  EXPECT_TRUE(close(gradient, expected_gradient, 4e-7));
}

}  // namespace
}  // namespace camber::ops
