#pragma once
#include <cstdint>

#include "camber/kernels/attention.h"

/// Sparse convolution on raw pointers: rows of features joined by lists of pairs, one list a tap.
namespace camber::kernels {

/// Rows of a block, the unit in which the lists of pairs can be cut.
inline constexpr std::int64_t kPairBlock = 64;

/// Pairs (from, to) by tap and `to`: those of tap t whose `to` lies in block i are
/// offsets[t * (blocks + 1) + i] .. offsets[t * (blocks + 1) + i + 1], with blocks = ceil(rows of `to` / kPairBlock).
struct PairLists {
  const std::int32_t *from = nullptr, *to = nullptr;
  const std::int64_t* offsets = nullptr;
};

}  // namespace camber::kernels
