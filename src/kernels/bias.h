#pragma once
#include <cstdint>

#include "kernels/exp2.h"
#include "kernels/task.h"

// The bias and the masks on a strip of scores: rows by positions of one key block, in units of log2 (z * log2(e)).
namespace camber::kernels {
namespace {

inline constexpr float kNegativeInfinity = -__builtin_inff();

inline constexpr std::int32_t kNoKey = 0x7FFFFFFF;

// Where a row's window entries go on: entries next .. end, the first of them on `key` (kNoKey behind the last). The key
// is kept here so that a row without entries in a block costs no look at the entries.
struct WindowCursor {
  std::int64_t next, end;
  std::int64_t key;
};

inline WindowCursor window_cursor(const std::int32_t* keys, std::int64_t next, std::int64_t end) {
  return {next, end, next < end ? keys[next] : kNoKey};
}

// Calls visit(position, entry, count) for every stretch of at most kLanes neighbouring entries that fall on
// neighbouring positions of the block, and moves the cursor behind the block. Entries on keys that were left out are
// skipped.
template <class Visit>
inline __attribute__((always_inline)) void for_window_runs(const std::int32_t* keys, WindowCursor& cursor,
                                                           const KeyPlan& plan, const KeyBlock& block,
                                                           const Visit& visit) {
  const KeyRun* run = plan.runs + block.first_run;
  while (cursor.key < block.end_key) {
    while (run->key + run->count <= cursor.key) ++run;
    if (cursor.key < run->key) {
      cursor = window_cursor(keys, cursor.next + 1, cursor.end);
      continue;
    }
    const std::int64_t in_row = cursor.end - cursor.next, in_run = run->key + run->count - cursor.key;
    const std::int64_t limit = in_row < in_run ? in_row : in_run;
    const int count = consecutive_keys(keys + cursor.next, limit < kLanes ? static_cast<int>(limit) : kLanes);
    visit(run->position + static_cast<int>(cursor.key - run->key), cursor.next, count);
    cursor = window_cursor(keys, cursor.next + count, cursor.end);
  }
}

inline std::int64_t first_key(const WindowCursor* cursors, int count) {
  std::int64_t first = kNoKey;
  for (int i = 0; i < count; ++i) first = cursors[i].key < first ? cursors[i].key : first;
  return first;
}

// Asks for the entries that some rows have in the block, while other rows are worked on.
inline void prefetch_entries(const std::int32_t* keys, const float* values, const WindowCursor* cursors, int count,
                             const KeyBlock& block) {
  for (int i = 0; i < count; ++i) {
    if (cursors[i].key >= block.end_key) continue;
    for (int line = 0; line < 6; ++line) {  // as many entries as a block of a wide window holds
      __builtin_prefetch(keys + cursors[i].next + 16 * line);
      __builtin_prefetch(values + cursors[i].next + 16 * line);
    }
  }
}

// Adds the float mask times log2(e); -inf wins even over a NaN score, so that a blocked key never leaks.
inline void add_mask(const float* mask, const KeyPlan& plan, const KeyBlock& block, float* scores) {
  const Vec unit = broadcast(kLog2E), blocked = broadcast(kNegativeInfinity);
  for (int r = 0; r < block.run_count; ++r) {
    const KeyRun& run = plan.runs[block.first_run + r];
    float* to = scores + run.position;
    for (int i = 0; i < run.count; i += kLanes) {
      const int left = run.count - i;
      const Vec value = left >= kLanes ? load(mask + run.key + i) : load_first(mask + run.key + i, left);
      const Vec score = load(to + i);
      store_first(to + i, where_equal(value, kNegativeInfinity, blocked, fma(value, unit, score)), left);
    }
  }
}

// Writes the float mask times log2(e) plus `shift` to a row's positions and raises `highest` to the largest without
// it. Whole vectors: up to kLanes - 1 floats behind the last position are touched.
inline void lay_mask(const float* mask, float shift, const KeyPlan& plan, const KeyBlock& block, float* to,
                     Vec& highest) {
  const Vec unit = broadcast(kLog2E), shifts = broadcast(shift);
  for (int r = 0; r < block.run_count; ++r) {
    const KeyRun& run = plan.runs[block.first_run + r];
    for (int i = 0; i < run.count; i += kLanes) {
      const int left = run.count - i;
      const Vec value = mul(left >= kLanes ? load(mask + run.key + i) : load_first(mask + run.key + i, left), unit);
      highest = max(highest, value);
      store(to + run.position + i, add(value, shifts));
    }
  }
}

// Asks for the block's part of some rows of the mask, or of its gradient.
inline void prefetch_mask(const float* row, std::int64_t row_stride, int rows, const KeyBlock& block) {
  for (int i = 0; i < rows; ++i)
    for (std::int64_t key = block.first_key; key < block.end_key; key += 16)
      __builtin_prefetch(row + i * row_stride + key);
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
    for (int i = 0; i < span.count; i += kLanes) store_first(to + i, add(load(to + i), value), span.count - i);
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
