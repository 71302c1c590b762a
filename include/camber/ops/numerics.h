#pragma once
#include <cstdint>

namespace camber::ops {

/// The version of the attention's arithmetic. It grows when a change gives other bits of the same numbers, so that
/// files and records can say what they were made with; those that say nothing are of version 1.
///
///   1   sums over keys as one running sum
///   2   sums over keys in two levels
///   3   few queries and first blocks without packing: their sums begin elsewhere
inline constexpr std::int64_t kNumerics = 3;

}  // namespace camber::ops
