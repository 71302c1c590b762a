#pragma once
#include "kernels/backward_state.h"
#include "kernels/forward_tile.h"

// The weights p and the slopes dz = p (dp - delta + grad_logsumexp) of a tile of queries on one key block.
//
//   direct   both are taken from the sums while these are in registers
//   general  scores go to the tile first, for masks, several segments, a part of a panel, dropout
namespace camber::kernels {
namespace {

// The bias of kTileRows rows on a block; see BlockBias.
struct SlopeBias {
  unsigned touched = 0;
  float floor[kTileRows];  // logsumexp2 - segment value: subtracted from the scores
};

// 1. Window values into the weights' tile, wherever a panel has one; `masked`: the float mask too, everywhere.
template <int M>
inline SlopeBias lay_bias(BackwardTask& task, const BackwardTile& tile, const KeyBlock& block, int row, int rows,
                          bool masked) {
  SlopeBias bias;
  const float* logsumexp2 = row_terms(task, tile) + row;
  const int segment = block.span_count == 1 ? task.plan.spans[block.first_span].segment : -1;
  for (int i = 0; i < M; ++i) {
    const float* values =
        i < rows ? segment_values(task.problem, task.batch, tile.head, query_of(task, tile.first_row + row + i))
                 : nullptr;
    const float shift = segment >= 0 && values != nullptr ? values[segment] * kLog2E : 0.0f;
    bias.floor[i] = logsumexp2[i] - shift;
  }
  float* weights = task.scratch.weights + row * kBackwardKeys;
  const int left_rows = static_cast<int>(task.job.wave.queries - tile.first_row - row - M);
  const int next_rows = left_rows < M ? left_rows : M;
  if (masked) {
    const HeadMasks masks = masks_of(task.problem, task.batch, tile.head);
    const float* mask = masks.mask + query_of(task, tile.first_row + row) * masks.mask_row;
    prefetch_mask(mask + M * masks.mask_row, masks.mask_row, next_rows, block);
    Vec highest = zero();
    for (int i = 0; i < M; ++i) {
      float* to = weights + i * kBackwardKeys;
      if (i < rows)
        lay_mask(mask + i * masks.mask_row, 0, task.plan, block, to, highest);
      else
        for (int j = 0; j < block.length; j += kLanes) store(to + j, zero());
    }
    bias.touched = ~0u;
  }
  if (task.problem.windows.row_offsets == nullptr) return bias;
  const float* values = window_values(task.problem.windows, tile.head);
  const WindowCursor* cursors = task.scratch.cursors + tile.first_row + row;
  prefetch_entries(task.problem.windows.key_index, values, cursors + M, next_rows, block);
  const auto touch = [&](int panel) {
    if ((bias.touched >> panel & 1u) != 0) return;
    bias.touched |= 1u << panel;
    for (int i = 0; i < M; ++i)
      for (int n = 0; n < 2; ++n) store(weights + i * kBackwardKeys + panel * kPanel + n * kLanes, zero());
  };
  for (int i = 0; i < rows; ++i) {
    WindowCursor cursor = cursors[i];
    for_window_runs(task.problem.windows.key_index, cursor, task.plan, block,
                    [&](int position, std::int64_t entry, int count) {
                      touch(position / kPanel);
                      touch((position + count - 1) / kPanel);
                      float* to = weights + i * kBackwardKeys + position;
                      store(to, fma(load_first(values + entry, count), broadcast(kLog2E), load(to)));
                    });
  }
  return bias;
}

// 2a. Direct: weights 2^(z - logsumexp2) of panels first .. end, all with or all without a bias in their place.
template <TileBias kBias, int M>
__attribute__((noinline)) void weight_panels(const float* query, const float* keys, int steps, const float* logsumexp2,
                                             float* weights, int first, int end) {
  constexpr int kGroup = 1;
  for (int panel = first; panel < end; ++panel) {
    Sums<M, 2> sums;
    clear(sums);
    multiply<FloatNumbers, 1, kTileRows>(sums, query, keys + panel * steps * kPanel, steps);
#pragma GCC unroll 16
    for (int i = 0; i < M; i += kGroup) {
      Vec weight[2 * kGroup], shift[2 * kGroup];
#pragma GCC unroll 16
      for (int j = 0; j < 2 * kGroup; ++j) {
        Vec z = sums.at[i + j / 2][j % 2];
        if constexpr (kBias != TileBias::none)
          z = add_bias<kBias == TileBias::mask>(
              z, load(weights + (i + j / 2) * kBackwardKeys + panel * kPanel + j % 2 * kLanes));
        weight[j] = max(broadcast(kSmallestExponent), sub(z, broadcast(logsumexp2[i + j / 2])));
        shift[j] = broadcast(kRoundingShift);
      }
      to_weights(weight, shift);
#pragma GCC unroll 16
      for (int j = 0; j < 2 * kGroup; ++j)
        store(weights + (i + j / 2) * kBackwardKeys + panel * kPanel + j % 2 * kLanes, weight[j]);
    }
  }
}

// 3a. Direct: slopes = weight * (grad_output . v - delta). A key that a mask removed has slope 0 even where v is NaN.
template <bool kMasked, int M>
__attribute__((noinline)) void slope_panels(const float* output, const float* values, int steps, const float* delta,
                                            const float* weights, float* slopes, int panels) {
  for (int panel = 0; panel < panels; ++panel) {
    Sums<M, 2> sums;
    clear(sums);
    multiply<FloatNumbers, 1, kTileRows>(sums, output, values + panel * steps * kPanel, steps);
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
template <int M>
__attribute__((noinline)) void product_panels(const float* left, const float* right, int steps, float* to, int panels) {
  for (int panel = 0; panel < panels; ++panel) {
    Sums<M, 2> sums;
    clear(sums);
    multiply<FloatNumbers, 1, kTileRows>(sums, left, right + panel * steps * kPanel, steps);
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
  if (masks.mask != nullptr) add_mask(masks.mask + query * masks.mask_row, task.plan, block, scores);
  if (masks.blocked != nullptr) apply_blocked(masks.blocked + query * masks.blocked_row, task.plan, block, scores);
  const int width = round_up(block.length, kPanel);
  for (int j = block.length; j < width; ++j) scores[j] = kNegativeInfinity;
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

inline bool direct_slopes(const BackwardTask& task, const KeyBlock& block) {
  return task.problem.blocked.data == nullptr && block.span_count <= 1 && block.length % kPanel == 0 &&
         task.problem.dropout.probability == 0;
}

// Weights and slopes of M rows from `row` on, `rows` of which exist.
template <int M>
inline void tile_rows(BackwardTask& task, const BackwardTile& tile, const KeyBlock& block, int row, int rows) {
  const BackwardJob& job = task.job;
  const std::int64_t first = tile.in_wave * job.padded_rows + tile.first_row + row;
  const float* query = job.query_tiles + first * task.sizes.key_width;
  const float* output = job.output_tiles + first * task.sizes.value_width;
  const float* delta = row_terms(task, tile) + job.padded_rows + row;
  float *weights = task.scratch.weights + row * kBackwardKeys, *slopes = task.scratch.slopes + row * kBackwardKeys;
  const int panels = round_up(block.length, kPanel) / kPanel;
  const bool direct = direct_slopes(task, block), masked = direct && task.problem.mask.data != nullptr;
  const SlopeBias bias = lay_bias<M>(task, tile, block, row, rows, masked);
  if (direct) {
    const auto touched = [&](int panel) { return (bias.touched >> panel & 1u) != 0; };
    for (int begin = 0, end; begin < panels; begin = end) {
      end = begin + 1;
      while (end < panels && touched(end) == touched(begin)) ++end;
      const auto take = masked           ? weight_panels<TileBias::mask, M>
                        : touched(begin) ? weight_panels<TileBias::windows, M>
                                         : weight_panels<TileBias::none, M>;
      take(query, tile.head_block.keys, task.sizes.key_width, bias.floor, weights, begin, end);
    }
    if (task.slopes_wanted)
      (masked ? slope_panels<true, M> : slope_panels<false, M>)(output, tile.head_block.values, task.sizes.value_width,
                                                                delta, weights, slopes, panels);
    return;
  }
  // The window values lie in `weights`; the plain scores pass through `slopes`.
  product_panels<M>(query, tile.head_block.keys, task.sizes.key_width, slopes, panels);
  for (int i = 0; i < M; ++i) {
    for (int panel = 0; panel < panels; ++panel)
      for (int n = 0; n < 2; ++n) {
        const int at = i * kBackwardKeys + panel * kPanel + n * kLanes;
        const Vec window = (bias.touched >> panel & 1u) != 0 ? load(weights + at) : zero();
        store(weights + at, add(load(slopes + at), window));
      }
    if (i < rows)
      general_weights(task, tile, block, row + i, bias.floor[i], weights + i * kBackwardKeys);
    else
      for (int j = 0; j < panels * kPanel; ++j) weights[i * kBackwardKeys + j] = 0;
  }
  if (task.slopes_wanted) product_panels<M>(output, tile.head_block.values, task.sizes.value_width, slopes, panels);
  for (int i = 0; i < M; ++i)
    general_slopes(task, tile, block, row + i, delta[i], weights + i * kBackwardKeys, slopes + i * kBackwardKeys);
}

}  // namespace
}  // namespace camber::kernels
