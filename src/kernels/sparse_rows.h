#pragma once
#include "kernels/arena.h"
#include "kernels/exp2.h"
#include "kernels/pack.h"
#include "kernels/sparse_task.h"

// The loops of sparse attention for one instruction set. All of them are made of two: scalar products of one vector
// with many rows, and a weighted sum of many rows; the rows lie anywhere in memory.
namespace camber::kernels {
namespace {

struct SparseScratch {
  const float** rows;  // [longest list, padded to kLanes]
  float* scores;       // likewise: z, then weights
  float* slopes;
  float* biased;  // likewise: the weights with the bias, of a correction
  float* vector;  // [width, padded]: the query of a row
};

inline SparseScratch lay_out_sparse(Arena& arena, const SparseJob& job) {
  const std::int64_t longest = job.longest_row > job.longest_key ? job.longest_row : job.longest_key;
  const std::int64_t widest =
      job.problem.key_width > job.problem.value_width ? job.problem.key_width : job.problem.value_width;
  SparseScratch s{};
  s.rows = arena.take<const float*>(longest + kLanes);
  s.scores = arena.take<float>(longest + kLanes);
  s.slopes = arena.take<float>(longest + kLanes);
  s.biased = arena.take<float>(longest + kLanes);
  s.vector = arena.take<float>(widest + kLanes);
  return s;
}

inline const float* sparse_row(const ConstRows& rows, std::int64_t batch, std::int64_t head, std::int64_t row) {
  const Strides& at = rows.strides;
  return static_cast<const float*>(rows.data) + batch * at.batch + head * at.head + row * at.row;
}
inline float* sparse_row(const GradientRows& rows, std::int64_t batch, std::int64_t head, std::int64_t row) {
  return rows.data + batch * rows.strides.batch + head * rows.strides.head + row * rows.strides.row;
}

// products[i] = vector . rows[i], for i < count rounded up to kLanes; rows has so many pointers, `vector` is padded
// with zeros.
inline __attribute__((noinline)) void scalar_products(const float* vector, std::int64_t width, const float* const* rows,
                                                      std::int64_t count, float* products) {
  const std::int64_t whole = width / kLanes * kLanes;
  for (std::int64_t first = 0; first < count; first += kLanes) {
    Vec sums[kLanes];
#pragma GCC unroll 16
    for (Vec& sum : sums) sum = zero();
    for (std::int64_t d = 0; d < whole; d += kLanes) {
      const Vec left = load(vector + d);
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) multiply_add(sums[i], left, load(rows[first + i] + d));
    }
    if (whole < width) {
      const Vec left = load(vector + whole);
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i)
        multiply_add(sums[i], left, load_first(rows[first + i] + whole, static_cast<int>(width - whole)));
    }
    store(products + first, lane_sums(sums));
  }
}

template <int N>
inline __attribute__((always_inline)) void sum_columns(const float* weights, const float* const* rows,
                                                       std::int64_t count, std::int64_t column, float scale,
                                                       float* to) {
  Vec sums[N];
#pragma GCC unroll 8
  for (int n = 0; n < N; ++n) sums[n] = zero();
  for (std::int64_t i = 0; i < count; ++i) {
    const Vec weight = broadcast(weights[i]);
    const float* row = rows[i] + column;
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) multiply_add(sums[n], weight, load(row + n * kLanes));
  }
#pragma GCC unroll 8
  for (int n = 0; n < N; ++n) store(to + column + n * kLanes, mul(sums[n], broadcast(scale)));
}

// to = scale * sum over i of weights[i] * rows[i], over `width` columns.
inline __attribute__((noinline)) void weighted_sum(const float* weights, const float* const* rows, std::int64_t count,
                                                   std::int64_t width, float scale, float* to) {
  std::int64_t column = 0;
  for (; column + 8 * kLanes <= width; column += 8 * kLanes) sum_columns<8>(weights, rows, count, column, scale, to);
  for (; column + 4 * kLanes <= width; column += 4 * kLanes) sum_columns<4>(weights, rows, count, column, scale, to);
  for (; column + kLanes <= width; column += kLanes) sum_columns<1>(weights, rows, count, column, scale, to);
  if (column == width) return;
  const int left = static_cast<int>(width - column);
  Vec sum = zero();
  for (std::int64_t i = 0; i < count; ++i) multiply_add(sum, broadcast(weights[i]), load_first(rows[i] + column, left));
  store_first(to + column, mul(sum, broadcast(scale)), left);
}

