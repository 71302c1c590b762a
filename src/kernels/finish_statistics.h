#pragma once
#include "kernels/statistics.h"

// The row statistics of finished rows.
namespace camber::kernels {
namespace {

// How far apart (in natural units) the finite biases of a row's keys may lie. The weights without bias are had from
// those with it, the smallest of which is 2^-126: e^-40 = 2^-57.7 leaves 38 bits below the largest one, which may be
// kSmallestStart.
inline constexpr float kStrongBias = 40.0f;

inline float absolute_of(float x) {
  return x < 0 ? -x : x;
}

// The smallest and the largest finite value that was met, 0 among them; NaN is ignored.
struct BiasRange {
  float low = 0, high = 0;

  void meet(float value) {
    if (value == kNegativeInfinity) return;
    low = value < low ? value : low;
    high = value > high ? value : high;
  }
  float width() const { return high - low; }
};

// Whether a row's plain attention p0 needs a pass of its own, because it cannot be had from the biased weights. Windows
// and segments may lie at opposite ends, so that their ranges add up.
template <class Numbers>
inline bool strong_bias(const ForwardTask<Numbers>& task, int row) {
  BiasRange windows, segments;
  if (task.window_value != nullptr) {
    const std::int64_t* offsets = task.entry_offsets();
    Vec low = zero(), high = zero();
    for (std::int64_t e = offsets[row]; e < offsets[row + 1]; e += kLanes) {
      const std::int64_t left = offsets[row + 1] - e;
      const Vec value = load_first(task.window_value + e, left < kLanes ? static_cast<int>(left) : kLanes);
      const Vec finite = where_equal(value, kNegativeInfinity, zero(), value);
      low = max_number(low, sub(zero(), finite));
      high = max_number(high, finite);
    }
    windows = {-max_of(low), max_of(high)};
  }
  if (const float* values = task.segments_of(row))
    for (std::int64_t k = 0; k < task.problem.segments.count; ++k) segments.meet(values[k]);
  return windows.width() + segments.width() > kStrongBias;
}

// Calls visit(entry, count, segment) for a row's window entries, up to kLanes of one segment at a time.
template <class Numbers, class Visit>
inline void for_row_entries(const ForwardTask<Numbers>& task, int row, const Visit& visit) {
  if (task.job.side_entries == 0) return;
  const std::int64_t *offsets = task.entry_offsets(), *ends = task.problem.segments.offsets;
  const std::int32_t* keys = task.problem.windows.key_index;
  std::int64_t segment = 0;
  for (std::int64_t e = offsets[row]; e < offsets[row + 1];) {
    const std::int64_t left = offsets[row + 1] - e;
    int count = left < kLanes ? static_cast<int>(left) : kLanes;
    if (ends != nullptr) {
      while (ends[segment + 1] <= keys[e]) ++segment;
      while (keys[e + count - 1] >= ends[segment + 1]) --count;
    }
    visit(e, count, segment);
    e += count;
  }
}

// A row's plain attention from its own pass.
template <class Numbers>
inline void keep_plain(ForwardTask<Numbers>& task, int row) {
  ForwardScratch<Numbers>& s = task.scratch;
  s.plain_sums[row] = sum_of(load(s.sums + row * kLanes));
  s.plain_logsumexp[row] = s.reference[row] + __builtin_log2f(s.plain_sums[row]);
  const std::int64_t segments = segment_count(task.problem);
  for (std::int64_t k = row * segments; k < (row + 1) * segments; ++k) s.plain_segments[k] = s.segment_sums[k];
  for_row_entries(task, row, [&](std::int64_t entry, int count, std::int64_t) {
    const std::int64_t at = entry - task.entry_offsets()[0];
    store_first(s.plain_windows + at, load_first(s.window_weights + at, count), count);
  });
}

inline Vec finite_bias(const float* values, int count, float segment_value) {
  const Vec value = load_first(values, count);
  return where_equal(value, kNegativeInfinity, zero(), add(value, broadcast(segment_value)));
}

// A row's plain attention from its biased weights: each is divided by 2^bias.
template <class Numbers>
inline void derive_plain(ForwardTask<Numbers>& task, int row) {
  ForwardScratch<Numbers>& s = task.scratch;
  const std::int64_t segments = segment_count(task.problem),
                     base = task.job.side_entries > 0 ? task.entry_offsets()[0] : 0;
  const float* values = task.segments_of(row);
  float* plain_sums = s.plain_segments + row * segments;
  Vec total = zero();
  float outside = 0;
  for (std::int64_t k = 0; k < segments; ++k) {
    const float sum = s.segment_sums[row * segments + k];
    const bool biased = values != nullptr && values[k] != kNegativeInfinity;
    plain_sums[k] = biased ? sum * __builtin_exp2f(-values[k] * kLog2E) : sum;
    outside += plain_sums[k];
  }
  for_row_entries(task, row, [&](std::int64_t entry, int count, std::int64_t segment) {
    const float of_segment = values == nullptr || values[segment] == kNegativeInfinity ? 0.0f : values[segment];
    const Vec bias = finite_bias(task.window_value + entry, count, of_segment);
    const Vec plain = mul(load_first(s.window_weights + entry - base, count), exp2(mul(bias, broadcast(-kLog2E))));
    store_first(s.plain_windows + entry - base, plain, count);
    total = add(total, plain);
  });
  const float sum = outside + sum_of(total);
  s.plain_sums[row] = sum;
  s.plain_logsumexp[row] = s.reference[row] + __builtin_log2f(sum);
}

// Half of sum |p - p0|, KL(p || p0) and the masses, from shares by segment and by window entry. Returns the expected
// value of windows and segments under p, which the moments leave out.
template <class Numbers>
inline float compare_with_plain(ForwardTask<Numbers>& task, int row, float inverse, float logsumexp2, std::int64_t at) {
  ForwardScratch<Numbers>& s = task.scratch;
  const RowStatistics& wanted = task.job.result.statistics;
  const std::int64_t segments = segment_count(task.problem);
  const float* values = task.segments_of(row);
  const float* plain = s.plain_segments + row * segments;
  const float plain_inverse = s.plain_sums[row] > 0 ? 1 / s.plain_sums[row] : 0;
  float* mass = wanted.segment_mass == nullptr || task.problem.segments.offsets == nullptr
                    ? nullptr
                    : wanted.segment_mass + at * segments;
  float moved = 0, expected_bias = 0;
  for (std::int64_t k = 0; k < segments; ++k) {
    const float share = s.segment_sums[row * segments + k] * inverse;
    if (mass != nullptr) mass[k] = share;
    moved += absolute_of(share - plain[k] * plain_inverse);
    if (values != nullptr && values[k] != kNegativeInfinity) expected_bias += share * values[k];
  }
  Vec moved_inside = zero(), expected_inside = zero();
  for_row_entries(task, row, [&](std::int64_t entry, int count, std::int64_t segment) {
    const std::int64_t side = entry - task.entry_offsets()[0];
    const Vec share = mul(load_first(s.window_weights + side, count), broadcast(inverse));
    const float of_segment = values == nullptr || values[segment] == kNegativeInfinity ? 0.0f : values[segment];
    expected_inside = fma(share, finite_bias(task.window_value + entry, count, of_segment), expected_inside);
    const Vec plain_share = mul(load_first(s.plain_windows + side, count), broadcast(plain_inverse));
    moved_inside = add(moved_inside, absolute(sub(share, plain_share)));
    if (mass != nullptr) mass[segment] += sum_of(share);
  });
  if (wanted.change != nullptr) wanted.change[at] = 0.5f * (moved + sum_of(moved_inside));
  const float expected = expected_bias + sum_of(expected_inside);
  const float divergence = expected + (s.plain_logsumexp[row] - logsumexp2) * kLn2;
  if (wanted.divergence != nullptr) wanted.divergence[at] = divergence < 0 ? 0 : divergence;
  return expected;
}

// Writes the statistics of a row; `at` is its index in [B, H, Q]. A row without keys has zeros.
template <class Numbers>
inline void finish_statistics(ForwardTask<Numbers>& task, int row, float total, std::int64_t at) {
  ForwardScratch<Numbers>& s = task.scratch;
  const RowStatistics& wanted = task.job.result.statistics;
  const bool empty = total == 0;
  const float inverse = empty ? 0 : 1 / total, logsumexp2 = empty ? 0 : s.reference[row] + __builtin_log2f(total);
  if (wanted.largest_weight != nullptr) wanted.largest_weight[at] = max_of(load(s.largest + row * kLanes)) * inverse;
  if (wanted.sum_of_squares != nullptr)
    wanted.sum_of_squares[at] = sum_of(load(s.squares + row * kLanes)) * inverse * inverse;
  if (wanted.keys_left != nullptr) wanted.keys_left[at] = s.keys_left[row];
  if (empty) s.plain_logsumexp[row] = 0;
  const float expected_bias = compare_with_plain(task, row, inverse, logsumexp2, at);
  if (wanted.entropy != nullptr) {
    const float entropy = (logsumexp2 - sum_of(load(s.moments + row * kLanes)) * inverse) * kLn2 - expected_bias;
    wanted.entropy[at] = empty || entropy < 0 ? 0 : entropy;
  }
}

}  // namespace
}  // namespace camber::kernels
