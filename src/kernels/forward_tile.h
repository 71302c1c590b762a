#pragma once
#include "kernels/statistics.h"

// One register tile of queries against one block of keys: scores, bias, weights, sum over values.
//
// Two ways to the weights:
//   direct   the weights 2^(z - reference) are taken from the score tile while it is still in registers. It needs an
//            upper bound of z: |q| |k| + bias <= reference + kHeadroom, and no mask.
//   general  the scores go to the strip, masks are applied, the row's reference rises to its largest score.
// A row's first block is always general. The choice is made for a tile of rows that begins at a multiple of kTileRows,
// so that it does not depend on how rows are dealt to tasks.
namespace camber::kernels {
namespace {

inline constexpr float kHeadroom = 50.0f;               // weights stay below 2^50, their squares summed below 2^127
inline constexpr float kLargestReference = 2097152.0f;   // 2^21, where to_weights' integer arithmetic is exact

enum class TileBias { none, row, entries };

// 1. Windows: each panel with an entry gets its part of the strip filled with the bias.
template <class Numbers, int M>
inline BlockBias lay_bias(ForwardTask<Numbers>& task, const KeyBlock& block, int row) {
  BlockBias bias;
  if (block.span_count == 1) {
    const int segment = task.plan.spans[block.first_span].segment;
    for (int i = 0; i < M && row + i < task.rows; ++i) {
      const float* values = task.segments_of(row + i);
      if (values == nullptr) break;
      bias.shift[i] = in_log2(values[segment], task.without_bias);
      bias.shifted = true;
    }
  }
  if (task.window_value == nullptr) return bias;
  float* strip = task.scratch.strip;
  const auto touch = [&](int panel) {
    if ((bias.touched >> panel & 1u) != 0) return;
    bias.touched |= 1u << panel;
    for (int i = 0; i < M; ++i)
      for (int n = 0; n < 2; ++n)
        store(strip + i * kForwardKeys + panel * kPanel + n * kLanes, broadcast(bias.shift[i]));
  };
  for (int i = 0; i < M && row + i < task.rows; ++i) {
    Vec highest = zero();
    bias.first_entry[i] = task.scratch.cursors[row + i].next;
    for_window_runs(task.problem.windows.key_index, task.scratch.cursors[row + i], task.plan, block,
                    [&](int position, std::int64_t entry, int count) {
                      touch(position / kPanel);
                      touch((position + count - 1) / kPanel);
                      Vec value = mul(load_first(task.window_value + entry, count), broadcast(kLog2E));
                      if (task.without_bias) value = where_equal(value, kNegativeInfinity, value, zero());
                      // Lanes beyond count add 0, to this row or to the head of the next one.
                      float* to = strip + i * kForwardKeys + position;
                      store(to, add(load(to), value));
                      highest = max(highest, value);
                    });
    bias.highest[i] = max_of(highest);
  }
  return bias;
}

// 2. Whether the weights may be taken directly.
template <class Numbers, int M>
inline bool direct(const ForwardTask<Numbers>& task, const KeyBlock& block, int row, BlockBias& bias) {
  if (task.masks.mask != nullptr || task.masks.blocked != nullptr) return false;
  const bool segments_differ = block.span_count > 1 && task.problem.segments.value != nullptr;
  if (segments_differ || block.length % kPanel != 0) return false;
  bool every = true;
  for (int i = 0; i < M; ++i) {
    const float reference = task.scratch.reference[row + i], norm = task.scratch.norms[row + i];
    const float bound = norm * task.key_norm + bias.highest[i] + bias.shift[i];
    const bool fits = bound <= reference + kHeadroom && reference < kLargestReference && reference > -kLargestReference;
    // A NaN query has NaN weights on either way; its neighbours shall not change by a bit.
    every = every && (fits || norm != norm);
    bias.floor[i] = kSmallestExponent + reference;
    bias.rounding[i] = kRoundingShift - reference;
  }
  return every;
}

template <TileBias kBias>
inline __attribute__((always_inline)) Vec biased(Vec score, const float* strip, float shift) {
  if constexpr (kBias == TileBias::row) return add(score, broadcast(shift));
  if constexpr (kBias == TileBias::entries) return add(score, load(strip));
  return score;
}

// 3a. Direct: score sums to weights, in the strip.
template <class Numbers, TileBias kBias, bool kStatistics, int M>
inline __attribute__((always_inline)) void store_weights(const Sums<M, 2>& sums, const ForwardTask<Numbers>& task,
                                                         int row, const BlockBias& bias, float* strip) {
  constexpr int kGroup = M % 3 == 0 ? 3 : 1;
#pragma GCC unroll 16
  for (int first = 0; first < M; first += kGroup) {
    Vec weight[2 * kGroup], shift[2 * kGroup], score[2 * kGroup];
#pragma GCC unroll 16
    for (int j = 0; j < 2 * kGroup; ++j) {
      const int i = first + j / 2, n = j % 2;
      Vec z = sums.at[i][n];
      if constexpr (Numbers::kPerWord > 1) z = mul(z, broadcast(task.tile_scale));
      z = biased<kBias>(z, strip + i * kForwardKeys + n * kLanes, bias.shift[i]);
      weight[j] = max(broadcast(bias.floor[i]), z);
      shift[j] = broadcast(bias.rounding[i]);
      if constexpr (kStatistics) score[j] = weight[j];
    }
    to_weights(weight, shift);
#pragma GCC unroll 16
    for (int j = 0; j < 2 * kGroup; ++j) store(strip + (first + j / 2) * kForwardKeys + j % 2 * kLanes, weight[j]);
    if constexpr (kStatistics) {
#pragma GCC unroll 16
      for (int j = 0; j < 2 * kGroup; j += 2) {
        float* moment = task.scratch.moments + (row + first + j / 2) * kLanes;
        store(moment, fma(weight[j + 1], score[j + 1], fma(weight[j], score[j], load(moment))));
      }
    }
  }
}

// Panels first .. end, all of one kind of bias. Not inlined: each kind gets the registers for itself.
template <class Numbers, TileBias kBias, bool kStatistics, int M>
__attribute__((noinline)) void direct_panels(const ForwardTask<Numbers>& task, int row, const BlockBias& bias, int first,
                                             int end) {
  const auto* query = task.scratch.query_tiles + row * task.words;
  const auto* keys = task.scratch.keys + first * task.words * kPanel;
  for (int panel = first; panel < end; ++panel, keys += task.words * kPanel) {
    Sums<M, 2> sums;
    clear(sums);
    multiply<Numbers, 1, kTileRows>(sums, query, keys, task.words);
    store_weights<Numbers, kBias, kStatistics>(sums, task, row, bias, task.scratch.strip + panel * kPanel);
  }
}

template <class Numbers, bool kStatistics, int M>
inline void direct_weights(const ForwardTask<Numbers>& task, const KeyBlock& block, int row, const BlockBias& bias) {
  const int panels = block.length / kPanel;
  const auto touched = [&](int panel) { return (bias.touched >> panel & 1u) != 0; };
  for (int first = 0; first < panels;) {
    int end = first + 1;
    while (end < panels && touched(end) == touched(first)) ++end;
    if (touched(first))
      direct_panels<Numbers, TileBias::entries, kStatistics, M>(task, row, bias, first, end);
    else if (bias.shifted)
      direct_panels<Numbers, TileBias::row, kStatistics, M>(task, row, bias, first, end);
    else
      direct_panels<Numbers, TileBias::none, kStatistics, M>(task, row, bias, first, end);
    first = end;
  }
}

// 3b. General: scores to the strip.
template <class Numbers, TileBias kBias, int M>
inline __attribute__((always_inline)) void store_scores(const Sums<M, 2>& sums, float scale, const BlockBias& bias,
                                                        float* strip) {
#pragma GCC unroll 16
  for (int i = 0; i < M; ++i)
#pragma GCC unroll 2
    for (int n = 0; n < 2; ++n) {
      float* to = strip + i * kForwardKeys + n * kLanes;
      Vec z = sums.at[i][n];
      if constexpr (Numbers::kPerWord > 1) z = mul(z, broadcast(scale));
      store(to, biased<kBias>(z, to, bias.shift[i]));
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
    float* strip = task.scratch.strip + panel * kPanel;
    if ((bias.touched >> panel & 1u) != 0)
      store_scores<Numbers, TileBias::entries>(sums, task.tile_scale, bias, strip);
    else
      store_scores<Numbers, TileBias::row>(sums, task.tile_scale, bias, strip);
  }
  for (int i = 0; i < M && row + i < task.rows; ++i) {
    float* scores = task.scratch.strip + i * kForwardKeys;
    const std::int64_t query_row = task.first_query + row + i;
    if (block.span_count > 1 && task.problem.segments.value != nullptr)
      add_segments(task.segments_of(row + i), task.without_bias, task.plan, block, scores);
    if (task.masks.mask != nullptr) add_mask(task.masks.mask + query_row * task.masks.mask_row, task.plan, block, scores);
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
