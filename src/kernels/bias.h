#pragma once
#include <cstdint>

#include "kernels/exp2.h"
#include "kernels/task.h"

// The bias and the masks on a strip of scores: rows by positions of one key block, in units of log2 (z * log2(e)).
namespace camber::kernels {
namespace {

inline constexpr float kNegativeInfinity = -__builtin_inff();

// One row's window entries first .. end, and where the next block's entries begin.
struct WindowCursor {
  std::int64_t next, end;
};

// Calls visit(position, entry, count) for every stretch of at most kLanes neighbouring entries that fall on neighbouring
// positions of the block, and moves the cursor behind the block. Entries on keys that were left out are skipped.
template <class Visit>
inline void for_window_runs(const std::int32_t* keys, WindowCursor& cursor, const KeyPlan& plan, const KeyBlock& block,
                            const Visit& visit) {
  const KeyRun* run = plan.runs + block.first_run;
  while (cursor.next < cursor.end && keys[cursor.next] < block.end_key) {
    const std::int64_t key = keys[cursor.next];
    while (run->key + run->count <= key) ++run;
    if (key < run->key) {
      ++cursor.next;
      continue;
    }
    const std::int64_t in_row = cursor.end - cursor.next, in_run = run->key + run->count - key;
    const std::int64_t limit = in_row < in_run ? in_row : in_run;
    const int count = consecutive_keys(keys + cursor.next, limit < kLanes ? static_cast<int>(limit) : kLanes);
    visit(run->position + static_cast<int>(key - run->key), cursor.next, count);
    cursor.next += count;
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
  const std::int64_t row =
      (batch * segments.heads + (segments.heads == 1 ? 0 : head)) * problem.queries + query;
  return segments.value + row * segments.count;
}

}  // namespace
}  // namespace camber::kernels
