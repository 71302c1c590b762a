#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "camber/kernels/attention.h"
#include "kernels/sparse_convolution.h"

/// Which rows the taps of a sparse convolution join, from the sites of its input.
namespace camber::kernels {

struct SparseGeometry {
  std::int64_t batches = 0;
  std::array<std::int64_t, 3> input_shape{}, output_shape{};  // (z, y, x)
  std::array<std::int64_t, 3> kernel{}, stride{}, padding{}, dilation{};
  bool submanifold = false;

  std::int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
};

/// The rows that a site joins, for every tap and row: -1 where there is none.
struct NeighbourTable {
  std::vector<std::int32_t> neighbour;  // [taps, rows]
  std::int64_t taps = 0, rows = 0;
};

/// The sites of an output with its table (input rows by output rows), and of the input with the opposite table.
struct SparseSites {
  std::vector<std::int32_t> coordinates;  // [outputs, 4]
  NeighbourTable by_output, by_input;
  std::int64_t dropped = 0;
  bool mirrored = false;  // by_input is by_output with the taps reversed, and is not built

  std::int64_t outputs() const { return static_cast<std::int64_t>(coordinates.size()) / 4; }
};

/// coordinates [rows, 4] hold (batch, z, y, x), batches already checked. Throws std::invalid_argument where a site
/// comes twice.
SparseSites find_sites(const SparseGeometry& geometry, const std::int32_t* coordinates, std::int64_t rows,
                       const ParallelFor& parallel);

/// The first pair of every (tap, block of kPairBlock rows): int64 [taps, blocks + 1].
std::vector<std::int64_t> pair_offsets(const NeighbourTable& table, const ParallelFor& parallel);
/// The pairs (neighbour, row) by tap and row, int32 [pairs] each.
void write_pairs(const NeighbourTable& table, const std::int64_t* offsets, std::int32_t* neighbours, std::int32_t* rows,
                 const ParallelFor& parallel);

}  // namespace camber::kernels
