#include <algorithm>

#include "kernels/attention.h"
#include "kernels/dispatch.h"
#include "kernels/key_plan.h"
#include "kernels/slots.h"

namespace camber::kernels {
namespace {

bool any_statistic(const RowStatistics& wanted) {
  return wanted.entropy != nullptr || wanted.largest_weight != nullptr || wanted.sum_of_squares != nullptr ||
         wanted.segment_mass != nullptr || wanted.change != nullptr || wanted.divergence != nullptr ||
         wanted.keys_left != nullptr;
}

// Query rows of a forward task. Many rows share the cost of packing a key block, but q and the outputs should stay in
// the second-level cache and every slot needs several tasks. A row's bits do not depend on the choice.
std::int64_t forward_rows(const AttentionProblem& p, int tile_rows) {
  constexpr std::int64_t kCachedFloats = 65536, kTasksOfSlot = 4;
  const std::int64_t slots = p.parallel.run == nullptr ? 1 : std::max<std::int64_t>(1, p.parallel.slots);
  const std::int64_t cached = std::clamp<std::int64_t>(kCachedFloats / (p.key_width + p.value_width), 96, 1024);
  const std::int64_t pieces =
      std::max(ceil_divide(p.queries, cached), ceil_divide(kTasksOfSlot * slots, p.batches * p.heads));
  return ceil_divide(ceil_divide(p.queries, pieces), tile_rows) * tile_rows;
}

// Window entries of the largest task.
std::int64_t largest_task_entries(const AttentionProblem& p, std::int64_t task_rows) {
  std::int64_t largest = 0;
  for (std::int64_t batch = 0; batch < p.batches; ++batch)
    for (std::int64_t row = 0; row < p.queries; row += task_rows) {
      const std::int64_t* offsets = p.windows.row_offsets + batch * p.queries;
      largest = std::max(largest, offsets[std::min(row + task_rows, p.queries)] - offsets[row]);
    }
  return largest;
}

}  // namespace

void forward(const AttentionProblem& problem, const ForwardResult& result) {
  forward(problem, result, chosen_isa());
}

void forward(const AttentionProblem& problem, const ForwardResult& result, Isa isa) {
  const KernelTable& kernels = kernels_for(problem, isa);
  if (problem.batches * problem.heads * problem.queries == 0) return;
  ForwardJob job{};
  job.problem = problem;
  job.result = result;
  job.statistics = any_statistic(result.statistics);
  const KeyPlans plans(problem, kForwardKeys, problem.segments.value != nullptr || job.statistics);
  job.plans = plans.data();
  job.plan_step = plans.step();
  job.task_rows = forward_rows(problem, kernels.tile_rows);
  const RowStatistics& wanted = result.statistics;
  if (problem.windows.row_offsets != nullptr &&
      (wanted.segment_mass != nullptr || wanted.change != nullptr || wanted.divergence != nullptr)) {
    constexpr std::int64_t kSideEntries = 1 << 19;
    while ((job.side_entries = largest_task_entries(problem, job.task_rows)) > kSideEntries &&
           job.task_rows > kernels.tile_rows)
      job.task_rows = ceil_divide(job.task_rows / 2, kernels.tile_rows) * kernels.tile_rows;
  }
  job.head_tasks = ceil_divide(problem.queries, job.task_rows);
  run_tasks(problem.parallel, problem.batches * problem.heads * job.head_tasks, kernels.forward_scratch(job),
            [&](std::int64_t task, std::byte* scratch) { kernels.forward_task(job, task, scratch); });
}

}  // namespace camber::kernels
