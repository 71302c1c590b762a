#include "camber/kernels/sparse.h"

#include <cmath>
#include <limits>
#include <memory>

#include "kernels/attention_run.h"
#include "kernels/closeness.h"
#include "kernels/guarded_memory.h"

namespace camber::kernels::test {
namespace {

// A case whose windows are the lists; for the definition every key that is not listed is blocked.
struct SparseData {
  explicit SparseData(const Case& c) : data(c) {
    AttentionProblem& p = data.problem;
    const std::int64_t pairs = p.batches * p.queries * p.keys;
    data.blocked = std::make_unique<bool[]>(static_cast<std::size_t>(std::max<std::int64_t>(1, pairs)));
    std::fill_n(data.blocked.get(), pairs, true);
    for (std::int64_t row = 0; row < p.batches * p.queries; ++row)
      for (std::int64_t e = data.row_offsets[size(row)]; e < data.row_offsets[size(row + 1)]; ++e)
        data.blocked[size(row * p.keys + data.key_index[size(e)])] = false;
    p.blocked = {data.blocked.get(), {p.queries * p.keys, 0, p.keys}};
    problem = {.batches = p.batches,
               .heads = p.heads,
               .queries = p.queries,
               .keys = p.keys,
               .key_width = p.key_width,
               .value_width = p.value_width,
               .softmax_scale = p.softmax_scale,
               .q = p.q,
               .k = p.k,
               .v = p.v,
               .lists = p.windows,
               .parallel = {}};
  }
  static std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

