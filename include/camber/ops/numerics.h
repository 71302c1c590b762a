#pragma once
#include <cstdint>

namespace camber::ops {

/// The version of the arithmetic of attention and training steps. It grows when a change gives other bits of the same
/// numbers, so that files and records can say what they were made with; those that say nothing are of version 1.
///
///   1   sums over keys as one running sum
///   2   sums over keys in two levels
///   3   few queries and first blocks without packing: their sums begin elsewhere
///   4   Adam in one pass, with square roots to the nearest float; the norms of small gradients in other parts
///   5   the exponential looks powers of two up where a register holds 16 floats
inline constexpr std::int64_t kNumerics = 5;

}  // namespace camber::ops
