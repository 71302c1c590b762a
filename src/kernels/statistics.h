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

// `width` is a multiple of kPanel. Four sums, because one addition waits for the last.
inline Vec sum_of_weights(const float* weights, int width) {
  Vec a = load(weights), b = load(weights + kLanes), c = zero(), d = zero();
  int j = kPanel;
  for (; j + 2 * kPanel <= width; j += 2 * kPanel) {
    a = add(a, load(weights + j));
    b = add(b, load(weights + j + kLanes));
    c = add(c, load(weights + j + kPanel));
    d = add(d, load(weights + j + kPanel + kLanes));
  }
  if (j < width) {
    a = add(a, load(weights + j));
    b = add(b, load(weights + j + kLanes));
  }
  return add(add(a, c), add(b, d));
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
  Vec squares[2] = {zero(), zero()}, largest[2] = {zero(), zero()};
  for (int j = 0; j < width; j += kPanel)
#pragma GCC unroll 2
    for (int n = 0; n < 2; ++n) {
      const Vec weight = load(weights + j + n * kLanes);
      squares[n] = fma(weight, weight, squares[n]);
      largest[n] = max(largest[n], weight);
    }
  // The same additions as without statistics: watching a run must not change its bits.
  const Vec total = sum_of_weights(weights, width);
  store(to, add(load(to), total));
  to = s.squares + row * kLanes;
  store(to, add(load(to), add(squares[0], squares[1])));
  to = s.largest + row * kLanes;
  store(to, max(load(to), max(largest[0], largest[1])));
  return sum_of(total);
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
