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
  bool biased;                     // any bias at all; else only shift (all 0), highest and touched (0) are set
  bool windowed;                   // some row has window entries; else first_entry is not set
  bool masked;                     // the strip holds the float mask too, in all panels
  unsigned touched;                // panels whose part of the strip holds segment value + window values
  bool one_value;                  // the block's segments have one value in every row, 0 without segments
  float shift[kTileRows];          // that value, else 0
  float rows[kTileRows * kPanel];  // the same, a panel wide
  float highest;                   // at least every window value, at least 0
  float floor[kTileRows];          // what to_weights needs of the reference
  float rounding[kTileRows];
  std::int64_t first_entry[kTileRows];  // the block's window entries: from here to the row's cursor
  int removed[kTileRows];               // keys that windows or the mask remove (counted for statistics only)
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
  for (std::int64_t e = offsets[row]; e < s.cursors[row].next; ++e) s.window_weights[e - offsets[0]] *= by;
}

// The sum of `width` weights, a multiple of kPanel, each seen by look(weights, which of the four sums) on the way. Four
// sums, because one addition waits for the last.
template <class Look>
inline __attribute__((always_inline)) Vec sum_of_weights(const float* weights, int width, const Look& look) {
  Vec sums[4] = {zero(), zero(), zero(), zero()};
  const auto add_panels = [&]<int kVectors>(int first) __attribute__((always_inline)) {
#pragma GCC unroll 4
    for (int n = 0; n < kVectors; ++n) {
      const Vec weight = load(weights + first + n * kLanes);
      look(weight, n);
      sums[n] = add(sums[n], weight);
    }
  };
  int j = 0;
  for (; j + 2 * kPanel <= width; j += 2 * kPanel) add_panels.template operator()<4>(j);
  if (j < width) add_panels.template operator()<2>(j);
  return add(add(sums[0], sums[2]), add(sums[1], sums[3]));
}

inline Vec sum_of_weights(const float* weights, int width) {
  return sum_of_weights(weights, width, [](Vec, int) {});
}

// Adds a row's weights on a block to its sums; `width` positions, a multiple of kPanel. `outside_windows`: none of them
// is a window entry, and the block lies in the current segment.
template <class Numbers, bool kStatistics>
inline void add_weights(ForwardTask<Numbers>& task, const float* weights, int width, int row, bool outside_windows) {
  ForwardScratch<Numbers>& s = task.scratch;
  const auto add_to = [&](float* sums, Vec sum) { store(sums + row * kLanes, add(load(sums + row * kLanes), sum)); };
  if constexpr (!kStatistics) {
    add_to(s.sums, sum_of_weights(weights, width));
  } else {
    // The sum in the same order as without statistics, so that the output keeps its bits.
    Vec squares[4] = {zero(), zero(), zero(), zero()}, largest[4] = {zero(), zero(), zero(), zero()};
    const Vec sum = sum_of_weights(
        weights, width, [&](Vec weight, int lane) __attribute__((always_inline)) {
          squares[lane] = fma(weight, weight, squares[lane]);
          largest[lane] = max(largest[lane], weight);
        });
    add_to(s.sums, sum);
    add_to(s.squares, add(add(squares[0], squares[2]), add(squares[1], squares[3])));
    float* to = s.largest + row * kLanes;
    store(to, max(load(to), max(max(largest[0], largest[2]), max(largest[1], largest[3]))));
    if (outside_windows) add_to(s.outside, sum);
  }
}

// Keys with z > -inf of a block without masks, for each of `count` rows.
template <class Numbers>
inline void count_keys(ForwardTask<Numbers>& task, const KeyBlock& block, int row, int count, const BlockBias& bias) {
  for (int i = 0; i < count; ++i)
    if (bias.shift[i] != kNegativeInfinity)
      task.scratch.keys_left[row + i] += block.length - (bias.windowed || bias.masked ? bias.removed[i] : 0);
}

// Takes a row's window weights out of the strip (which is used up) and adds the rest to the sums of its segments.
template <class Numbers>
inline void collect_windows(ForwardTask<Numbers>& task, const KeyBlock& block, int row, std::int64_t first_entry,
                            float* weights) {
  ForwardScratch<Numbers>& s = task.scratch;
  if (task.job.side_entries > 0 && first_entry < s.cursors[row].next) {
    WindowCursor entries = window_cursor(task.problem.windows.key_index, first_entry, s.cursors[row].next);
    const std::int64_t base = task.entry_offsets()[0];
    for_window_runs(task.problem.windows.key_index, entries, task.plan, block,
                    [&](int position, std::int64_t entry, int count) {
                      const Vec all = load(weights + position), taken = first_of(all, count);
                      float* to = s.window_weights + entry - base;
                      // Within the row a whole vector is quicker: what it spills over is written later.
                      if (entry + kLanes <= s.cursors[row].end)
                        store(to, taken);
                      else
                        store_first(to, taken, count);
                      store(weights + position, sub(all, taken));
                    });
  }
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
