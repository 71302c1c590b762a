#pragma once
#include "kernels/statistics.h"

// One register tile of queries against one block of keys: scores, bias, weights, sum over values.
//
// Two ways to the weights:
//   direct   the weights 2^(z - reference) are taken from the score tile while it is still in registers. It needs an
//            upper bound of z: |q| |k| + bias <= reference + kHeadroom, and no blocked mask. Windows, and segments
//            that differ within the block, come afterwards as factors.
//   general  the scores go to the strip, masks are applied, the row's reference rises to its largest score.
// A row's first block is direct with the reference 0 where the bound allows it and the weights did not become too
// small. The choice is made for a tile of rows that begins at a multiple of kTileRows, so that it does not depend on
// how rows are dealt to tasks.
namespace camber::kernels {
namespace {

inline constexpr float kHeadroom = 50.0f;          // weights stay below 2^50, their squares summed below 2^127
inline constexpr float kSmallestStart = 0x1p-30f;  // sum of weights with which the reference 0 is kept

// The largest segment value of each row on the block. Segments of value 0 (a router before its first step) go the way
// that no segments go, and give the same bits.
template <class Numbers, int M>
inline void find_shifts(const ForwardTask<Numbers>& task, const KeyBlock& block, int row, BlockBias& bias) {
  bias.one_value = true;
  bias.removed_segment = false;
  for (int i = 0; i < M; ++i) bias.shift[i] = 0;
  if (block.span_count == 0 || task.problem.segments.value == nullptr) return;
  for (int i = 0; i < M && row + i < task.rows; ++i) {
    const float* values = task.segments_of(row + i);
    const auto value_of = [&](int span) {
      return in_log2(values[task.plan.spans[block.first_span + span].segment], task.without_bias);
    };
    const float first = value_of(0);
    float largest = first;
    bool removed = first == kNegativeInfinity, several = false;
    for (int k = 1; k < block.span_count; ++k) {
      const float value = value_of(k);
      several = several || value != first;
      removed = removed || value == kNegativeInfinity;
      largest = value > largest || largest != largest ? value : largest;  // NaN only where every value is
    }
    bias.shift[i] = largest;
    bias.one_value = bias.one_value && !several;
    bias.removed_segment = bias.removed_segment || (several && removed);
  }
}

// 0. Which positions each row sees.
template <class Numbers, bool kStatistics, int M>
inline void find_kept(const ForwardTask<Numbers>& task, const KeyBlock& block, int row, BlockBias& bias) {
  bias.seen = 0;
  for (int i = 0; i < M; ++i) {
    bias.kept[i] = block.length;
    if (task.problem.row_lengths.data != nullptr)
      bias.kept[i] =
          row + i >= task.rows
              ? 0
              : positions_before(task.plan, block, row_end(task.problem, task.batch, task.first_query + row + i));
    bias.seen = bias.kept[i] > bias.seen ? bias.kept[i] : bias.seen;
  }
  bias.width = round_up(kStatistics ? block.length : bias.seen, kPanel);
}

// At least every window value of the tile on this block. Exact where the tile's largest would cost the direct way.
template <class Numbers>
inline float highest_window(const ForwardTask<Numbers>& task, std::int64_t tile, const Stretches& windows) {
  if (windows.empty() || task.without_bias) return 0;
  const float largest = largest_window(task.job.windows, task.problem.windows, task.head, tile);
  if (largest <= kHeadroom / 4) return largest;
  Vec highest = zero();
  for (const WindowStretch& stretch : windows) highest = max_number(highest, stretch_values(windows, stretch, false));
  return max_of(highest);
}

// 1. What the tile's bias is: the mask goes to the strip, of windows and segments the bounds are found.
template <class Numbers, int M>
inline void find_bias(ForwardTask<Numbers>& task, const KeyBlock& block, int row, BlockBias& bias) {
  const std::int64_t tile = task.first_tile + row / kTileRows;
  const WindowPlan& plan = task.job.windows;
  bias.windows = stretches_of(plan, task.problem.windows, task.head, tile, &block - task.plan.blocks);
  prefetch_behind(bias.windows);
  find_shifts<Numbers, M>(task, block, row, bias);
  bias.masked = task.laid() && task.masks.blocked == nullptr;
  const std::int64_t query = task.first_query + row;
  const float* mask = task.masks.mask == nullptr ? nullptr : task.masks.mask + query * task.masks.mask_row;
  const float highest_mask =
      bias.masked ? lay_tile_mask<M, kForwardKeys>(task.problem, task.head, query, mask, task.rows - row,
                                                   task.rows - row - M, task.plan, block, task.scratch.strip)
                  : 0.0f;
  bias.highest_window = highest_window(task, tile, bias.windows);
  bias.highest = highest_mask + bias.highest_window;
}

// The keys that a row sees and windows or the mask remove, each counted once.
template <class Numbers, int M>
inline void count_removed(const ForwardTask<Numbers>& task, BlockBias& bias) {
  const float* strip = task.scratch.strip;
  for (int i = 0; i < M; ++i) {
    bias.removed[i] = 0;
    for (int j = 0; bias.masked && j < bias.kept[i]; j += kLanes)
      bias.removed[i] += count_equal(first_of(load(strip + i * kForwardKeys + j), bias.kept[i] - j), kNegativeInfinity);
  }
  for (const WindowStretch& stretch : bias.windows) {
    const int left = bias.kept[stretch.offset / kForwardKeys] - stretch.offset % kForwardKeys;
    if (left <= 0) continue;
    const Vec value = first_of(stretch_values(bias.windows, stretch, true), left);
    const int twice = bias.masked ? count_equal(max(value, load(strip + stretch.offset)), kNegativeInfinity) : 0;
    bias.removed[stretch.offset / kForwardKeys] += count_equal(value, kNegativeInfinity) - twice;
  }
}

// 2. Whether the weights may be taken directly. A row that has no reference yet would have 0.
template <class Numbers, int M>
inline bool direct(const ForwardTask<Numbers>& task, int row, BlockBias& bias) {
  if ((task.laid() && !bias.masked) || task.masks.blocked != nullptr) return false;
  if (bias.removed_segment) return false;
  bool every = bias.highest_window <= kLargestFactor;
  for (int i = 0; i < M; ++i) {
    const float before = task.scratch.reference[row + i], norm = task.scratch.norms[row + i];
    const float reference = before == kNegativeInfinity ? 0.0f : before;
    const float bound = norm * task.key_norm + bias.highest + bias.shift[i];
    const float shift = bias.shift[i];
    bias.whole[i] = shift < kLargestReference && shift > -kLargestReference ? __builtin_rintf(shift) : 0.0f;
    bias.start[i] = shift - bias.whole[i];
    const float base = reference - bias.whole[i];
    const bool usable = base < kLargestReference && base > -kLargestReference;
    // A NaN query or segment value has NaN weights on either way; its neighbours shall not change by a bit.
    every = every && ((usable && bound <= reference + kHeadroom) || norm != norm || shift != shift);
    const float exponent = usable ? base : 0.0f;  // a row of NaN may have none yet: removed keys still weigh 0
    bias.floor[i] = kSmallestExponent + exponent;
    bias.rounding[i] = kRoundingShift - exponent;
  }
  return every;
}

// The mask added to scores; its -inf wins even over a NaN score, so that a blocked key never leaks.
inline __attribute__((always_inline)) Vec add_masked(Vec score, Vec mask) {
  return where_equal(mask, kNegativeInfinity, mask, add(score, mask));
}

// Row i of a tile of sums starts at a small value, where that needs no scaling.
template <class Numbers, int M>
inline __attribute__((always_inline)) void start_scores(Sums<M, 2>& sums, const float* start) {
  if constexpr (Numbers::kPerWord > 1)
    clear(sums);
  else
    start_at(sums, start);
}

template <class Numbers>
inline __attribute__((always_inline)) Vec finished_score(Vec sum, float scale, float start) {
  if constexpr (Numbers::kPerWord > 1) return fma(sum, broadcast(scale), broadcast(start));
  return sum;
}

// The same where the value is added at the end.
template <class Numbers>
inline Vec shifted_score(Vec sum, float scale, float shift) {
  if constexpr (Numbers::kPerWord > 1) return fma(sum, broadcast(scale), broadcast(shift));
  return add(sum, broadcast(shift));
}

// 3a. Direct: score sums to weights, in the strip. Row by row: more at a time would not fit the registers.
template <class Numbers, bool kMasked, bool kStatistics, int M>
inline __attribute__((always_inline)) void store_weights(const Sums<M, 2>& sums, float scale, const BlockBias& bias,
                                                         float* strip, float* scores) {
#pragma GCC unroll 16
  for (int i = 0; i < M; ++i) {
    Vec weight[2];
    const Vec floor = broadcast(bias.floor[i]), rounding = broadcast(bias.rounding[i]),
              shifts[2] = {rounding, rounding};
#pragma GCC unroll 2
    for (int n = 0; n < 2; ++n) {
      Vec z = finished_score<Numbers>(sums.at[i][n], scale, bias.start[i]);
      if constexpr (kMasked) z = add_masked(z, load(strip + i * kForwardKeys + n * kLanes));
      weight[n] = max(floor, z);
      if constexpr (kStatistics) store(scores + i * kForwardKeys + n * kLanes, weight[n]);
    }
    to_weights(weight, shifts);
#pragma GCC unroll 2
    for (int n = 0; n < 2; ++n) store(strip + i * kForwardKeys + n * kLanes, weight[n]);
  }
}

// Not inlined: in a large function the compiler would keep the sums in memory.
template <class Numbers, bool kMasked, bool kStatistics, int M>
__attribute__((noinline)) void direct_weights(const ForwardTask<Numbers>& task, int row, const BlockBias& bias) {
  const auto* query = task.scratch.query_tiles + row * task.words;
  const auto* keys = task.scratch.keys;
  float *strip = task.scratch.strip, *scores = task.scratch.scores;
  const int panels = bias.width / kPanel;
  for (int panel = 0; panel < panels; ++panel, keys += task.words * kPanel, strip += kPanel, scores += kPanel) {
    Sums<M, 2> sums;
    start_scores<Numbers>(sums, bias.start);
    multiply<Numbers, 1, kTileRows>(sums, query, keys, task.words);
    store_weights<Numbers, kMasked, kStatistics>(sums, task.tile_scale, bias, strip, scores);
  }
}

// 3b. Direct: what differs from the tile's bias, as factors on the weights: 2^(z + b) = 2^z * 2^b. Few keys have a
// window, so that this costs less than a bias on all scores.
inline __attribute__((always_inline)) void scale_weights(float* weights, Vec exponent, int count) {
  store_first(weights, scaled_weight(load(weights), exponent), count);
}

// Rows whose segment is removed: a NaN key gave NaN scores even so.
template <class Numbers, bool kStatistics, int M>
inline void clear_removed_rows(const ForwardTask<Numbers>& task, const KeyBlock& block, const BlockBias& bias) {
  for (int i = 0; i < M; ++i) {
    if (bias.shift[i] != kNegativeInfinity) continue;
    for (int j = i * kForwardKeys; j < i * kForwardKeys + block.length; j += kLanes) {
      store(task.scratch.strip + j, zero());
      if constexpr (kStatistics) store(task.scratch.scores + j, broadcast(bias.floor[i]));
    }
  }
}

// The scores of keys that windows remove: that of a NaN key would be NaN even times a weight of 0.
template <class Numbers>
inline void clear_removed_scores(const ForwardTask<Numbers>& task, const BlockBias& bias) {
  for (const WindowStretch& stretch : bias.windows) {
    const int row = stretch.offset / kForwardKeys;
    if (bias.removed[row] == 0) continue;
    float* scores = task.scratch.scores + stretch.offset;
    const Vec value = stretch_values(bias.windows, stretch, true);
    store(scores, where_equal(value, kNegativeInfinity, broadcast(bias.floor[row]), load(scores)));
  }
}

// Positions that a row does not see, and those behind the block's last, weigh nothing.
template <class Numbers, bool kStatistics, int M>
inline void clear_unseen(const ForwardTask<Numbers>& task, const BlockBias& bias) {
  for (int i = 0; i < M; ++i)
    for (int j = bias.kept[i]; j < bias.width; ++j) {
      task.scratch.strip[i * kForwardKeys + j] = 0;
      if constexpr (kStatistics) task.scratch.scores[i * kForwardKeys + j] = bias.floor[i];
    }
}

// Gives the rows that start here the reference 0, unless one of them has keys and hardly any weight.
template <class Numbers, int M>
inline bool start_direct(ForwardTask<Numbers>& task, int row, const BlockBias& bias) {
  for (int i = 0; i < M; ++i) {
    if (task.scratch.reference[row + i] != kNegativeInfinity || bias.kept[i] == 0) continue;
    if (sum_of(sum_of_weights(task.scratch.strip + i * kForwardKeys, bias.width)) < kSmallestStart) return false;
  }
  for (int i = 0; i < M; ++i)
    if (task.scratch.reference[row + i] == kNegativeInfinity &&
        task.scratch.norms[row + i] == task.scratch.norms[row + i])
      task.scratch.reference[row + i] = 0;
  return true;
}

template <class Numbers, int M>
inline void scale_by_bias(const ForwardTask<Numbers>& task, const KeyBlock& block, int row, const BlockBias& bias) {
  // Lanes beyond a stretch are 0: they scale by 1, in this row or at the head of the next one.
  for (const WindowStretch& stretch : bias.windows)
    scale_weights(task.scratch.strip + stretch.offset, stretch_values(bias.windows, stretch, task.without_bias),
                  kLanes);
  if (bias.one_value) return;
  for (int i = 0; i < M && row + i < task.rows; ++i) {
    const float* values = task.segments_of(row + i);
    for (int k = 0; k < block.span_count; ++k) {
      const SegmentSpan& span = task.plan.spans[block.first_span + k];
      const float value = in_log2(values[span.segment], task.without_bias);
      for (int j = 0; value != bias.shift[i] && j < span.count; j += kLanes)
        scale_weights(task.scratch.strip + i * kForwardKeys + span.position + j, broadcast(value - bias.shift[i]),
                      span.count - j);
    }
  }
}

// 3c. General: scores to the strip.
template <class Numbers, int M>
inline void general_scores(ForwardTask<Numbers>& task, const KeyBlock& block, int row, BlockBias& bias) {
  const auto* query = task.scratch.query_tiles + row * task.words;
  const auto* keys = task.scratch.keys;
  const int panels = bias.width / kPanel;
  for (int i = 0; i < M && !bias.one_value; ++i) bias.shift[i] = 0;
  for (int panel = 0; panel < panels; ++panel, keys += task.words * kPanel) {
    Sums<M, 2> sums;
    clear(sums);
    multiply<Numbers, 1, kTileRows>(sums, query, keys, task.words);
    for (int i = 0; i < M; ++i)
      for (int n = 0; n < 2; ++n) {
        float* to = task.scratch.strip + i * kForwardKeys + panel * kPanel + n * kLanes;
        const Vec z = shifted_score<Numbers>(sums.at[i][n], task.tile_scale, bias.shift[i]);
        store(to, bias.masked ? add_masked(z, load(to)) : z);
      }
  }
  for (const WindowStretch& stretch : bias.windows) {
    float* to = task.scratch.strip + stretch.offset;
    store(to, add_bias(load(to), stretch_values(bias.windows, stretch, task.without_bias)));
  }
  for (int i = 0; i < M && row + i < task.rows; ++i) {
    float* scores = task.scratch.strip + i * kForwardKeys;
    const std::int64_t query_row = task.first_query + row + i;
    if (!bias.one_value) add_segments(task.segments_of(row + i), task.without_bias, task.plan, block, scores);
    if (!bias.masked) add_table(task.problem, task.head, query_row, task.plan, block, scores);
    if (task.masks.mask != nullptr && !bias.masked)
      add_mask(task.masks.mask + query_row * task.masks.mask_row, task.plan, block, scores);
    if (task.masks.blocked != nullptr)
      apply_blocked(task.masks.blocked + query_row * task.masks.blocked_row, task.plan, block, scores);
  }
  for (int i = 0; i < M; ++i) {
    const int kept = bias.shift[i] == kNegativeInfinity ? 0 : bias.kept[i];
    for (int j = kept; j < panels * kPanel; ++j) task.scratch.strip[i * kForwardKeys + j] = kNegativeInfinity;
  }
}

// Takes what windows and segments added to the scores of a tile out of its rows' sums of weight * score.
template <class Numbers>
inline void take_bias_out(const ForwardTask<Numbers>& task, const KeyBlock& block, int row, int rows,
                          const BlockBias& bias) {
  const ForwardScratch<Numbers>& s = task.scratch;
  const auto take = [&](int offset, int count, Vec value) {
    float* moments = s.moments + (row + offset / kForwardKeys) * kLanes;
    const Vec finite = where_equal(value, kNegativeInfinity, zero(), value);
    store(moments, sub(load(moments), mul(first_of(load(s.strip + offset), count), finite)));
  };
  for (const WindowStretch& stretch : bias.windows)
    take(stretch.offset, stretch.count, stretch_values(bias.windows, stretch, task.without_bias));
  for (int i = 0; i < rows; ++i) {
    const float* values = task.segments_of(row + i);
    for (int k = 0; values != nullptr && k < block.span_count; ++k) {
      const SegmentSpan& span = task.plan.spans[block.first_span + k];
      const Vec value = broadcast(in_log2(values[span.segment], task.without_bias));
      for (int j = 0; j < span.count; j += kLanes) take(i * kForwardKeys + span.position + j, span.count - j, value);
    }
  }
}

// 4. General: the row's reference rises to its largest score, what was summed so far shrinks by a power of two.
template <class Numbers, bool kStatistics>
inline void general_weights_row(ForwardTask<Numbers>& task, int width, int tile_row, int row) {
  float* scores = task.scratch.strip + tile_row * kForwardKeys;
  ForwardScratch<Numbers>& s = task.scratch;
  const float before = s.reference[row], reference = raised_reference(scores, width, before);
  if (reference > before) {
    s.reference[row] = reference;
    const Vec factor = exp2(broadcast(before - reference));
    const auto shrink = [&](float* at, int count) {
      for (int d = 0; d < count; d += kLanes) store(at + d, mul(load(at + d), factor));
    };
    shrink(s.outputs + row * task.value_stride, task.value_stride);
    shrink(s.sums + row * kLanes, kLanes);
    if constexpr (kStatistics) rescale_statistics(task, row, factor);
  }
  if constexpr (kStatistics) {
    const Vec lowest = broadcast(kSmallestExponent + (reference == kNegativeInfinity ? 0.0f : reference));
    for (int j = 0; j < width; j += kLanes) {
      const Vec z = load(scores + j);
      store(s.scores + tile_row * kForwardKeys + j, max(lowest, z));
      s.keys_left[row] += kLanes - count_equal(z, kNegativeInfinity);
    }
  }
  scores_to_weights(scores, width, reference);
}

}  // namespace
}  // namespace camber::kernels