// Adds a row times 0: 0 while all that was added is finite.
inline Vec add_zero_times(Vec products, const float* row, std::int64_t width) {
  std::int64_t d = 0;
  for (; d + kLanes <= width; d += kLanes) products = fma(load(row + d), zero(), products);
  if (d < width) products = fma(load_first(row + d, static_cast<int>(width - d)), zero(), products);
  return products;
}
inline bool all_finite(Vec products) {
  return count_equal(products, 0.0f) == kLanes;
}

// The same without the rows of weight 0, one of which is not finite: 0 * NaN is NaN. The lists are used up. Not
// inlined: it hardly ever runs.
__attribute__((noinline, cold)) inline void sum_of_weighted(const float** rows, float* weights, std::int64_t count,
                                                            std::int64_t width, float scale, float* to) {
  std::int64_t kept = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    if (weights[i] == 0) continue;
    weights[kept] = weights[i];
    rows[kept++] = rows[i];
  }
  weighted_sum(weights, rows, kept, width, scale, to);
}

// The weighted sum of scratch.rows, in which a row of weight 0 counts for nothing whatever it holds.
inline void sum_of_rows(const SparseScratch& s, float* weights, std::int64_t count, std::int64_t width, float scale,
                        float* to) {
  weighted_sum(weights, s.rows, count, width, scale, to);
  if (!all_finite(add_zero_times(zero(), to, width))) sum_of_weighted(s.rows, weights, count, width, scale, to);
}

// One row of a task.
struct SparseRow {
  const SparseJob& job;
  SparseScratch scratch;
  std::int64_t batch, head, query;
  std::int64_t first, count;  // its entries

  std::int64_t at() const { return (batch * job.problem.heads + head) * job.problem.queries + query; }
};

// Where the keys' rows of k or v lie; the pointers up to the next multiple of kLanes repeat the last one.
inline void find_listed(const SparseRow& row, const ConstRows& rows) {
  const std::int32_t* keys = row.job.problem.lists.key_index + row.first;
  const float* base = sparse_row(rows, row.batch, row.head, 0);
  for (std::int64_t i = 0; i < row.count; ++i) row.scratch.rows[i] = base + keys[i] * rows.strides.row;
  for (std::int64_t i = row.count; i % kLanes != 0; ++i) row.scratch.rows[i] = row.scratch.rows[row.count - 1];
}

inline void copy_vector(const float* from, std::int64_t width, float scale, float* to) {
  for (std::int64_t d = 0; d < width; d += kLanes) {
    const std::int64_t left = width - d;
    store(to + d,
          mul(left >= kLanes ? load(from + d) : load_first(from + d, static_cast<int>(left)), broadcast(scale)));
  }
}

// to = scores + values of the row's entries, [heads, nnz] in nats; null: nothing is added.
inline void add_listed(const SparseRow& row, const float* values, std::int64_t heads, const float* scores, float* to) {
  if (values == nullptr) {
    if (to != scores) __builtin_memcpy(to, scores, static_cast<std::size_t>(row.count) * sizeof(float));
    return;
  }
  const float* value = values + (heads == 1 ? 0 : row.head) * row.job.problem.lists.entries + row.first;
  for (std::int64_t i = 0; i < row.count; i += kLanes) {
    const std::int64_t left = row.count - i;
    const Vec bias = load_first(value + i, left < kLanes ? static_cast<int>(left) : kLanes);
    const Vec removed = broadcast(-__builtin_inff()), sum = fma(bias, broadcast(kLog2E), load(scores + i));
    // -inf wins even over a NaN score: a removed key never leaks.
    store(to + i, where_equal(bias, -__builtin_inff(), removed, sum));
  }
}

// Scaled products in units of log2 to scratch.scores; scratch.rows points to the keys.
inline void listed_products(const SparseRow& row) {
  const SparseProblem& p = row.job.problem;
  const SparseScratch& s = row.scratch;
  copy_vector(sparse_row(p.q, row.batch, row.head, row.query), p.key_width, p.softmax_scale * kLog2E, s.vector);
  find_listed(row, p.k);
  scalar_products(s.vector, p.key_width, s.rows, row.count, s.scores);
}

inline void fill_behind(float* scores, std::int64_t count) {
  for (std::int64_t i = count; i % kLanes != 0; ++i) scores[i] = -__builtin_inff();
}

