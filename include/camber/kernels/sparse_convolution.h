#pragma once
#include <cstdint>

#include "camber/kernels/attention.h"

/// Sparse convolution on raw pointers: rows joined by lists of pairs, one list a tap, without a copy of all the rows of
/// a list.
namespace camber::kernels {

/// Rows of a block, the unit in which the lists of pairs can be cut.
inline constexpr std::int64_t kPairBlock = 64;

/// Pairs (from, to) by tap and `to`: those of tap t whose `to` lies in block i are
/// offsets[t * (blocks + 1) + i] .. offsets[t * (blocks + 1) + i + 1], with blocks = ceil(rows of `to` / kPairBlock).
struct PairLists {
  const std::int32_t *from = nullptr, *to = nullptr;
  const std::int64_t* offsets = nullptr;
};

/// output[to, :] = sum over the taps t and their pairs (from, to) of W_t x[from, :], where W_t is weight[:, t, :] or,
/// transposed, its transpose: the gradient of the features is the convolution of the output's gradient.
struct ConvolutionProblem {
  std::int64_t taps = 0, from_rows = 0, to_rows = 0;
  std::int64_t from_width = 0, to_width = 0;
  ElementType type = ElementType::float32;  // of all three arrays; transposed: float32 only
  const void* x = nullptr;                  // [from_rows, from_width]
  const void* weight = nullptr;             // [to_width, taps, from_width], transposed [from_width, taps, to_width]
  bool transposed = false;
  PairLists pairs;
  ParallelFor parallel;
};

/// Writes every element of output [to_rows, to_width]. Sums are taken in float over the channels of a tap, then over
/// the taps in order: the bits are the same for any number of slots.
///
///   convolve({.taps = 27, .from_rows = n, .to_rows = n, .from_width = 16, .to_width = 32, .x = x, .weight = w,
///             .pairs = pairs, .parallel = threads}, y, chosen_isa());
void convolve(const ConvolutionProblem& problem, void* output, Isa isa);

/// gradient[o, t, i] = sum over the pairs (from, to) of tap t of grad[to, o] x[from, i], float32, for
/// grad [to_rows, to_width]. The problem's weight is not read, and it is not transposed. Pairs are summed in parts of
/// output rows that the problem alone determines, and the parts in order.
void convolution_weight_gradient(const ConvolutionProblem& problem, const float* grad, float* gradient, Isa isa);

}  // namespace camber::kernels
