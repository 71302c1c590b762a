#pragma once
#include "kernels/sparse_rows.h"

// The loops of a correction for one instruction set: attention without the windows' bias becomes attention with it, in
// place. Of an entry, `scores` is its weight without the bias and `biased` its weight with it.
namespace camber::kernels {
namespace {

// exp2 has no meaning above 2^127; a row that comes near has an infinite total, which its caller computes another way.
inline constexpr float kLargestExponent = 126.0f;

// Both weights of the entries, exp(z - logsumexp). Returns whether an exponent was too large.
inline bool correction_weights(const SparseRow& row, float logsumexp) {
  const SparseJob& job = row.job;
  const SparseScratch& s = row.scratch;
  const WindowBias& lists = job.problem.lists;
  listed_products(row);
  add_listed(row, job.correction.shift, job.correction.shift_heads, s.scores, s.scores);
  add_listed(row, lists.value, lists.heads, s.scores, s.biased);
  fill_behind(s.scores, row.count);
  fill_behind(s.biased, row.count);
  const Vec reference = broadcast(logsumexp * kLog2E), limit = broadcast(kLargestExponent);
  Vec highest = broadcast(-__builtin_inff());
  for (std::int64_t i = 0; i < row.count; i += kLanes) {
    const Vec plain = sub(load(s.scores + i), reference), biased = sub(load(s.biased + i), reference);
    highest = max_number(max_number(highest, plain), biased);
    // The limit stands first, so that a NaN comes through.
    store(s.scores + i, exp2(min(limit, plain)));
    store(s.biased + i, exp2(min(limit, biased)));
  }
  return max_of(highest) > kLargestExponent;
}

// biased - scores, to scratch.scores; returns the sum.
inline float correction_differences(const SparseRow& row) {
  const SparseScratch& s = row.scratch;
  Vec sums = zero();
  for (std::int64_t i = 0; i < row.count; i += kLanes) {
    const Vec difference = sub(load(s.biased + i), load(s.scores + i));
    store(s.scores + i, difference);
    sums = add(sums, difference);
  }
  return sum_of(sums);
}

inline void correct_listed(const SparseRow& row) {
  const SparseJob& job = row.job;
  const SparseProblem& p = job.problem;
  const SparseScratch& s = row.scratch;
  const std::int64_t at = row.at();
  const float logsumexp = job.correction.logsumexp[at];
  float& total = job.correction.total[at];
  total = 1;
  if (row.count == 0 || logsumexp == -__builtin_inff()) return;
  const bool too_large = correction_weights(row, logsumexp);
  total = too_large ? __builtin_inff() : 1 + correction_differences(row);
  if (job.result.output == nullptr || !(total > 0) || too_large) return;
  float* output =
      sparse_row(GradientRows{job.result.output, job.result.output_strides}, row.batch, row.head, row.query);
  find_listed(row, p.v);
  weighted_sum(s.scores, s.rows, row.count, p.value_width, 1.0f, s.vector);
  const Vec scale = broadcast(1 / total);
  for (std::int64_t d = 0; d < p.value_width; d += kLanes) {
    const std::int64_t left = p.value_width - d;
    const int present = left < kLanes ? static_cast<int>(left) : kLanes;
    store_first(output + d, mul(add(load_first(output + d, present), load_first(s.vector + d, present)), scale),
                present);
  }
  job.result.logsumexp[at] = logsumexp + __builtin_log2f(total) * kLn2;
}

inline void add_to(float* to, const float* from, std::int64_t width) {
  for (std::int64_t d = 0; d < width; d += kLanes) {
    const std::int64_t left = width - d;
    const int present = left < kLanes ? static_cast<int>(left) : kLanes;
    store_first(to + d, add(load_first(to + d, present), load_first(from + d, present)), present);
  }
}

// Differences of weights and their slopes to the job's lists, the bias's own slopes to theirs, dq.
inline void correct_listed_gradient(const SparseRow& row) {
  const SparseJob& job = row.job;
  const SparseProblem& p = job.problem;
  const SparseScratch& s = row.scratch;
  const float logsumexp = job.input.logsumexp[row.at()];
  const std::int64_t entry = row.head * p.lists.entries + row.first;
  if (row.count == 0) return;
  // Rows that end here: without keys, or computed another way, which +inf says.
  if (logsumexp == -__builtin_inff() || logsumexp == __builtin_inff()) {
    float* const lists[] = {job.weights, job.slopes, job.value_slopes};
    for (float* list : lists)
      if (list != nullptr) write_zeros(list + entry, row.count);
    return;
  }
  correction_weights(row, logsumexp);
  const float* incoming = sparse_row(job.input.grad_output, row.batch, row.head, row.query);
  const Vec delta = broadcast(delta_of(row, incoming));
  copy_vector(incoming, p.value_width, 1.0f, s.vector);
  find_listed(row, p.v);
  scalar_products(s.vector, p.value_width, s.rows, row.count, s.slopes);
  for (std::int64_t i = 0; i < row.count; i += kLanes) {
    const Vec biased = load(s.biased + i), distance = sub(load(s.slopes + i), delta);
    const Vec difference = sub(biased, load(s.scores + i));
    store(s.scores + i, difference);
    store(s.slopes + i, mul(difference, distance));
    store(s.biased + i, mul(biased, distance));
  }
  const std::size_t bytes = static_cast<std::size_t>(row.count) * sizeof(float);
  if (job.weights != nullptr) __builtin_memcpy(job.weights + entry, s.scores, bytes);
  if (job.slopes != nullptr) __builtin_memcpy(job.slopes + entry, s.slopes, bytes);
  if (job.value_slopes != nullptr) __builtin_memcpy(job.value_slopes + entry, s.biased, bytes);
  if (job.wanted.q.data == nullptr) return;
  find_listed(row, p.k);
  weighted_sum(s.slopes, s.rows, row.count, p.key_width, p.softmax_scale, s.vector);
  add_to(sparse_row(job.wanted.q, row.batch, row.head, row.query), s.vector, p.key_width);
}

// What the entries of a part of the keys add to dk and dv.
inline void sparse_correct_gradient_keys(const SparseJob& job, std::int64_t batch, std::int64_t head, std::int64_t part,
                                         std::byte* memory) {
  for_key_gradients(
      job, part, memory,
      [&](const GradientRows& to, const float* of_entry, const ConstRows& rows, std::int64_t width, float scale,
          const SparseScratch& s, std::int64_t first, std::int64_t end) {
        for (std::int64_t key = first; key < end; ++key) {
          const std::int64_t count = gather_by_key(job, s, batch, head, key, of_entry, rows);
          if (count == 0) continue;
          weighted_sum(s.scores, s.rows, count, width, scale, s.vector);
          add_to(sparse_row(to, batch, head, key), s.vector, width);
        }
      });
}

}  // namespace
}  // namespace camber::kernels