// z in units of log2 to scratch.scores, -inf behind the last entry; scratch.rows points to the keys.
inline void listed_scores(const SparseRow& row) {
  const SparseProblem& p = row.job.problem;
  listed_products(row);
  add_listed(row, p.lists.value, p.lists.heads, row.scratch.scores, row.scratch.scores);
  fill_behind(row.scratch.scores, row.count);
}

inline void write_zeros(float* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = 0;
}

inline void forward_listed(const SparseRow& row) {
  const SparseProblem& p = row.job.problem;
  const SparseScratch& s = row.scratch;
  const SparseResult& result = row.job.result;
  float* output = sparse_row(GradientRows{result.output, result.output_strides}, row.batch, row.head, row.query);
  float sum = 0, reference = -__builtin_inff();
  if (row.count > 0) {
    listed_scores(row);
    Vec highest = broadcast(reference), sums = zero();
    for (std::int64_t i = 0; i < row.count; i += kLanes) highest = max_number(highest, load(s.scores + i));
    reference = __builtin_ceilf(max_of(highest));
    // Every score is -inf or NaN: 2^-inf is 0, NaN comes through in the sum.
    const Vec safe = broadcast(reference == -__builtin_inff() ? 0.0f : reference);
    for (std::int64_t i = 0; i < row.count; i += kLanes) {
      const Vec weight = exp2(sub(load(s.scores + i), safe));
      store(s.scores + i, weight);
      sums = add(sums, weight);
    }
    sum = sum_of(sums);
  }
  if (sum == 0) {
    write_zeros(output, p.value_width);
    result.logsumexp[row.at()] = -__builtin_inff();
    return;
  }
  find_listed(row, p.v);
  sum_of_rows(s, s.scores, row.count, p.value_width, 1 / sum, output);
  result.logsumexp[row.at()] = (reference + __builtin_log2f(sum)) * kLn2;
}

// The sum over d of dO * O, less the gradient of logsumexp.
inline float delta_of(const SparseRow& row, const float* incoming) {
  const SparseJob& job = row.job;
  const std::int64_t width = job.problem.value_width;
  const float* output = sparse_row(job.input.output, row.batch, row.head, row.query);
  Vec products = zero();
  for (std::int64_t d = 0; d < width; d += kLanes) {
    const std::int64_t left = width - d;
    const int present = left < kLanes ? static_cast<int>(left) : kLanes;
    products = fma(load_first(incoming + d, present), load_first(output + d, present), products);
  }
  return sum_of(products) - (job.input.grad_logsumexp == nullptr ? 0.0f : job.input.grad_logsumexp[row.at()]);
}

// Weights and slopes of a row, and its dq.
inline void backward_listed(const SparseRow& row) {
  const SparseJob& job = row.job;
  const SparseProblem& p = job.problem;
  const SparseScratch& s = row.scratch;
  float* gradient = job.wanted.q.data == nullptr ? nullptr : sparse_row(job.wanted.q, row.batch, row.head, row.query);
  const float logsumexp = job.input.logsumexp[row.at()];
  const bool empty = row.count == 0 || logsumexp == -__builtin_inff();
  const std::int64_t entry = row.head * p.lists.entries + row.first;
  if (empty) {
    if (gradient != nullptr) write_zeros(gradient, p.key_width);
    if (job.weights != nullptr) write_zeros(job.weights + entry, row.count);
    if (job.slopes != nullptr) write_zeros(job.slopes + entry, row.count);
    return;
  }
  listed_scores(row);
  const Vec logsumexp2 = broadcast(logsumexp * kLog2E);
  for (std::int64_t i = 0; i < row.count; i += kLanes) store(s.scores + i, exp2(sub(load(s.scores + i), logsumexp2)));
  const float* incoming = sparse_row(job.input.grad_output, row.batch, row.head, row.query);
  const Vec delta = broadcast(delta_of(row, incoming));
  copy_vector(incoming, p.value_width, 1.0f, s.vector);
  find_listed(row, p.v);
  scalar_products(s.vector, p.value_width, s.rows, row.count, s.slopes);
  for (std::int64_t i = 0; i < row.count; i += kLanes) {
    const Vec weight = load(s.scores + i);
    // A key without weight has slope 0 even where v is NaN.
    store(s.slopes + i, where_equal(weight, 0.0f, zero(), mul(weight, sub(load(s.slopes + i), delta))));
  }
  const std::size_t bytes = static_cast<std::size_t>(row.count) * sizeof(float);
  if (job.weights != nullptr) __builtin_memcpy(job.weights + entry, s.scores, bytes);
  if (job.slopes != nullptr) __builtin_memcpy(job.slopes + entry, s.slopes, bytes);
  if (gradient == nullptr) return;
  find_listed(row, p.k);
  sum_of_rows(s, s.slopes, row.count, p.key_width, p.softmax_scale, gradient);
}

