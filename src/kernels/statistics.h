#pragma once
#include "kernels/forward_state.h"

// Row statistics from the weights of the pass itself. Sums are relative to the row's reference until the row is done.
//
// Outside the windows the bias is constant in a segment, so that there p is proportional to p0: half of sum |p - p0| and
// E_p[b] need one sum a segment, and the window entries one by one (window_weights).
namespace camber::kernels {
namespace {

// The bias of a tile of rows on one block.
struct BlockBias {
  unsigned touched = 0;                      // panels whose part of the strip holds shift + window values
  bool shifted = false;                      // some row has a segment value
  float shift[kTileRows] = {};               // the segment value, where the block lies in one segment
  float highest[kTileRows] = {};             // at least every window value, at least 0
  float floor[kTileRows];                    // what to_weights needs of the reference
  float rounding[kTileRows];
  std::int64_t first_entry[kTileRows] = {};  // the block's window entries: from here to the row's cursor
};

// The sums so far of a row whose reference rose: they shrink by a power of two.
template <class Numbers>
inline void rescale_statistics(ForwardTask<Numbers>& task, int row, Vec factor) {
  ForwardScratch<Numbers>& s = task.scratch;
  const auto shrink = [&](float* sums, Vec by) { store(sums, mul(load(sums), by)); };
  shrink(s.moments + row * kLanes, factor);
  shrink(s.squares + row * kLanes, mul(factor, factor));
  shrink(s.largest + row * kLanes, factor);
  const float by = max_of(factor);
  const std::int64_t segments = segment_count(task.problem);
  for (std::int64_t k = 0; k < segments; ++k) s.segment_sums[row * segments + k] *= by;
  if (task.job.side_entries == 0 || row >= task.rows) return;
  const std::int64_t* offsets = task.entry_offsets();
  for (std::int64_t e = offsets[row]; e < s.cursors[row].next; ++e) s.window_weights[e - offsets[0]] *= by;
}

// The sum of `width` weights, a multiple of kPanel, each seen by look(weights) on the way. Four sums, because one addition
// waits for the last.
template <class Look>
inline __attribute__((always_inline)) Vec sum_of_weights(const float* weights, int width, const Look& look) {
  Vec sums[4] = {look(load(weights)), look(load(weights + kLanes)), zero(), zero()};
  int j = kPanel;
  for (; j + 2 * kPanel <= width; j += 2 * kPanel)
#pragma GCC unroll 4
    for (int n = 0; n < 4; ++n) sums[n] = add(sums[n], look(load(weights + j + n * kLanes)));
  if (j < width) {
    sums[0] = add(sums[0], look(load(weights + j)));
    sums[1] = add(sums[1], look(load(weights + j + kLanes)));
  }
  return add(add(sums[0], sums[2]), add(sums[1], sums[3]));
}

inline Vec sum_of_weights(const float* weights, int width) {
  return sum_of_weights(weights, width, [](Vec weight) { return weight; });
}

// Adds a row's weights on a block to its sums; `width` positions, a multiple of kPanel.
template <class Numbers, bool kStatistics>
inline float add_weights(ForwardTask<Numbers>& task, const float* weights, int width, int row) {
  ForwardScratch<Numbers>& s = task.scratch;
  float* to = s.sums + row * kLanes;
  if constexpr (!kStatistics) {
    store(to, add(load(to), sum_of_weights(weights, width)));
    return 0;
  }
  // The sum in the same order as without statistics, so that the output keeps its bits.
  Vec squares = zero(), largest = zero();
  const auto look = [&](Vec weight) {
    squares = fma(weight, weight, squares);
    largest = max(largest, weight);
    return weight;
  };
  const Vec sum = sum_of_weights(weights, width, look);
  store(to, add(load(to), sum));
  to = s.squares + row * kLanes;
  store(to, add(load(to), squares));
  to = s.largest + row * kLanes;
  store(to, max(load(to), largest));
  return sum_of(sum);
}

// Keys with z > -inf of a block without masks, for each of `count` rows.
template <class Numbers>
inline void count_keys(ForwardTask<Numbers>& task, const KeyBlock& block, int row, int count, const BlockBias& bias) {
  if (task.job.result.statistics.keys_left == nullptr) return;
  for (int i = 0; i < count && row + i < task.rows; ++i) {
    if (bias.shift[i] == kNegativeInfinity) continue;
    std::int64_t left = block.length;
    if (bias.touched != 0) {
      WindowCursor entries{bias.first_entry[i], task.scratch.cursors[row + i].next};
      for_window_runs(task.problem.windows.key_index, entries, task.plan, block,
                      [&](int, std::int64_t entry, int entry_count) {
                        left -= count_equal(load_first(task.window_value + entry, entry_count), kNegativeInfinity);
                      });
    }
    task.scratch.keys_left[row + i] += left;
  }
}

// Takes a row's window weights out of the strip (which is used up) and adds the rest to the segments' sums.
// `block_sum` is the sum of all its weights on the block.
template <class Numbers>
inline void collect_segments(ForwardTask<Numbers>& task, const KeyBlock& block, int row, std::int64_t first_entry,
                             float* weights, float block_sum) {
  ForwardScratch<Numbers>& s = task.scratch;
  WindowCursor entries{first_entry, s.cursors[row].next};
  const bool windows = task.job.side_entries > 0 && entries.next < entries.end;
  if (windows) {
    const std::int64_t base = task.entry_offsets()[0];
    for_window_runs(task.problem.windows.key_index, entries, task.plan, block,
                    [&](int position, std::int64_t entry, int count) {
                      const Vec all = load(weights + position), taken = first_of(all, count);
                      store_first(s.window_weights + entry - base, taken, count);
                      store(weights + position, sub(all, taken));
                    });
  }
  float* sums = s.segment_sums + row * segment_count(task.problem);
  if (block.span_count <= 1) {
    const int segment = block.span_count == 0 ? 0 : task.plan.spans[block.first_span].segment;
    sums[segment] += windows ? sum_of(sum_of_weights(weights, round_up(block.length, kPanel))) : block_sum;
    return;
  }
  for (int k = 0; k < block.span_count; ++k) {
    const SegmentSpan& span = task.plan.spans[block.first_span + k];
    Vec sum = zero();
    for (int i = 0; i < span.count; i += kLanes)
      sum = add(sum, first_of(load(weights + span.position + i), span.count - i));
    sums[span.segment] += sum_of(sum);
  }
}

}  // namespace
}  // namespace camber::kernels
