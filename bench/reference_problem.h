#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "camber/kernels/attention.h"

namespace camber::bench {

/// The reference size: 8 heads of width 32, 900 queries, keys of a 128 x 128 grid and six camera maps of 20 x 50.
struct ReferenceSizes {
  std::int64_t batches = 1, heads = 8, queries = 900, width = 32;
  std::int64_t grid = 128, cameras = 6, map_rows = 20, map_columns = 50;
  std::int64_t keys() const { return grid * grid + cameras * map_rows * map_columns; }
};

/// Arrays of the reference problem in the layout of a multi-head layer ([B, rows, H * D]): q, k, v, windows of 5 x 5
/// cells in the grid and 15 x 15 in one or two cameras a query, segments (the grid and each camera), a dense float
/// mask.
struct ReferenceProblem {
  explicit ReferenceProblem(const ReferenceSizes& sizes);

  kernels::AttentionProblem plain() const;  // q, k, v alone
  kernels::AttentionProblem with_windows() const;

  ReferenceSizes sizes;
  std::vector<float> q, k, v, grad_output;
  std::vector<std::uint16_t> q16, k16, v16;
  std::vector<std::int64_t> row_offsets, segment_offsets;
  std::vector<std::int32_t> key_index;
  std::vector<float> window_value, segment_value;
};

}  // namespace camber::bench