// One of the table's kernels: what `visit` does, for every row of a part of the queries.
template <void (*visit)(const SparseRow&)>
inline void for_sparse_rows(const SparseJob& job, std::int64_t batch, std::int64_t head, std::int64_t part,
                            std::byte* memory) {
  Arena arena{memory};
  const SparseProblem& p = job.problem;
  const SparseScratch scratch = lay_out_sparse(arena, job);
  const std::int64_t end = (part + 1) * kSparseRows < p.queries ? (part + 1) * kSparseRows : p.queries;
  for (std::int64_t i = part * kSparseRows; i < end; ++i) {
    const std::int64_t query = job.order[batch * p.queries + i];
    const std::int64_t* offsets = p.lists.row_offsets + batch * p.queries + query;
    visit(SparseRow{job, scratch, batch, head, query, offsets[0], offsets[1] - offsets[0]});
  }
}

// The queries that list a key, in their order: the numbers of their entries into s.scores, their rows into s.rows.
// Returns how many there are.
inline std::int64_t gather_by_key(const SparseJob& job, const SparseScratch& s, std::int64_t batch, std::int64_t head,
                                  std::int64_t key, const float* of_entry, const ConstRows& rows) {
  const std::int64_t* offsets = job.by_key_offsets + batch * job.problem.keys + key;
  const std::int64_t first = offsets[0], count = offsets[1] - offsets[0];
  const float* base = sparse_row(rows, batch, head, 0);
  for (std::int64_t i = 0; i < count; ++i) {
    s.scores[i] = of_entry[head * job.problem.lists.entries + job.by_key_entry[first + i]];
    s.rows[i] = base + job.by_key_query[first + i] * rows.strides.row;
  }
  return count;
}

// Calls sum(to, of_entry, rows, width, scale, scratch, first key, end key) for dk and dv of a part of the keys: each is
// a sum of rows over the queries that list the key, in their order, weighted by a number of each entry.
template <class Sum>
inline void for_key_gradients(const SparseJob& job, std::int64_t part, std::byte* memory, const Sum& sum) {
  Arena arena{memory};
  const SparseProblem& p = job.problem;
  const SparseScratch s = lay_out_sparse(arena, job);
  const std::int64_t first = part * kSparseKeys, end = first + kSparseKeys < p.keys ? first + kSparseKeys : p.keys;
  if (job.wanted.k.data != nullptr) sum(job.wanted.k, job.slopes, p.q, p.key_width, p.softmax_scale, s, first, end);
  if (job.wanted.v.data != nullptr)
    sum(job.wanted.v, job.weights, job.input.grad_output, p.value_width, 1.0f, s, first, end);
}

inline void sparse_backward_keys(const SparseJob& job, std::int64_t batch, std::int64_t head, std::int64_t part,
                                 std::byte* memory) {
  // Whether all is finite is asked once for all keys; where not, rows of weight 0 are left out of every sum.
  for_key_gradients(job, part, memory,
                    [&](const GradientRows& to, const float* of_entry, const ConstRows& rows, std::int64_t width,
                        float scale, const SparseScratch& s, std::int64_t first, std::int64_t end) {
                      for (int attempt = 0; attempt < 2; ++attempt) {
                        const bool weighted_alone = attempt > 0;
                        Vec products = zero();
                        for (std::int64_t key = first; key < end; ++key) {
                          const std::int64_t count = gather_by_key(job, s, batch, head, key, of_entry, rows);
                          float* out = sparse_row(to, batch, head, key);
                          if (weighted_alone) {
                            sum_of_weighted(s.rows, s.scores, count, width, scale, out);
                            continue;
                          }
                          weighted_sum(s.scores, s.rows, count, width, scale, out);
                          products = add_zero_times(products, out, width);
                        }
                        if (all_finite(products)) return;
                      }
                    });
}

}  // namespace
}  // namespace camber::kernels
