#pragma once
#include "kernels/statistics.h"

// One register tile of queries against one block of keys: scores, bias, weights, sum over values.
//
// Two ways to the weights:
//   direct   the weights 2^(z - reference) are taken from the score tile while it is still in registers. It needs an
//            upper bound of z: |q| |k| + bias <= reference + kHeadroom, and no blocked mask.
//   general  the scores go to the strip, masks are applied, the row's reference rises to its largest score.
// A row's first block is always general. The choice is made for a tile of rows that begins at a multiple of kTileRows,
// so that it does not depend on how rows are dealt to tasks.
namespace camber::kernels {
namespace {

inline constexpr float kHeadroom = 50.0f;               // weights stay below 2^50, their squares summed below 2^127
inline constexpr float kLargestReference = 2097152.0f;  // 2^21, where to_weights' integer arithmetic is exact

// The float mask of a tile's rows, with the segment's value, to all panels of the strip. Returns the mask's largest.
template <class Numbers, int M>
inline float lay_tile_mask(ForwardTask<Numbers>& task, const KeyBlock& block, int row, BlockBias& bias) {
  const std::int64_t stride = task.masks.mask_row;
  const float* mask = task.masks.mask + (task.first_query + row) * stride;
  const int left = task.rows - row - kTileRows;
  if (left > 0) prefetch_mask(mask + kTileRows * stride, stride, left < kTileRows ? left : kTileRows, block);
  Vec highest = zero();
  for (int i = 0; i < M; ++i) {
    float* to = task.scratch.strip + i * kForwardKeys;
    if (row + i < task.rows)
      lay_mask(mask + i * stride, bias.shift[i], task.plan, block, to, highest);
    else
      for (int j = 0; j < block.length; j += kLanes) store(to + j, zero());
  }
  bias.touched = ~0u;
  return max_of(highest);
}

// Whether the segments of a block have one value in each row of a tile. Segments of value 0 (a router before its first
// step) then go the way that no segments go, and give the same bits.
template <class Numbers, int M>
inline bool segments_agree(const ForwardTask<Numbers>& task, const KeyBlock& block, int row) {
  if (block.span_count <= 1 || task.problem.segments.value == nullptr) return true;
  for (int i = 0; i < M && row + i < task.rows; ++i) {
    const float* values = task.segments_of(row + i);
    const float first = values[task.plan.spans[block.first_span].segment];
    for (int k = 1; k < block.span_count; ++k)
      if (values[task.plan.spans[block.first_span + k].segment] != first) return false;
  }
  return true;
}

// 1. The bias of the tile: the segment's value in rows_bias, and where a panel has window entries or a mask, all of it
// in its part of the strip. Returns without either where there is none.
template <class Numbers, int M>
inline void lay_bias(ForwardTask<Numbers>& task, const KeyBlock& block, int row, BlockBias& bias) {
  ForwardScratch<Numbers>& s = task.scratch;
  const int tile = row / kTileRows;
  bias.one_value = segments_agree<Numbers, M>(task, block, row);
  const bool segment_values_here = bias.one_value && block.span_count > 0 && task.problem.segments.value != nullptr;
  bias.masked = task.masks.mask != nullptr && task.masks.blocked == nullptr && block.length % kPanel == 0;
  bias.windowed = task.window_value != nullptr && s.next_keys[tile] < block.end_key;
  bias.biased = bias.windowed || segment_values_here || bias.masked;
  bias.touched = 0;
  bias.highest = 0;
  for (int i = 0; i < M; ++i) bias.shift[i] = 0;
  if (task.window_value != nullptr && s.next_keys[tile + 1] < block.end_key)
    prefetch_entries(task.problem.windows.key_index, task.window_value, s.cursors + row + kTileRows, kTileRows, block);
  if (!bias.biased) return;
  if (segment_values_here) {
    const int segment = task.plan.spans[block.first_span].segment;
    for (int i = 0; i < M && row + i < task.rows; ++i)
      bias.shift[i] = in_log2(task.segments_of(row + i)[segment], task.without_bias);
  }
  const auto fill = [&](float* to, int stride) {
    for (int i = 0; i < M; ++i)
      for (int n = 0; n < 2; ++n) store(to + i * stride + n * kLanes, broadcast(bias.shift[i]));
  };
  fill(bias.rows, kPanel);
  if (bias.masked) bias.highest = lay_tile_mask<Numbers, M>(task, block, row, bias);
  for (int i = 0; i < M; ++i) bias.removed[i] = 0;
  const auto count_removed = [&] {
    if (!bias.masked || !task.job.statistics) return;
    for (int i = 0; i < M; ++i) {
      bias.removed[i] = 0;
      for (int j = 0; j < block.length; j += kLanes)
        bias.removed[i] += count_equal(load(s.strip + i * kForwardKeys + j), kNegativeInfinity);
    }
  };
  if (!bias.windowed) return count_removed();
  const auto touch = [&](int panel) {
    if ((bias.touched >> panel & 1u) != 0) return;
    bias.touched |= 1u << panel;
    fill(s.strip + panel * kPanel, kForwardKeys);
  };
  Vec highest = zero();
  for (int i = 0; i < M; ++i) {
    bias.first_entry[i] = s.cursors[row + i].next;
    for_window_runs(task.problem.windows.key_index, s.cursors[row + i], task.plan, block,
                    [&](int position, std::int64_t entry, int count) {
                      touch(position / kPanel);
                      touch((position + count - 1) / kPanel);
                      Vec value = mul(load_first(task.window_value + entry, count), broadcast(kLog2E));
                      if (task.without_bias) value = where_equal(value, kNegativeInfinity, value, zero());
                      // Lanes beyond count add 0, to this row or to the head of the next one.
                      float* to = s.strip + i * kForwardKeys + position;
                      store(to, add(load(to), value));
                      highest = max(highest, value);
                      if (task.job.statistics) bias.removed[i] += count_equal(value, kNegativeInfinity);
                    });
  }
  bias.highest += max_of(highest);
  count_removed();
  s.next_keys[tile] = first_key(s.cursors + row, M);
}

// 2. Whether the weights may be taken directly.
template <class Numbers, int M>
inline bool direct(const ForwardTask<Numbers>& task, const KeyBlock& block, int row, BlockBias& bias) {
  if ((task.masks.mask != nullptr && !bias.masked) || task.masks.blocked != nullptr) return false;
  if (!bias.one_value || block.length % kPanel != 0) return false;
  bool every = true;
  for (int i = 0; i < M; ++i) {
    const float reference = task.scratch.reference[row + i], norm = task.scratch.norms[row + i];
    const float bound = norm * task.key_norm + bias.highest + bias.shift[i];
    const bool fits = bound <= reference + kHeadroom && reference < kLargestReference && reference > -kLargestReference;
    // A NaN query has NaN weights on either way; its neighbours shall not change by a bit.
    every = every && (fits || norm != norm);
    bias.floor[i] = kSmallestExponent + reference;
    bias.rounding[i] = kRoundingShift - reference;
  }
  return every;
}

// The bias of one panel: its part of the strip, or that of all rows.
struct PanelBias {
  const float* at;
  int stride;
};

inline PanelBias bias_of_panel(const BlockBias& bias, const float* strip, int panel) {
  if ((bias.touched >> panel & 1u) != 0) return {strip + panel * kPanel, kForwardKeys};
  return {bias.rows, kPanel};
}

// The bias added to scores; a mask's -inf wins even over a NaN score, so that a blocked key never leaks.
template <bool kMasked>
inline __attribute__((always_inline)) Vec add_bias(Vec score, Vec bias) {
  if constexpr (!kMasked) return add(score, bias);
  return where_equal(bias, kNegativeInfinity, bias, add(score, bias));
}

enum class TileBias { none, windows, mask };

// 3a. Direct: score sums to weights, in the strip. Row by row: more at a time would not fit the registers.
template <class Numbers, TileBias kBias, bool kStatistics, int M>
inline __attribute__((always_inline)) void store_weights(const Sums<M, 2>& sums, const ForwardTask<Numbers>& task,
                                                         int row, const BlockBias& bias, PanelBias panel_bias,
                                                         float* strip) {
#pragma GCC unroll 16
  for (int i = 0; i < M; ++i) {
    Vec weight[2], score[2];
    const Vec floor = broadcast(bias.floor[i]), rounding = broadcast(bias.rounding[i]),
              shifts[2] = {rounding, rounding};
#pragma GCC unroll 2
    for (int n = 0; n < 2; ++n) {
      Vec z = sums.at[i][n];
      if constexpr (Numbers::kPerWord > 1) z = mul(z, broadcast(task.tile_scale));
      if constexpr (kBias != TileBias::none)
        z = add_bias<kBias == TileBias::mask>(z, load(panel_bias.at + i * panel_bias.stride + n * kLanes));
      weight[n] = score[n] = max(floor, z);
    }
    to_weights(weight, shifts);
#pragma GCC unroll 2
    for (int n = 0; n < 2; ++n) store(strip + i * kForwardKeys + n * kLanes, weight[n]);
    if constexpr (kStatistics) {
      float* moment = task.scratch.moments + (row + i) * kLanes;
      store(moment, fma(weight[1], score[1], fma(weight[0], score[0], load(moment))));
    }
  }
}

// Not inlined: in a large function the compiler would keep the sums in memory.
template <class Numbers, TileBias kBias, bool kStatistics, int M>
__attribute__((noinline)) void direct_weights(const ForwardTask<Numbers>& task, const KeyBlock& block, int row,
                                              const BlockBias& bias) {
  const auto* query = task.scratch.query_tiles + row * task.words;
  const auto* keys = task.scratch.keys;
  float* strip = task.scratch.strip;
  for (int panel = 0; panel < block.length / kPanel; ++panel, keys += task.words * kPanel) {
    Sums<M, 2> sums;
    clear(sums);
    multiply<Numbers, 1, kTileRows>(sums, query, keys, task.words);
    store_weights<Numbers, kBias, kStatistics>(sums, task, row, bias, bias_of_panel(bias, strip, panel),
                                               strip + panel * kPanel);
  }
}

// 3b. General: scores to the strip.
template <class Numbers, int M>
inline __attribute__((always_inline)) void store_scores(const Sums<M, 2>& sums, float scale, const BlockBias& bias,
                                                        PanelBias panel_bias, float* strip) {
#pragma GCC unroll 16
  for (int i = 0; i < M; ++i)
#pragma GCC unroll 2
    for (int n = 0; n < 2; ++n) {
      Vec z = sums.at[i][n];
      if constexpr (Numbers::kPerWord > 1) z = mul(z, broadcast(scale));
      if (bias.biased) z = add_bias<true>(z, load(panel_bias.at + i * panel_bias.stride + n * kLanes));
      store(strip + i * kForwardKeys + n * kLanes, z);
    }
}

template <class Numbers, int M>
inline void general_scores(ForwardTask<Numbers>& task, const KeyBlock& block, int row, const BlockBias& bias) {
  const auto* query = task.scratch.query_tiles + row * task.words;
  const auto* keys = task.scratch.keys;
  const int panels = round_up(block.length, kPanel) / kPanel;
  for (int panel = 0; panel < panels; ++panel, keys += task.words * kPanel) {
    Sums<M, 2> sums;
    clear(sums);
    multiply<Numbers, 1, kTileRows>(sums, query, keys, task.words);
    store_scores<Numbers>(sums, task.tile_scale, bias, bias_of_panel(bias, task.scratch.strip, panel),
                          task.scratch.strip + panel * kPanel);
  }
  for (int i = 0; i < M && row + i < task.rows; ++i) {
    float* scores = task.scratch.strip + i * kForwardKeys;
    const std::int64_t query_row = task.first_query + row + i;
    if (!bias.one_value) add_segments(task.segments_of(row + i), task.without_bias, task.plan, block, scores);
    if (task.masks.mask != nullptr && !bias.masked)
      add_mask(task.masks.mask + query_row * task.masks.mask_row, task.plan, block, scores);
    if (task.masks.blocked != nullptr)
      apply_blocked(task.masks.blocked + query_row * task.masks.blocked_row, task.plan, block, scores);
  }
  for (int i = 0; i < M; ++i)
    for (int j = block.length; j < panels * kPanel; ++j) task.scratch.strip[i * kForwardKeys + j] = kNegativeInfinity;
}

// 4. General: the row's reference rises to its largest score, what was summed so far shrinks by a power of two.
template <class Numbers, bool kStatistics>
inline void general_weights_row(ForwardTask<Numbers>& task, int width, int row, float* scores) {
  Vec a = load(scores), b = load(scores + kLanes);
  for (int j = kPanel; j < width; j += kPanel) {
    a = max(a, load(scores + j));
    b = max(b, load(scores + j + kLanes));
  }
  ForwardScratch<Numbers>& s = task.scratch;
  const float before = s.reference[row], highest = __builtin_ceilf(max_of(max(a, b)));
  const float reference = highest > before ? highest : before;
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
  // A row without any key so far keeps -inf; its scores stay -inf below this 0.
  const Vec safe = broadcast(reference == kNegativeInfinity ? 0.0f : reference);
  const Vec floor = broadcast(kSmallestExponent), shift = broadcast(kRoundingShift);
  for (int j = 0; j < width; j += kPanel) {
    Vec weight[2];
    const Vec shifts[2] = {shift, shift};
    for (int n = 0; n < 2; ++n) weight[n] = max(floor, sub(load(scores + j + n * kLanes), safe));
    to_weights(weight, shifts);
    if constexpr (kStatistics) {
      float* moment = s.moments + row * kLanes;
      for (int n = 0; n < 2; ++n) {
        const Vec z = load(scores + j + n * kLanes);
        store(moment, fma(weight[n], max(add(floor, safe), z), load(moment)));
        s.keys_left[row] += kLanes - count_equal(z, kNegativeInfinity);
      }
    }
    for (int n = 0; n < 2; ++n) store(scores + j + n * kLanes, weight[n]);
  }
}

}  // namespace
}  // namespace camber::kernels