  CaseData data;
  SparseProblem problem;
};

struct SparseRun {
  std::vector<float> output, logsumexp, q, k, v, value;
};

Strides contiguous(const SparseProblem& p, std::int64_t rows, std::int64_t width) {
  return {p.heads * rows * width, rows * width, width};
}

enum SparseWanted : unsigned { kOnlyQ = 1, kOnlyK = 2, kOnlyV = 4, kOnlyValue = 8, kEvery = 15 };

SparseRun run(const SparseData& data, Isa isa, const ParallelFor& parallel = {}, unsigned wanted = kEvery) {
  SparseProblem p = data.problem;
  p.parallel = parallel;
  const std::int64_t rows = p.batches * p.heads * p.queries, keys = p.batches * p.heads * p.keys;
  const auto unset = [](std::int64_t count) { return std::vector<float>(static_cast<std::size_t>(count), NAN); };
  SparseRun r{unset(rows * p.value_width), unset(rows),
              unset(rows * p.key_width),   unset(keys * p.key_width),
              unset(keys * p.value_width), unset(p.lists.heads * p.lists.entries)};
  const Strides out = contiguous(p, p.queries, p.value_width);
  sparse_forward(p, {r.output.data(), out, r.logsumexp.data()}, isa);
  SparseGradients gradients;
  if ((wanted & kOnlyQ) != 0) gradients.q = {r.q.data(), contiguous(p, p.queries, p.key_width)};
  if ((wanted & kOnlyK) != 0) gradients.k = {r.k.data(), contiguous(p, p.keys, p.key_width)};
  if ((wanted & kOnlyV) != 0) gradients.v = {r.v.data(), contiguous(p, p.keys, p.value_width)};
  if ((wanted & kOnlyValue) != 0) gradients.value = r.value.data();
  sparse_backward(p,
                  {{r.output.data(), out},
                   r.logsumexp.data(),
                   {data.data.grad_output.data(), out},
                   data.data.grad_logsumexp.data()},
                  gradients, isa);
  return r;
}

std::vector<Case> sparse_cases() {
  std::vector<Case> cases;
  for (const std::int64_t width : {1, 5, 8, 16, 31, 64, 72, 130})
    cases.push_back({.name = "width " + std::to_string(width),
                     .batches = 2,
                     .heads = 3,
                     .queries = 9,
                     .keys = 61,
                     .key_width = width,
                     .value_width = width + 3,
                     .interleaved = width % 2 == 0,
                     .removed = 0.1,
                     .window_heads = width % 3 == 0 ? 3 : 1});
  for (const double share : {0.01, 0.5, 1.0})
    cases.push_back({.name = "share " + std::to_string(share),
                     .queries = 70,
                     .keys = 300,
                     .window_heads = 1,
                     .window_share = share});
  cases.push_back({.name = "large", .queries = 20, .keys = 200, .magnitude = 40, .bias_size = 30, .window_heads = 2});
  cases.push_back({.name = "one key", .queries = 5, .keys = 1, .window_heads = 1, .window_share = 1});
  return cases;
}

TEST(Sparse, AgreesWithTheDefinition) {
  for (const Case& c : sparse_cases()) {
    const SparseData data(c);
    const Reference expected = reference(data.data);
    const double bound = relative_bound(expected, c);
    for (const Isa isa : supported_isas()) {
      SCOPED_TRACE(c.name + " " + isa_name(isa));
      const SparseRun found = run(data, isa);
      expect_close(found.output, expected.output, bound * largest(expected.output), "output");
      expect_close(found.logsumexp, expected.logsumexp, bound * std::max(1.0, largest(expected.logsumexp)), "lse");
      expect_close(found.q, expected.grad_q, 10 * bound * largest(expected.grad_q), "dq");
      expect_close(found.k, expected.grad_k, 10 * bound * largest(expected.grad_k), "dk");
      expect_close(found.v, expected.grad_v, 10 * bound * largest(expected.grad_v), "dv");
      expect_close(found.value, expected.grad_window, 10 * bound * largest(expected.grad_window), "dvalue");
    }
  }
}

TEST(Sparse, BitsDependNeitherOnThreadsNorOnWhatIsWanted) {
  const SparseData data({.name = "threads", .batches = 2, .queries = 150, .keys = 600, .window_heads = 1});
  for (const Isa isa : supported_isas()) {
    SCOPED_TRACE(isa_name(isa));
    const SparseRun one = run(data, isa);
    for (const std::int64_t slots : {2, 3, 8}) {
      const SparseRun many = run(data, isa, threads(slots));
      EXPECT_EQ(many.output, one.output);
      EXPECT_EQ(many.logsumexp, one.logsumexp);
      EXPECT_EQ(many.q, one.q);
      EXPECT_EQ(many.k, one.k);
      EXPECT_EQ(many.v, one.v);
      EXPECT_EQ(many.value, one.value);
    }
    EXPECT_EQ(run(data, isa, {}, kOnlyQ).q, one.q);
    EXPECT_EQ(run(data, isa, {}, kOnlyK).k, one.k);
    EXPECT_EQ(run(data, isa, {}, kOnlyV).v, one.v);
    EXPECT_EQ(run(data, isa, {}, kOnlyValue).value, one.value);
  }
}

TEST(Sparse, RowsWithoutAKeyAreZero) {
  SparseData data({.name = "empty", .queries = 4, .keys = 40, .window_heads = 1});
  std::fill(data.data.row_offsets.begin() + 1, data.data.row_offsets.begin() + 3, data.data.row_offsets[1]);
  for (std::int64_t e = data.data.row_offsets[3]; e < data.data.row_offsets[4]; ++e)  // every key removed
    data.data.window_value[static_cast<std::size_t>(e)] = -INFINITY;
  for (const Isa isa : supported_isas()) {
    SCOPED_TRACE(isa_name(isa));
    const SparseRun found = run(data, isa);
    for (const std::size_t row : {1u, 3u}) {
      EXPECT_EQ(found.logsumexp[row], -INFINITY);
      for (std::size_t d = 0; d < 32; ++d) {
        EXPECT_EQ(found.output[row * 32 + d], 0);
        EXPECT_EQ(found.q[row * 32 + d], 0);
      }
    }
    for (const float x : found.k) EXPECT_FALSE(std::isnan(x));
  }
}

TEST(Sparse, NanOfAQueryStaysInItsRow) {
  SparseData data({.name = "nan", .heads = 1, .queries = 10, .keys = 40, .window_heads = 1, .window_share = 0.9});
  ASSERT_LT(data.data.row_offsets[2], data.data.row_offsets[3]);
  for (const Isa isa : supported_isas()) {
    SCOPED_TRACE(isa_name(isa));
    data.data.q[std::size_t{2} * 32] = 0.5f;
    const SparseRun clean = run(data, isa);
    data.data.q[std::size_t{2} * 32] = NAN;
    const SparseRun found = run(data, isa);
    for (std::size_t i = 0; i < found.output.size(); ++i) {
      if (i / 32 == 2)
        EXPECT_TRUE(std::isnan(found.output[i]));
      else
        EXPECT_EQ(found.output[i], clean.output[i]);
    }
  }
}

// Key and value of key 17 are NaN, and -inf removes the key in every list; a row without keys takes NaN in and gives
// none.
TEST(Sparse, NanOfAKeyThatMinusInfinityRemovesNeverLeaks) {
  SparseData data({.name = "removed", .heads = 1, .queries = 10, .keys = 40, .window_heads = 1, .window_share = 0.9});
  auto& d = data.data;
  for (std::size_t e = 0; e < d.key_index.size(); ++e)
    if (d.key_index[e] == 17) d.window_value[e] = -INFINITY;
  for (std::int64_t e = d.row_offsets[4]; e < d.row_offsets[5]; ++e)
    d.window_value[static_cast<std::size_t>(e)] = -INFINITY;
  d.k[std::size_t{17} * 32 + 3] = d.v[std::size_t{17} * 32 + 8] = kNan;
  d.grad_output[std::size_t{4} * 32] = d.grad_logsumexp[4] = kNan;
  for (const Isa isa : supported_isas()) {
    SCOPED_TRACE(isa_name(isa));
    const SparseRun found = run(data, isa);
    for (const auto* values : {&found.output, &found.q, &found.k, &found.v, &found.value})
      EXPECT_TRUE(std::all_of(values->begin(), values->end(), [](float x) { return std::isfinite(x); }));
    EXPECT_TRUE(std::none_of(found.logsumexp.begin(), found.logsumexp.end(), [](float x) { return std::isnan(x); }));
  }
}

TEST(Sparse, ProblemsOfSizeZeroAreFine) {
  for (const Case& c : {Case{.name = "no queries", .queries = 0, .window_heads = 1},
                        Case{.name = "no keys", .keys = 0, .window_heads = 1},
                        Case{.name = "no batch", .batches = 0, .window_heads = 1}}) {
    const SparseData data(c);
    for (const Isa isa : supported_isas()) {
      SCOPED_TRACE(c.name + " " + isa_name(isa));
      for (const float x : run(data, isa).output) EXPECT_EQ(x, 0);
    }
  }
}

// Every array between pages that may not be touched.
TEST(Sparse, NothingOutsideTheArraysIsTouched) {
  for (const Case& c : sparse_cases())
    for (const Isa isa : supported_isas())
      for (const bool at_end : {false, true}) {
        SCOPED_TRACE(c.name + " " + isa_name(isa));
        const SparseData data(c);
        SparseProblem p = data.problem;
        std::vector<std::unique_ptr<GuardedMemory>> memory;
        const auto room = [&](std::size_t bytes) {
          memory.push_back(std::make_unique<GuardedMemory>(bytes, at_end));
          return memory.back()->data();
        };
        const auto copy = [&]<class T>(const std::vector<T>& from) {
          std::byte* to = room(from.size() * sizeof(T));
          if (!from.empty()) std::memcpy(to, from.data(), from.size() * sizeof(T));
          return reinterpret_cast<T*>(to);
        };
        const auto floats = [&](std::int64_t count) {
          return reinterpret_cast<float*>(room(static_cast<std::size_t>(count) * sizeof(float)));
        };
        p.q.data = copy(data.data.q);
        p.k.data = copy(data.data.k);
        p.v.data = copy(data.data.v);
        p.lists.row_offsets = copy(data.data.row_offsets);
        p.lists.key_index = copy(data.data.key_index);
        p.lists.value = copy(data.data.window_value);
        const std::int64_t rows = data.data.rows(), keys = p.batches * p.heads * p.keys;
        const Strides out = contiguous(p, p.queries, p.value_width);
        const SparseResult result{floats(rows * p.value_width), out, floats(rows)};
        sparse_forward(p, result, isa);
        sparse_backward(p,
                        {{result.output, out},
                         result.logsumexp,
                         {copy(data.data.grad_output), out},
                         copy(data.data.grad_logsumexp)},
                        {{floats(rows * p.key_width), contiguous(p, p.queries, p.key_width)},
                         {floats(keys * p.key_width), contiguous(p, p.keys, p.key_width)},
                         {floats(keys * p.value_width), contiguous(p, p.keys, p.value_width)},
                         floats(p.lists.heads * p.lists.entries)},
                        isa);
      }
}

}  // namespace
}  // namespace camber::kernels::test
