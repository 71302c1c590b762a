#include "camber/kernels/sparse.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/dispatch.h"
#include "kernels/slots.h"

namespace camber::kernels {
namespace {

// The queries of each batch by the key in the middle of their lists: neighbours in this order share most of their keys,
// which then stay in the cache. Rows do not depend on each other, so that no bit depends on the order.
std::vector<std::int32_t> order_of_rows(const SparseProblem& p) {
  std::vector<std::int32_t> order(static_cast<std::size_t>(p.batches * p.queries)), middle(order.size());
  for (std::int64_t b = 0; b < p.batches; ++b) {
    const std::int64_t* offsets = p.lists.row_offsets + b * p.queries;
    std::int32_t* middles = middle.data() + b * p.queries;
    for (std::int64_t query = 0; query < p.queries; ++query) {
      const std::int64_t first = offsets[query], end = offsets[query + 1];
      middles[query] = first == end ? -1 : p.lists.key_index[first + (end - first) / 2];
    }
    const auto begin = order.begin() + b * p.queries, end = begin + p.queries;
    std::iota(begin, end, 0);
    std::stable_sort(begin, end, [&](std::int32_t x, std::int32_t y) { return middles[x] < middles[y]; });
  }
  return order;
}

std::int64_t longest_row(const SparseProblem& p) {
  std::int64_t longest = 0;
  for (std::int64_t row = 0; row < p.batches * p.queries; ++row)
    longest = std::max(longest, p.lists.row_offsets[row + 1] - p.lists.row_offsets[row]);
  return longest;
}

// The lists by keys; a key's entries in the order of the rows.
struct ListsByKey {
  std::vector<std::int64_t> offsets, entry;
  std::vector<std::int32_t> query;
  std::int64_t longest = 0;

  explicit ListsByKey(const SparseProblem& p)
      : offsets(static_cast<std::size_t>(p.batches * p.keys + 1)),
        entry(static_cast<std::size_t>(p.lists.entries)),
        query(static_cast<std::size_t>(p.lists.entries)) {
    // offsets[i + 1] counts the entries of key i, then becomes its first place, then, as they are placed, its end.
    for_entries(p, [&](std::int64_t key, std::int64_t, std::int64_t) { ++offsets[static_cast<std::size_t>(key) + 1]; });
    std::int64_t position = 0;
    for (std::size_t i = 1; i < offsets.size(); ++i) {
      longest = std::max(longest, offsets[i]);
      position += std::exchange(offsets[i], position);
    }
    for_entries(p, [&](std::int64_t key, std::int64_t row_query, std::int64_t e) {
      const auto to = static_cast<std::size_t>(offsets[static_cast<std::size_t>(key) + 1]++);
      entry[to] = e;
      query[to] = static_cast<std::int32_t>(row_query);
    });
  }

