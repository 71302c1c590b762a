#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "camber/kernels/attention.h"
#include "camber/kernels/sparse_convolution.h"

/// Which rows the taps of a sparse convolution join, from the sites of its input.
namespace camber::kernels {

struct SparseGeometry {
  std::int64_t batches = 0;
  std::array<std::int64_t, 3> input_shape{}, output_shape{};  // (z, y, x)
  std::array<std::int64_t, 3> kernel{}, stride{}, padding{}, dilation{};

  std::int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
};

/// Memory for so many numbers, which the caller keeps.
using Allocate = std::function<std::int32_t*(std::int64_t count)>;

/// The lists of PairLists, filled.
struct PairMemory {
  Allocate from{}, to{};
  std::vector<std::int64_t> offsets{};
};

/// What is built of the sites of an input.
struct SparseSites {
  Allocate coordinates{};        // [outputs, 4]
  PairMemory forward{}, back{};  // inputs to outputs, and outputs to inputs
  std::int64_t outputs = 0, dropped = 0;
  bool mirrored = false;  // `back` is `forward` with the taps reversed and both rows exchanged, and is not filled
};

/// coordinates [rows, 4] hold (batch, z, y, x), batches already checked. Submanifold: the geometry has stride 1 and the
/// padding that centres its odd kernel. Throws std::invalid_argument where a site comes twice.
void find_sites(const SparseGeometry& geometry, bool submanifold, const std::int32_t* coordinates, std::int64_t rows,
                const ParallelFor& parallel, SparseSites& sites);

}  // namespace camber::kernels
