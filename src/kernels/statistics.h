#pragma once
#include "kernels/forward_state.h"

// Row statistics from the weights of the pass itself. Sums are relative to the row's reference until the row is done.
//
// Outside the windows the bias is constant in a segment, so that there p is proportional to p0: half of sum |p - p0|
// and E_p[b] need one sum a segment, and the window entries one by one (window_weights).
namespace camber::kernels {
namespace {

// The bias of a tile of rows on one block, in units of log2.
struct BlockBias {
  Stretches windows;       // window entries
  int kept[kTileRows];     // positions that each row sees: the block's, or fewer where its keys end in the block
  int seen;                // the most of them
  int width;               // positions that are computed, whole panels
  bool masked;             // the strip holds mask plus table, in all panels
  bool one_value;          // the block's segments have one value in every row, 0 without segments
  bool removed_segment;    // they have several, and one of them is -inf
  float shift[kTileRows];  // the segments' largest value: whole + start
  float whole[kTileRows];  // its integer part, which goes to the reference: a sum that started there would be rounded
                           // at its size in every step
  float start[kTileRows];
  float highest;           // at least every mask value plus every window value, at least 0
  float highest_window;    // at least every window value, at least 0
  float floor[kTileRows];  // what to_weights needs of the reference
  float rounding[kTileRows];
  int removed[kTileRows];  // keys that windows or the mask remove (counted for statistics only)
};

// The sums so far of a row whose reference rose: they shrink by a power of two.
template <class Numbers>
inline void rescale_statistics(ForwardTask<Numbers>& task, int row, Vec factor) {
  ForwardScratch<Numbers>& s = task.scratch;
  const auto shrink = [&](float* sums, Vec by) { store(sums, mul(load(sums), by)); };
  shrink(s.moments + row * kLanes, factor);
  shrink(s.squares + row * kLanes, mul(factor, factor));
  shrink(s.largest + row * kLanes, factor);
  shrink(s.outside + row * kLanes, factor);
  const float by = max_of(factor);
  const std::int64_t segments = segment_count(task.problem);
  for (std::int64_t k = 0; k < segments; ++k) s.segment_sums[row * segments + k] *= by;
  if (task.job.side_entries == 0 || row >= task.rows) return;
  const std::int64_t* offsets = task.entry_offsets();
  for (std::int64_t e = offsets[row]; e < offsets[row + 1]; ++e) s.window_weights[e - offsets[0]] *= by;
}

// The larger one of a row's reference and its largest score, rounded up. NaN is ignored.
inline float raised_reference(const float* scores, int width, float before) {
  Vec a = broadcast(kNegativeInfinity), b = a;
  for (int j = 0; j < width; j += kPanel) {
    a = max_number(a, load(scores + j));
    b = max_number(b, load(scores + j + kLanes));
  }
  const float highest = __builtin_ceilf(max_of(max(a, b)));
  return highest > before ? highest : before;
}

// Scores to weights 2^(score - reference), in place. A row without any key so far has -inf; its scores stay -inf below
// a reference of 0.
inline void scores_to_weights(float* scores, int width, float reference) {
  const Vec safe = broadcast(reference == kNegativeInfinity ? 0.0f : reference);
  const Vec floor = broadcast(kSmallestExponent), shift = broadcast(kRoundingShift);
  for (int j = 0; j < width; j += kPanel) {
    Vec weight[2];
    const Vec shifts[2] = {shift, shift};
    for (int n = 0; n < 2; ++n) weight[n] = max(floor, sub(load(scores + j + n * kLanes), safe));
    to_weights(weight, shifts);
    for (int n = 0; n < 2; ++n) store(scores + j + n * kLanes, weight[n]);
  }
}

// Four sums of `width` weights, a multiple of kPanel, because one addition waits for the last. look(position, weight,
// which sum) sees each vector on the way.
template <class Look>
inline __attribute__((always_inline)) Vec sum_of_weights(const float* weights, int width, const Look& look) {
  Vec sums[4] = {zero(), zero(), zero(), zero()};
  const auto add_panels = [&]<int kVectors>(int first) __attribute__((always_inline)) {
#pragma GCC unroll 4
    for (int n = 0; n < kVectors; ++n) {
      const Vec weight = load(weights + first + n * kLanes);
      look(first + n * kLanes, weight, n);
      sums[n] = add(sums[n], weight);
    }
  };
  int j = 0;
  for (; j + 2 * kPanel <= width; j += 2 * kPanel) add_panels.template operator()<4>(j);
  if (j < width) add_panels.template operator()<2>(j);
  return add(add(sums[0], sums[2]), add(sums[1], sums[3]));
}

inline Vec sum_of_weights(const float* weights, int width) {
  return sum_of_weights(
      weights, width, [](int, Vec, int) {});
}

// Adds a row's weights on a block to its sums; `width` positions, a multiple of kPanel. `outside_windows`: none of them
// is a window entry, and the block lies in the current segment. The scores hold `start` of the segments' value.
template <class Numbers, bool kStatistics>
inline void add_weights(ForwardTask<Numbers>& task, int width, int tile_row, int row, bool outside_windows,
                        float start) {
  ForwardScratch<Numbers>& s = task.scratch;
  const float* weights = s.strip + tile_row * kForwardKeys;
  const auto add_to = [&](float* sums, Vec sum) { store(sums + row * kLanes, add(load(sums + row * kLanes), sum)); };
  if constexpr (!kStatistics) {
    add_to(s.sums, sum_of_weights(weights, width));
  } else {
    // The sum in the same order as without statistics, so that the output keeps its bits. With it, 13 of 16 registers.
    Vec squares[4] = {zero(), zero(), zero(), zero()}, moments[4] = {zero(), zero(), zero(), zero()}, largest = zero();
    const float* scores = s.scores + tile_row * kForwardKeys;
    const Vec sum = sum_of_weights(
        weights, width, [&](int at, Vec weight, int lane) __attribute__((always_inline)) {
          squares[lane] = fma(weight, weight, squares[lane]);
          moments[lane] = fma(weight, load(scores + at), moments[lane]);
          largest = max(largest, weight);
        });
    add_to(s.sums, sum);
    add_to(s.squares, add(add(squares[0], squares[2]), add(squares[1], squares[3])));
    add_to(s.moments, fma(sum, broadcast(start == kNegativeInfinity ? 0.0f : -start),
                          add(add(moments[0], moments[2]), add(moments[1], moments[3]))));
    float* to = s.largest + row * kLanes;
    store(to, max(load(to), largest));
    if (outside_windows) add_to(s.outside, sum);
  }
}

// Keys with z > -inf of a block, for each of `count` rows.
template <class Numbers>
inline void count_keys(ForwardTask<Numbers>& task, int row, int count, const BlockBias& bias) {
  for (int i = 0; i < count; ++i)
    if (bias.shift[i] != kNegativeInfinity) task.scratch.keys_left[row + i] += bias.kept[i] - bias.removed[i];
}

// Takes the tile's window weights out of the strip, which is used up.
template <class Numbers>
inline void take_windows(ForwardTask<Numbers>& task, Stretches windows) {
  if (task.job.side_entries == 0) return;
  const std::int64_t base = task.entry_offsets()[0];
  for (const WindowStretch& stretch : windows) {
    float* from = task.scratch.strip + stretch.offset;
    const Vec all = load(from), taken = first_of(all, stretch.count);
    store_first(task.scratch.window_weights + stretch.entry - base, taken, stretch.count);
    store(from, sub(all, taken));
  }
}

// Adds a row's weights outside the windows to the sums of its segments.
template <class Numbers>
inline void add_outside(ForwardTask<Numbers>& task, const KeyBlock& block, int row, const float* weights) {
  ForwardScratch<Numbers>& s = task.scratch;
  if (block.span_count <= 1) {
    float* outside = s.outside + row * kLanes;
    store(outside, add(load(outside), sum_of_weights(weights, round_up(block.length, kPanel))));
    return;
  }
  float* sums = s.segment_sums + row * segment_count(task.problem);
  for (int k = 0; k < block.span_count; ++k) {
    const SegmentSpan& span = task.plan.spans[block.first_span + k];
    Vec sum = zero();
    for (int i = 0; i < span.count; i += kLanes)
      sum = add(sum, first_of(load(weights + span.position + i), span.count - i));
    sums[span.segment] += sum_of(sum);
  }
}

// Moves the sums outside windows to the segment that ends here, before a block of another one (or of several) begins.
template <class Numbers>
inline void change_segment(ForwardTask<Numbers>& task, const KeyBlock* next) {
  const int segment = next == nullptr || next->span_count != 1 ? -1 : task.plan.spans[next->first_span].segment;
  const bool unsegmented = next != nullptr && next->span_count == 0;
  if (unsegmented || (segment >= 0 && segment == task.segment)) return;
  ForwardScratch<Numbers>& s = task.scratch;
  const std::int64_t segments = segment_count(task.problem);
  for (int row = 0; row < task.rows; ++row) {
    float* outside = s.outside + row * kLanes;
    if (task.segment >= 0) s.segment_sums[row * segments + task.segment] += sum_of(load(outside));
    store(outside, zero());
  }
  task.segment = segment;
}

}  // namespace
}  // namespace camber::kernels
