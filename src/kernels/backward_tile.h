#pragma once
#include "kernels/backward_state.h"
#include "kernels/forward_tile.h"

// The weights p and the slopes dz = p (dp - delta + grad_logsumexp) of a tile of queries on one key block.
//
//   direct   both are taken from the sums while these are in registers
//   general  scores go to the tile first, for a blocked mask, several segments, dropout
namespace camber::kernels {
namespace {

// 1. What is subtracted from the scores: logsumexp2 - segment value.
template <int M>
inline void find_floors(const BackwardTask& task, const BackwardTile& tile, const KeyBlock& block, int row, int rows,
                        float* floor) {
  const float* logsumexp2 = row_terms(task, tile) + row;
  const int segment = block.span_count == 1 ? task.plan.spans[block.first_span].segment : -1;
  for (int i = 0; i < M; ++i) {
    const float* values =
        i < rows ? segment_values(task.problem, task.batch, tile.head, query_of(task, tile.first_row + row + i))
                 : nullptr;
    const float shift = segment >= 0 && values != nullptr ? values[segment] * kLog2E : 0.0f;
    floor[i] = logsumexp2[i] - shift;
  }
}

// Whether the windows may come as factors on the weights without them.
inline bool moderate(const BackwardTask& task, const BackwardTile& tile, int row, const Stretches& windows) {
  if (windows.empty()) return true;
  const WindowPlan& plan = task.job.windows;
  const std::int64_t tile_of_plan = plan_tile(plan, task.batch, query_of(task, tile.first_row + row));
  if (largest_window(plan, task.problem.windows, tile.head, tile_of_plan) <= kLargestFactor) return true;
  Vec largest = zero();
  for (const WindowStretch& stretch : windows)
    largest = max_number(largest, absolute(stretch_values(windows, stretch, false)));
  return max_of(largest) <= kLargestFactor;
}

// 2a. Direct: weights 2^(z - logsumexp2), instead of the mask.
template <class Numbers, bool kMasked, int M>
__attribute__((noinline)) void weight_panels(const typename Numbers::Word* query, const typename Numbers::Word* keys,
                                             int steps, float unit, const float* logsumexp2, float* weights,
                                             int panels) {
  for (int panel = 0; panel < panels; ++panel) {
    Sums<M, 2> sums;
    clear(sums);
    multiply<Numbers, 1, kTileRows>(sums, query, keys + panel * steps * kPanel, steps);
#pragma GCC unroll 16
    for (int i = 0; i < M; ++i) {
      float* to = weights + i * kBackwardKeys + panel * kPanel;
      const Vec shift[2] = {broadcast(kRoundingShift), broadcast(kRoundingShift)};
      Vec weight[2];
#pragma GCC unroll 2
      for (int n = 0; n < 2; ++n) {
        Vec z = Numbers::scaled(sums.at[i][n], unit);
        if constexpr (kMasked) z = add_masked(z, load(to + n * kLanes));
        weight[n] = max(broadcast(kSmallestExponent), sub(z, broadcast(logsumexp2[i])));
      }
      to_weights(weight, shift);
#pragma GCC unroll 2
      for (int n = 0; n < 2; ++n) store(to + n * kLanes, weight[n]);
    }
  }
}

// 3a. Direct: slopes = weight * (grad_output . v - delta). A key that a mask removed has slope 0 even where v is NaN.
template <class Numbers, bool kMasked, int M>
__attribute__((noinline)) void slope_panels(const typename Numbers::Word* output, const typename Numbers::Word* values,
                                            int steps, const float* delta, const float* weights, float* slopes,
                                            int panels) {
  for (int panel = 0; panel < panels; ++panel) {
    Sums<M, 2> sums;
    clear(sums);
    multiply<Numbers, 1, kTileRows>(sums, output, values + panel * steps * kPanel, steps);
#pragma GCC unroll 16
    for (int i = 0; i < M; ++i)
#pragma GCC unroll 2
      for (int n = 0; n < 2; ++n) {
        const int at = i * kBackwardKeys + panel * kPanel + n * kLanes;
        const Vec weight = load(weights + at);
        Vec slope = mul(weight, sub(sums.at[i][n], broadcast(delta[i])));
        if constexpr (kMasked) slope = where_equal(weight, 0.0f, zero(), slope);
        store(slopes + at, slope);
      }
  }
}

// 2b and 3b. General: plain products to a tile.
template <class Numbers, int M>
__attribute__((noinline)) void product_panels(const typename Numbers::Word* left, const typename Numbers::Word* right,
                                              int steps, float unit, float* to, int panels) {
  for (int panel = 0; panel < panels; ++panel) {
    Sums<M, 2> sums;
    clear(sums);
    multiply<Numbers, 1, kTileRows>(sums, left, right + panel * steps * kPanel, steps);
    for (int i = 0; i < M; ++i)
      for (int n = 0; n < 2; ++n) sums.at[i][n] = Numbers::scaled(sums.at[i][n], unit);
    write_rows(sums, to + panel * kPanel, kBackwardKeys);
  }
}

// The scores of a row, with masks and segments, to its weights.
inline void general_weights(BackwardTask& task, const BackwardTile& tile, const KeyBlock& block, int row,
                            float logsumexp2, float* scores) {
  const std::int64_t query = query_of(task, tile.first_row + row);
  const HeadMasks masks = masks_of(task.problem, task.batch, tile.head);
  if (block.span_count > 1)
    if (const float* values = segment_values(task.problem, task.batch, tile.head, query))
      add_segments(values, false, task.plan, block, scores);
  add_table(task.problem, tile.head, query, task.plan, block, scores);
  if (masks.mask != nullptr) add_mask(masks.mask + query * masks.mask_row, task.plan, block, scores);
  if (masks.blocked != nullptr) apply_blocked(masks.blocked + query * masks.blocked_row, task.plan, block, scores);
  const int width = round_up(block.length, kPanel);
  for (int j = kept_of(task, block, tile.first_row + row); j < width; ++j) scores[j] = kNegativeInfinity;
  for (int j = 0; j < width; j += kLanes) store(scores + j, exp2(sub(load(scores + j), broadcast(logsumexp2))));
}

// grad_output . v of a row, in `slopes`, to its slopes; with dropout the weights become those that met the values.
// A key without weight has slope 0 even where v is NaN.
inline void general_slopes(BackwardTask& task, const BackwardTile& tile, const KeyBlock& block, int row, float delta,
                           float* weights, float* slopes) {
  const Dropout& dropout = task.problem.dropout;
  float* factors = task.scratch.factors;
  const int width = round_up(block.length, kPanel);
  const Vec deltas = broadcast(delta), none = zero();
  if (dropout.probability > 0) {
    const DropoutRow at{dropout.seed, static_cast<std::uint32_t>(task.batch), static_cast<std::uint32_t>(tile.head),
                        static_cast<std::uint32_t>(query_of(task, tile.first_row + row))};
    dropout_factors(at, static_cast<std::uint32_t>(dropout.probability * 4294967296.0),
                    static_cast<float>(1.0 / (1.0 - dropout.probability)), task.plan, block, task.scratch.words,
                    factors);
    for (int j = block.length; j < width; ++j) factors[j] = 0;
  }
  for (int j = 0; j < width; j += kLanes) {
    const Vec weight = load(weights + j);
    Vec slope = load(slopes + j);
    if (dropout.probability > 0) {
      const Vec factor = load(factors + j);
      slope = mul(slope, factor);
      store(weights + j, mul(weight, factor));
    }
    store(slopes + j, where_equal(weight, 0.0f, none, mul(weight, sub(slope, deltas))));
  }
}

// Rows that see no key of the block, because they see none at all or their segment is removed: NaN in a query or in a
// key would come through their scores.
inline void clear_rows_without_keys(const float* floor, int rows, int width, float* values) {
  for (int i = 0; i < rows; ++i)
    for (int j = 0; floor[i] == -kNegativeInfinity && j < width; j += kLanes)
      store(values + i * kBackwardKeys + j, zero());
}

inline bool direct_slopes(const BackwardTask& task, const KeyBlock& block) {
  return task.problem.blocked.data == nullptr && block.span_count <= 1 && task.problem.dropout.probability == 0;
}

// Positions that a row does not see, and those behind the block's last, weigh nothing. Whether any row that exists was
// cut short of the block.
inline bool clear_unseen_weights(const BackwardTask& task, const BackwardTile& tile, const KeyBlock& block, int row,
                                 int rows, float* weights) {
  bool partial = false;
  for (int i = 0; i < rows; ++i) {
    const int kept = kept_of(task, block, tile.first_row + row + i);
    for (int j = kept; j < round_up(block.length, kPanel); ++j) weights[i * kBackwardKeys + j] = 0;
    partial = partial || kept < block.length;
  }
  return partial;
}

// Whether one of these rows sees a key of the block.
inline bool any_kept(const BackwardTask& task, const BackwardTile& tile, const KeyBlock& block, int row, int rows) {
  if (task.problem.row_lengths.data == nullptr) return true;
  for (int i = 0; i < rows; ++i)
    if (kept_of(task, block, tile.first_row + row + i) > 0) return true;
  return false;
}

// Weights and slopes of M rows from `row` on, `rows` of which exist.
template <class Numbers, int M>
inline void tile_rows(BackwardTask& task, const BackwardTile& tile, const KeyBlock& block, int row, int rows) {
  const BackwardJob& job = task.job;
  const std::int64_t first = tile.in_wave * job.padded_rows + tile.first_row + row;
  const int key_words = words_in<Numbers>(task.sizes.key_width),
            value_words = words_in<Numbers>(task.sizes.value_width);
  const auto* query = words_of<Numbers>(job.query_tiles) + first * key_words;
  const auto* output = words_of<Numbers>(job.output_tiles) + first * value_words;
  const auto *keys = words_of<Numbers>(tile.head_block.keys), *key_values = words_of<Numbers>(tile.head_block.values);
  const float unit = task.problem.softmax_scale * kLog2E;
  const float* delta = row_terms(task, tile) + job.padded_rows + row;
  float *weights = task.scratch.weights + row * kBackwardKeys, *slopes = task.scratch.slopes + row * kBackwardKeys;
  const int panels = round_up(block.length, kPanel) / kPanel;
  const Stretches windows = windows_of(task, tile, block, row);
  prefetch_behind(windows);
  const bool direct = direct_slopes(task, block) && moderate(task, tile, row, windows);
  const bool masked = direct && (task.problem.mask.data != nullptr || task.problem.table.value != nullptr);
  float floor[M];
  find_floors<M>(task, tile, block, row, rows, floor);
  if (masked) {
    const HeadMasks masks = masks_of(task.problem, task.batch, tile.head);
    const std::int64_t query_row = query_of(task, tile.first_row + row);
    lay_tile_mask<M, kBackwardKeys>(task.problem, tile.head, query_row,
                                    masks.mask == nullptr ? nullptr : masks.mask + query_row * masks.mask_row, rows,
                                    job.wave.queries - tile.first_row - row - M, task.plan, block, weights);
  }
  if (direct) {
    (masked ? weight_panels<Numbers, true, M> : weight_panels<Numbers, false, M>)(query, keys, key_words, unit, floor,
                                                                                  weights, panels);
    for (const WindowStretch& stretch : windows) {
      float* to = weights + stretch.offset;
      store(to, scaled_weight(load(to), stretch_values(windows, stretch, false)));
    }
    clear_rows_without_keys(floor, rows, panels * kPanel, weights);
    const bool partial = clear_unseen_weights(task, tile, block, row, rows, weights);
    if (!task.slopes_wanted) return;
    (masked || partial ? slope_panels<Numbers, true, M> : slope_panels<Numbers, false, M>)(output, key_values,
                                                                                           value_words, delta, weights,
                                                                                           slopes, panels);
    return clear_rows_without_keys(floor, rows, panels * kPanel, slopes);
  }
  product_panels<Numbers, M>(query, keys, key_words, unit, weights, panels);
  for (const WindowStretch& stretch : windows) {
    float* to = weights + stretch.offset;
    store(to, add_bias(load(to), stretch_values(windows, stretch, false)));
  }
  for (int i = 0; i < M; ++i) {
    if (i < rows)
      general_weights(task, tile, block, row + i, floor[i], weights + i * kBackwardKeys);
    else
      for (int j = 0; j < panels * kPanel; ++j) weights[i * kBackwardKeys + j] = 0;
  }
  clear_rows_without_keys(floor, rows, panels * kPanel, weights);
  if (task.slopes_wanted) product_panels<Numbers, M>(output, key_values, value_words, 1.0f, slopes, panels);
  for (int i = 0; i < M; ++i)
    general_slopes(task, tile, block, row + i, delta[i], weights + i * kBackwardKeys, slopes + i * kBackwardKeys);
}

}  // namespace
}  // namespace camber::kernels
