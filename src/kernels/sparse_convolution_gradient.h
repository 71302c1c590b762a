#pragma once
#include "kernels/sparse_convolution_tile.h"

// The gradient of a sparse convolution's weight for one instruction set: a product over the pairs of a tap, with the
// rows of the output's gradient at the left and those of the features, in panels, at the right.
namespace camber::kernels {
namespace {

// Output channels of a register tile: widths are multiples of it more often than of kTileRows.
inline constexpr int kGradientRows = kLanes == 16 ? 8 : 4;

struct GradientScratch {
  float* left;         // [kGatherPairs][kGatherWords]
  const float** rows;  // [kGatherPairs]
  float* panels;       // [panels][kGatherPairs][kPanel]
};

inline std::int64_t gradient_rows_padded(const ConvolutionProblem& p) {
  return (p.to_width + kGradientRows - 1) / kGradientRows * kGradientRows;
}

inline GradientScratch lay_out_gradient(Arena& arena, const WeightGradientJob& job) {
  GradientScratch s{};
  s.left = arena.take<float>(kGatherPairs * kGatherWords);
  s.rows = arena.take<const float*>(kGatherPairs);
  s.panels = arena.take<float>(kGatherPairs * padded_width(job.problem.from_width));
  return s;
}

// to[M][N * kLanes] += sum over pairs of left[pair][M] right[pair][:]. Not inlined: see add_product.
template <int N>
__attribute__((noinline)) void add_outer_products(const float* left, const float* panel, int pairs, float* to,
                                                  int row_stride) {
  Sums<kGradientRows, N> sums;
  clear(sums);
  multiply<FloatNumbers, 1, kGatherWords>(sums, left, panel, pairs);
  add_rows(sums, to, row_stride);
}

// Adds some pairs to the rows of output channels `channel` .. channel + count.
inline void add_to_channels(const GradientScratch& s, int pairs, int count, int width, float* to) {
  const float* panel = s.panels;
  int column = 0;
  for (; column + kPanel <= width; column += kPanel, panel += pairs * kPanel)
    for (int row = 0; row < count; row += kGradientRows)
      add_outer_products<2>(s.left + row, panel, pairs, to + row * width + column, width);
  if (column == width) return;
  for (int row = 0; row < count; row += kGradientRows)
    add_outer_products<1>(s.left + row, panel, pairs, to + row * width + column, width);
}

// Adds pairs first .. end of a tap to its gradient.
inline void add_pairs_of_tap(const WeightGradientJob& job, const GradientScratch& s, std::int64_t first,
                             std::int64_t end, float* to) {
  static_assert(kGatherWords % kGradientRows == 0);
  const ConvolutionProblem& p = job.problem;
  const int width = static_cast<int>(padded_width(p.from_width));
  for (; first < end; first += kGatherPairs) {
    const int pairs = static_cast<int>(end - first < kGatherPairs ? end - first : kGatherPairs);
    for (int i = 0; i < pairs; ++i) s.rows[i] = static_cast<const float*>(p.x) + p.pairs.from[first + i] * p.from_width;
    pack_row_panels(s.rows, pairs, static_cast<int>(p.from_width), s.panels);
    for (std::int64_t channel = 0; channel < p.to_width; channel += kGatherWords) {
      const std::int64_t left = p.to_width - channel;
      const int count = static_cast<int>(left < kGatherWords ? left : kGatherWords);
      for (int i = 0; i < pairs; ++i)
        gather_row(job.grad + p.pairs.to[first + i] * p.to_width + channel, count, s.left + i * kGatherWords);
      add_to_channels(s, pairs, count, width, to + channel * width);
    }
  }
}

// A part goes through its rows a few blocks at a time, and through all taps of those: the rows that the taps share stay
// in the second cache.
inline void weight_gradient_part(const WeightGradientJob& job, std::int64_t part, std::byte* memory) {
  constexpr std::int64_t kCachedFloats = 131072;
  const ConvolutionProblem& p = job.problem;
  Arena arena{memory};
  const GradientScratch s = lay_out_gradient(arena, job);
  float* to = job.partial + part * p.taps * job.tap_size;
  for (std::int64_t d = 0; d < p.taps * job.tap_size; d += kLanes) store(to + d, zero());
  const std::int64_t blocks = (p.to_rows + kPairBlock - 1) / kPairBlock, last = (part + 1) * job.part_blocks;
  const std::int64_t end = last < blocks ? last : blocks;
  const std::int64_t step = 1 + kCachedFloats / kPairBlock / (p.from_width + p.to_width);
  for (std::int64_t first = part * job.part_blocks; first < end; first += step) {
    const std::int64_t next = first + step < end ? first + step : end;
    for (std::int64_t tap = 0; tap < p.taps; ++tap) {
      const std::int64_t* offsets = p.pairs.offsets + tap * (blocks + 1);
      add_pairs_of_tap(job, s, offsets[first], offsets[next], to + tap * job.tap_size);
    }
  }
}

}  // namespace
}  // namespace camber::kernels
