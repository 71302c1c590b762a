#pragma once
#include "kernels/backward_few.h"

// The first phase of the backward pass: q and grad_output of each (batch, head) in tiles and panels, logsumexp and
// delta of its rows.
namespace camber::kernels {
namespace {

// Rows of the wave's tile as floats; those of another type are converted to `staged`.
template <class T>
inline void wave_rows(const ConstRows& from, std::int64_t batch, std::int64_t head, std::int64_t query, int rows,
                      int width, float* staged, const float** to) {
  const void* found[kBackwardRows];
  for (int i = 0; i < rows; ++i) found[i] = row_of<T>(from, batch, head, query + i);
  const float* const* floats = FloatNumbers::float_rows<T>(found, rows, width, staged);
  for (int i = 0; i < rows; ++i) to[i] = floats[i];
}

// q and grad_output of up to kBackwardRows rows in tiles and panels; `grad_panel_rows` are those of rows with keys,
// else zeros. `at` is the first row's index in the wave's arrays.
inline void pack_wave_rows(const BackwardJob& job, std::int64_t at, int rows, const float* const* q_rows,
                           const float* const* grad_rows, const float* const* grad_panel_rows) {
  const BackwardSizes sizes = sizes_of(job.problem);
  for (int i = 0; i < rows; i += kTileRows) {
    const int count = rows - i < kTileRows ? rows - i : kTileRows;
    pack_tile_rows(q_rows + i, count, sizes.key_width, job.query_tiles + (at + i) * sizes.key_width);
    pack_tile_rows(grad_rows + i, count, sizes.value_width, job.output_tiles + (at + i) * sizes.value_width);
  }
  pack_row_panels(q_rows, rows, sizes.key_width, job.query_panels + at * sizes.key_stride);
  clear_non_finite(job.query_panels + at * sizes.key_stride, rows * sizes.key_stride);
  pack_row_panels(grad_panel_rows, rows, sizes.value_width, job.output_panels + at * sizes.value_stride);
}

#ifdef CAMBER_BF16_PRODUCTS
// The same in pairs of bfloat16, from where the rows lie; `has_keys` by row.
inline void pair_wave_rows(const BackwardJob& job, std::int64_t batch, std::int64_t head, int first, std::int64_t at,
                           int rows, const bool* has_keys) {
  using T = std::uint16_t;
  const AttentionProblem& p = job.problem;
  const BackwardSizes sizes = sizes_of(p);
  const std::int64_t query = job.wave.query + first;
  const void *q_rows[kBackwardRows + 1], *grad_rows[kBackwardRows + 1];
  for (int i = 0; i < rows; ++i) {
    q_rows[i] = row_of<T>(p.q, batch, head, query + i);
    grad_rows[i] = has_keys[i] ? static_cast<const void*>(row_of<T>(job.input.grad_output, batch, head, query + i))
                               : static_cast<const void*>(kZeros);
  }
  q_rows[rows] = grad_rows[rows] = kZeros;  // the second half of a last pair
  const auto pack_tiles = [&](const ConstRows& from, int width, float* to) {
    const int words = words_in<BfloatNumbers>(width);
    for (int i = 0; i < rows; i += kTileRows)
      BfloatNumbers::pack_queries(row_of<T>(from, batch, head, query + i), from.strides.row,
                                  rows - i < kTileRows ? rows - i : kTileRows, width, 1.0f,
                                  words_of<BfloatNumbers>(to) + (at + i) * words);
  };
  pack_tiles(p.q, sizes.key_width, job.query_tiles);
  pack_tiles(job.input.grad_output, sizes.value_width, job.output_tiles);
  auto* panels = words_of<BfloatNumbers>(job.query_panels) + at * sizes.key_stride;
  BfloatNumbers::pack_values<T>(q_rows, rows, sizes.key_width, nullptr, panels);
  BfloatNumbers::clear_non_finite_words(panels, (rows + 1) / 2 * sizes.key_stride);
  BfloatNumbers::pack_values<T>(grad_rows, rows, sizes.value_width, nullptr,
                                words_of<BfloatNumbers>(job.output_panels) + at * sizes.value_stride);
}
#endif

template <class Numbers, class T>
inline void prepare_rows_of(const BackwardJob& job, std::int64_t in_wave) {
  const AttentionProblem& p = job.problem;
  const BackwardSizes sizes = sizes_of(p);
  float staged[sizeof(T) == sizeof(float) ? 1 : 2 * kBackwardRows * kLargestWidth];
  float* staged_output = staged + (sizeof(T) == sizeof(float) ? 0 : kBackwardRows * kLargestWidth);
  const std::int64_t batch = job.wave.batch + in_wave / job.wave.heads, head = job.wave.head + in_wave % job.wave.heads;
  const std::int64_t base = in_wave * job.padded_rows;
  float* logsumexp2 = job.row_terms + 2 * base;
  float* delta = logsumexp2 + job.padded_rows;
  for (int first = 0; first < job.wave.queries; first += kBackwardRows) {
    const std::int64_t left = job.wave.queries - first;
    const int rows = static_cast<int>(left < kBackwardRows ? left : kBackwardRows);
    const float *q_rows[kBackwardRows], *go_rows[kBackwardRows], *go_panel_rows[kBackwardRows];
    const float* logsumexp = job.input.logsumexp + (batch * p.heads + head) * p.queries + job.wave.query + first;
    wave_rows<T>(p.q, batch, head, job.wave.query + first, rows, sizes.key_width, staged, q_rows);
    wave_rows<T>(job.input.grad_output, batch, head, job.wave.query + first, rows, sizes.value_width, staged_output,
                 go_rows);
    // What flows into a row without keys has no weight, NaN included.
    for (int i = 0; i < rows; ++i) go_panel_rows[i] = logsumexp[i] == kNegativeInfinity ? kZeros : go_rows[i];
    if (job.few)
      prepare_few(job, base, rows, q_rows, go_panel_rows);
    else if constexpr (Numbers::kPerWord == 1)
      pack_wave_rows(job, base + first, rows, q_rows, go_rows, go_panel_rows);
#ifdef CAMBER_BF16_PRODUCTS
    if constexpr (Numbers::kPerWord > 1) {
      bool has_keys[kBackwardRows];
      for (int i = 0; i < rows; ++i) has_keys[i] = logsumexp[i] != kNegativeInfinity;
      if (!job.few) pair_wave_rows(job, batch, head, first, base + first, rows, has_keys);
    }
#endif
    const std::int64_t padded = job.padded_rows - first;
    for (int i = 0; i < (padded < kBackwardRows ? padded : kBackwardRows); ++i) {
      // Rows that do not exist, or see no key, have weight 2^-inf = 0.
      logsumexp2[first + i] = __builtin_inff();
      delta[first + i] = 0;
      if (i >= rows) continue;
      const std::int64_t query = job.wave.query + first + i, at = (batch * p.heads + head) * p.queries + query;
      const auto* output = row_of<T>(job.input.output, batch, head, query);
      Vec sum = zero();
      for (int d = 0; d < sizes.value_width; d += kLanes)
        sum = fma(load_floats(go_rows[i] + d, sizes.value_width - d), load_floats(output + d, sizes.value_width - d),
                  sum);
      delta[first + i] = sum_of(sum) - (job.input.grad_logsumexp == nullptr ? 0.0f : job.input.grad_logsumexp[at]);
      if (logsumexp[i] != kNegativeInfinity) logsumexp2[first + i] = logsumexp[i] * kLog2E;
    }
  }
}

// Calls with_type.template operator()<T>() for the elements of q, k, v.
template <class WithType>
inline void with_elements(ElementType type, const WithType& with_type) {
  if (type == ElementType::bfloat16) return with_type.template operator()<std::uint16_t>();
  if (type == ElementType::float16) return with_type.template operator()<Half>();
  with_type.template operator()<float>();
}

// Calls with_numbers.template operator()<Numbers, T>() for what the backward multiplies.
template <class WithNumbers>
inline void with_backward_numbers(ElementType type, const WithNumbers& with_numbers) {
#ifdef CAMBER_BF16_PRODUCTS
  if (type == ElementType::bfloat16) return with_numbers.template operator()<BfloatNumbers, std::uint16_t>();
#endif
  with_elements(type, [&]<class T>() { with_numbers.template operator()<FloatNumbers, T>(); });
}

inline void prepare_rows(const BackwardJob& job, std::int64_t in_wave) {
  with_backward_numbers(
      job.problem.type, [&]<class Numbers, class T>() { prepare_rows_of<Numbers, T>(job, in_wave); });
}

}  // namespace
}  // namespace camber::kernels
