#pragma once
#include <cstdint>

#include "kernels/exp2.h"
#include "kernels/pack.h"
#include "kernels/task.h"

// The bias and the masks on a strip of scores: rows by positions of one key block, in units of log2 (z * log2(e)).
namespace camber::kernels {
namespace {

inline constexpr float kNegativeInfinity = -__builtin_inff();

// The stretches of one tile of rows on one key block, and their values.
struct Stretches {
  const WindowStretch *first, *last;
  const float* values;

  const WindowStretch* begin() const { return first; }
  const WindowStretch* end() const { return last; }
  bool empty() const { return first == last; }
};

// Tile `tile` counts from the first one of the box, over its batches.
inline Stretches stretches_of(const WindowPlan& plan, const WindowBias& windows, std::int64_t head, std::int64_t tile,
                              std::int64_t block) {
  if (plan.stretches == nullptr || tile >= plan.tiles) return {nullptr, nullptr, nullptr};
  const WindowStart* begin = plan.begin + block * plan.tiles + tile;
  const float* of_head = plan.values + (windows.heads == 1 ? 0 : head) * plan.head_values;
  return {plan.stretches + begin[0].stretch, plan.stretches + begin[1].stretch, of_head + begin[0].value};
}

inline std::int64_t plan_tile(const WindowPlan& plan, std::int64_t batch, std::int64_t query) {
  return (batch - plan.batch) * plan.batch_tiles + (query - plan.query) / kTileRows;
}

// Asks for what follows: the list and the values of the tile that comes next.
inline void prefetch_behind(const Stretches& windows) {
  for (const WindowStretch* at = windows.last; at < windows.last + (windows.last - windows.first); at += 4)
    __builtin_prefetch(at);
  if (windows.empty()) return;
  const float* end = windows.values + windows.last[-1].value + windows.last[-1].count;
  for (const float* at = end; at < end + (end - windows.values); at += 16) __builtin_prefetch(at);
}

// The values of one of the stretches in units of log2, 0 in the lanes beyond; `without_bias`: finite ones count as 0.
inline Vec stretch_values(const Stretches& windows, const WindowStretch& stretch, bool without_bias) {
  const Vec value = load_first(windows.values + stretch.value, stretch.count);
  return without_bias ? where_equal(value, kNegativeInfinity, value, zero()) : value;
}

// A weight 2^(z + b) may be had as 2^z * 2^b where |b| stays within this: neither factor overflows, and what one of
// them loses below 2^-126 is lost from a sum of at least 1/2.
inline constexpr float kLargestFactor = 64.0f;

// Score plus bias. -inf on either side wins over any other value, NaN included: what a removed key holds never leaks.
inline __attribute__((always_inline)) Vec add_bias(Vec score, Vec bias) {
  const Vec removed = broadcast(kNegativeInfinity);
  const Vec sum = where_equal(bias, kNegativeInfinity, removed, add(score, bias));
  return where_equal(score, kNegativeInfinity, removed, sum);
}

// 2^exponent times a weight. A key without weight stays without, and one at -inf loses it, even where the other is NaN.
inline __attribute__((always_inline)) Vec scaled_weight(Vec weight, Vec exponent) {
  const Vec product = where_equal(exponent, kNegativeInfinity, zero(), mul(weight, exp2(exponent)));
  return where_equal(weight, 0.0f, weight, product);
}

// How many positions of a block hold keys before `end`: keys rise, so that they are the first ones.
inline int positions_before(const KeyPlan& plan, const KeyBlock& block, std::int64_t end) {
  if (end >= block.end_key) return block.length;
  int count = 0;
  for (int r = 0; r < block.run_count; ++r) {
    const KeyRun& run = plan.runs[block.first_run + r];
    if (run.key >= end) break;
    count = run.position + static_cast<int>(end - run.key < run.count ? end - run.key : run.count);
  }
  return count;
}

// The keys that row (batch, query) sees end here.
inline std::int64_t row_end(const AttentionProblem& problem, std::int64_t batch, std::int64_t query) {
  return problem.row_lengths.data == nullptr
             ? problem.keys
             : problem.row_lengths.data[batch * problem.row_lengths.batch_stride + query];
}

// Adds the float mask times log2(e).
inline void add_mask(const float* mask, const KeyPlan& plan, const KeyBlock& block, float* scores) {
  const Vec unit = broadcast(kLog2E);
  for (int r = 0; r < block.run_count; ++r) {
    const KeyRun& run = plan.runs[block.first_run + r];
    float* to = scores + run.position;
    for (int i = 0; i < run.count; i += kLanes) {
      const int left = run.count - i;
      const Vec value = left >= kLanes ? load(mask + run.key + i) : load_first(mask + run.key + i, left);
      store_first(to + i, add_bias(load(to + i), mul(value, unit)), left);
    }
  }
}

// Writes the float mask times log2(e) to a row's positions and raises `highest` to the largest. Whole vectors: up to
// kLanes - 1 floats behind the last position are touched.
inline void lay_mask(const float* mask, const KeyPlan& plan, const KeyBlock& block, float* to, Vec& highest) {
  const Vec unit = broadcast(kLog2E);
  for (int r = 0; r < block.run_count; ++r) {
    const KeyRun& run = plan.runs[block.first_run + r];
    for (int i = 0; i < run.count; i += kLanes) {
      const int left = run.count - i;
      const Vec value = mul(left >= kLanes ? load(mask + run.key + i) : load_first(mask + run.key + i, left), unit);
      highest = max_number(highest, value);
      store(to + run.position + i, value);
    }
  }
}

// The table of a head.
inline const float* table_values(const TableBias& table, std::int64_t head) {
  return table.value + (table.heads == 1 ? 0 : head) * table.size;
}

// Calls visit(position, count, indices) for the block, up to kLanes positions at a time: `first` is the index of the
// first of them where they are neighbours in the table, else `indices` lists them.
template <class Visit>
inline __attribute__((always_inline)) void for_table(const AttentionProblem& problem, std::int64_t query,
                                                     const KeyPlan& plan, const KeyBlock& block, const Visit& visit) {
  const TableBias& table = problem.table;
  if (table.query_code != nullptr) {
    const std::int32_t code = table.query_code[query];
    for (int c = 0; c < block.code_count; ++c) {
      const CodeSpan& span = plan.codes[block.first_code + c];
      for (int i = 0; i < span.count; i += kLanes)
        visit(span.position + i, span.count - i < kLanes ? span.count - i : kLanes, span.code - code + i, nullptr);
    }
    return;
  }
  for (int r = 0; r < block.run_count; ++r) {
    const KeyRun& run = plan.runs[block.first_run + r];
    const std::int64_t pair = query * problem.keys + run.key;
    const std::int32_t* indices = table.index == nullptr ? nullptr : table.index + pair;
    for (int i = 0; i < run.count; i += kLanes) {
      const int count = run.count - i < kLanes ? run.count - i : kLanes;
      if (indices == nullptr)
        visit(run.position + i, count, static_cast<int>(pair) + i, nullptr);
      else
        visit(run.position + i, count, 0, indices + i);
    }
  }
}

// Adds a row's table values times log2(e) to its positions, or writes them; raises `highest` to the largest.
template <bool kAdd>
inline void lay_table(const AttentionProblem& problem, std::int64_t head, std::int64_t query, const KeyPlan& plan,
                      const KeyBlock& block, float* to, Vec& highest) {
  const float* table = table_values(problem.table, head);
  const bool written_out = problem.table.query_code == nullptr && problem.table.index == nullptr;
  if (!kAdd && written_out) return lay_mask(table + query * problem.keys, plan, block, to, highest);
  const Vec unit = broadcast(kLog2E);
  Vec largest = highest;  // in a register: spans are short, and each would wait for the one before in memory
  for_table(problem, query, plan, block, [&](int position, int count, int first, const std::int32_t* indices) {
    Vec value;
    if (indices == nullptr) {
      value = load_floats(table + first, count);
    } else {
      float lanes[kLanes] = {};
      for (int i = 0; i < count; ++i) lanes[i] = table[indices[i]];
      value = load(lanes);
    }
    value = mul(value, unit);
    if constexpr (kAdd) value = add_bias(load_first(to + position, count), value);
    largest = max_number(largest, first_of(value, count));
    store_first(to + position, value, count);
  });
  highest = largest;
}

// Adds the table to the scores of a row.
inline void add_table(const AttentionProblem& problem, std::int64_t head, std::int64_t query, const KeyPlan& plan,
                      const KeyBlock& block, float* scores) {
  Vec highest = zero();
  if (problem.table.value != nullptr) lay_table<true>(problem, head, query, plan, block, scores, highest);
}

// Asks for the block's part of some rows of the mask, or of its gradient.
inline void prefetch_mask(const float* row, std::int64_t row_stride, int rows, const KeyBlock& block) {
  for (int i = 0; i < rows; ++i)
    for (std::int64_t key = block.first_key; key < block.end_key; key += 16)
      __builtin_prefetch(row + i * row_stride + key);
}

// Mask plus table of a tile's first `rows` rows, zeros in the other M - rows, to strips kStride apart; asks for the
// mask's `next` rows behind the tile. `mask` is the one of row `query`, or null. Returns the largest value of mask and
// of their sum, at least 0.
template <int M, int kStride>
inline float lay_tile_mask(const AttentionProblem& problem, std::int64_t head, std::int64_t query, const float* mask,
                           int rows, std::int64_t next, const KeyPlan& plan, const KeyBlock& block, float* strip) {
  const std::int64_t mask_row = problem.mask.strides.row;
  if (next > 0 && mask != nullptr)
    prefetch_mask(mask + M * mask_row, mask_row, static_cast<int>(next < M ? next : M), block);
  Vec highest = zero();
  for (int i = 0; i < M; ++i) {
    float* to = strip + i * kStride;
    if (i < rows) {
      if (mask != nullptr) lay_mask(mask + i * mask_row, plan, block, to, highest);
      if (problem.table.value != nullptr && mask != nullptr)
        lay_table<true>(problem, head, query + i, plan, block, to, highest);
      else if (problem.table.value != nullptr)
        lay_table<false>(problem, head, query + i, plan, block, to, highest);
      for (int j = block.length; j < round_up(block.length, kPanel); ++j) to[j] = 0;
    } else {
      for (int j = 0; j < block.length; j += kLanes) store(to + j, zero());
    }
  }
  return max_of(highest);
}

inline void apply_blocked(const bool* mask, const KeyPlan& plan, const KeyBlock& block, float* scores) {
  for (int r = 0; r < block.run_count; ++r) {
    const KeyRun& run = plan.runs[block.first_run + r];
    const auto* flags = reinterpret_cast<const std::uint8_t*>(mask + run.key);
    float* to = scores + run.position;
    int i = 0;
    for (; i + kLanes <= run.count; i += kLanes) store(to + i, where_flag(flags + i, kNegativeInfinity, load(to + i)));
    for (; i < run.count; ++i)
      if (flags[i] != 0) to[i] = kNegativeInfinity;
  }
}

// What a bias value counts for: itself in units of log2, or, where only -inf is to stay, 0.
inline float in_log2(float value, bool without_bias) {
  return without_bias && value != kNegativeInfinity ? 0.0f : value * kLog2E;
}

// Adds each segment's value to the positions of its span; `values` are the row's, [S], in natural units.
inline void add_segments(const float* values, bool without_bias, const KeyPlan& plan, const KeyBlock& block,
                         float* scores) {
  for (int s = 0; s < block.span_count; ++s) {
    const SegmentSpan& span = plan.spans[block.first_span + s];
    const Vec value = broadcast(in_log2(values[span.segment], without_bias));
    float* to = scores + span.position;
    for (int i = 0; i < span.count; i += kLanes) store_first(to + i, add_bias(load(to + i), value), span.count - i);
  }
}

// Masks of one (batch, head), or null.
struct HeadMasks {
  const float* mask;
  const bool* blocked;
  std::int64_t mask_row, blocked_row;
};

inline HeadMasks masks_of(const AttentionProblem& problem, std::int64_t batch, std::int64_t head) {
  HeadMasks masks{nullptr, nullptr, problem.mask.strides.row, problem.blocked.strides.row};
  if (problem.mask.data != nullptr)
    masks.mask = problem.mask.data + batch * problem.mask.strides.batch + head * problem.mask.strides.head;
  if (problem.blocked.data != nullptr)
    masks.blocked = problem.blocked.data + batch * problem.blocked.strides.batch + head * problem.blocked.strides.head;
  return masks;
}

inline const float* window_values(const WindowBias& windows, std::int64_t head) {
  return windows.value + (windows.heads == 1 ? 0 : head) * windows.entries;
}

// The largest |value| of the windows of a tile that has some, in units of log2: a bound for all of its blocks, without
// a look at the values, which lie far apart in memory.
inline float largest_window(const WindowPlan& plan, const WindowBias& windows, std::int64_t head, std::int64_t tile) {
  return plan.largest[(windows.heads == 1 ? 0 : head) * plan.tiles + tile] * kLog2E;
}

// The [S] values of row (batch, head, query), or null.
inline const float* segment_values(const AttentionProblem& problem, std::int64_t batch, std::int64_t head,
                                   std::int64_t query) {
  const SegmentBias& segments = problem.segments;
  if (segments.offsets == nullptr || segments.value == nullptr) return nullptr;
  const std::int64_t row = (batch * segments.heads + (segments.heads == 1 ? 0 : head)) * problem.queries + query;
  return segments.value + row * segments.count;
}

}  // namespace
}  // namespace camber::kernels