 private:
  // visit(key counted over the batches, query, entry), in the order of the rows.
  template <class Visit>
  static void for_entries(const SparseProblem& p, const Visit& visit) {
    for (std::int64_t b = 0; b < p.batches; ++b)
      for (std::int64_t row_query = 0; row_query < p.queries; ++row_query) {
        const std::int64_t* offsets = p.lists.row_offsets + b * p.queries + row_query;
        for (std::int64_t e = offsets[0]; e < offsets[1]; ++e) visit(b * p.keys + p.lists.key_index[e], row_query, e);
      }
  }
};

using PartFunction = void (*)(const SparseJob&, std::int64_t, std::int64_t, std::int64_t, std::byte*);

// One task for every (batch, head, part), the parts of a head after each other.
void run_parts(const SparseJob& job, const SparseKernels& kernels, PartFunction function, std::int64_t parts) {
  const std::int64_t heads = job.problem.heads;
  run_tasks(job.problem.parallel, job.problem.batches * heads * parts, kernels.scratch(job),
            [&](std::int64_t task, std::byte* scratch) {
              function(job, task / parts / heads, task / parts % heads, task % parts, scratch);
            });
}

// What all jobs hold; rows are taken in `order`.
SparseJob job_of(const SparseProblem& problem, const std::vector<std::int32_t>& order) {
  SparseJob job{};
  job.problem = problem;
  job.order = order.data();
  job.longest_row = longest_row(problem);
  return job;
}

void run_by_rows(const SparseJob& job, const SparseKernels& kernels, PartFunction function) {
  run_parts(job, kernels, function, ceil_divide(job.problem.queries, kSparseRows));
}

void run_by_keys(SparseJob job, const SparseKernels& kernels, PartFunction function) {
  const ListsByKey lists(job.problem);
  job.longest_key = lists.longest;
  job.by_key_offsets = lists.offsets.data();
  job.by_key_entry = lists.entry.data();
  job.by_key_query = lists.query.data();
  run_parts(job, kernels, function, ceil_divide(job.problem.keys, kSparseKeys));
}

// The heads' shares of a value that they share, in their order.
void add_heads(const SparseProblem& p, const float* slopes, float* gradient) {
  constexpr std::int64_t kPart = 16384;
  run_tasks(p.parallel, ceil_divide(p.lists.entries, kPart), 0, [&](std::int64_t part, std::byte*) {
    const std::int64_t first = part * kPart, end = std::min(first + kPart, p.lists.entries);
    for (std::int64_t e = first; e < end; ++e) gradient[e] = slopes[e];
    for (std::int64_t h = 1; h < p.heads; ++h)
      for (std::int64_t e = first; e < end; ++e) gradient[e] += slopes[h * p.lists.entries + e];
  });
}

}  // namespace

void sparse_forward(const SparseProblem& problem, const SparseResult& result, Isa isa) {
  const SparseKernels& kernels = kernels_of(isa).sparse;
  if (problem.batches * problem.heads * problem.queries == 0) return;
  const std::vector<std::int32_t> order = order_of_rows(problem);
  SparseJob job = job_of(problem, order);
  job.result = result;
  run_by_rows(job, kernels, kernels.forward_rows);
}

void sparse_backward(const SparseProblem& problem, const BackwardInput& input, const SparseGradients& gradients,
                     Isa isa) {
  const SparseKernels& kernels = kernels_of(isa).sparse;
  if (problem.batches * problem.heads == 0) return;
  const std::int64_t all_entries = problem.heads * problem.lists.entries;
  const bool value_of_head = gradients.value != nullptr && problem.lists.heads == problem.heads;
  const bool by_keys = gradients.k.data != nullptr || gradients.v.data != nullptr;
  std::vector<float> weights(static_cast<std::size_t>(gradients.v.data == nullptr ? 0 : all_entries));
  const bool own_slopes = !value_of_head && (gradients.value != nullptr || gradients.k.data != nullptr);
  std::vector<float> slopes(static_cast<std::size_t>(own_slopes ? all_entries : 0));
  const std::vector<std::int32_t> order = order_of_rows(problem);
  SparseJob job = job_of(problem, order);
  job.input = input;
  job.wanted = gradients;
  job.weights = gradients.v.data == nullptr ? nullptr : weights.data();
  job.slopes = value_of_head ? gradients.value : own_slopes ? slopes.data() : nullptr;
  run_by_rows(job, kernels, kernels.backward_rows);
  if (gradients.value != nullptr && !value_of_head) add_heads(problem, job.slopes, gradients.value);
  if (!by_keys) return;
  run_by_keys(job, kernels, kernels.backward_keys);
}

void sparse_correct(const SparseProblem& problem, const Correction& correction, const SparseResult& result, Isa isa) {
  const SparseKernels& kernels = kernels_of(isa).sparse;
  if (problem.batches * problem.heads * problem.queries == 0) return;
  const std::vector<std::int32_t> order = order_of_rows(problem);
  SparseJob job = job_of(problem, order);
  job.result = result;
  job.correction = correction;
  run_by_rows(job, kernels, kernels.correct_rows);
}

void sparse_correct_backward(const SparseProblem& problem, const Correction& correction, const BackwardInput& input,
                             const SparseGradients& gradients, Isa isa) {
  const SparseKernels& kernels = kernels_of(isa).sparse;
  if (problem.batches * problem.heads == 0) return;
  const std::int64_t all_entries = problem.heads * problem.lists.entries;
  const bool value_of_head = gradients.value != nullptr && problem.lists.heads == problem.heads;
  const bool shared_value = gradients.value != nullptr && !value_of_head;
  const auto list = [&](bool wanted) { return std::vector<float>(static_cast<std::size_t>(wanted ? all_entries : 0)); };
  std::vector<float> weights = list(gradients.v.data != nullptr),
                     slopes = list(gradients.k.data != nullptr && correction.slopes == nullptr),
                     value_slopes = list(shared_value);
  const std::vector<std::int32_t> order = order_of_rows(problem);
  SparseJob job = job_of(problem, order);
  job.correction = correction;
  job.input = input;
  job.wanted = gradients;
  job.weights = weights.empty() ? nullptr : weights.data();
  job.slopes = correction.slopes != nullptr ? correction.slopes : slopes.empty() ? nullptr : slopes.data();
  job.value_slopes = value_of_head ? gradients.value : value_slopes.empty() ? nullptr : value_slopes.data();
  run_by_rows(job, kernels, kernels.correct_gradient_rows);
  if (shared_value) add_heads(problem, job.value_slopes, gradients.value);
  if (gradients.k.data == nullptr && gradients.v.data == nullptr) return;
  run_by_keys(job, kernels, kernels.correct_gradient_keys);
}

}  // namespace camber::kernels
