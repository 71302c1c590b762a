#include <algorithm>
#include <vector>

#include "camber/kernels/attention.h"
#include "kernels/dispatch.h"
#include "kernels/key_plan.h"
#include "kernels/laid_table.h"
#include "kernels/slots.h"
#include "kernels/small_batches.h"
#include "kernels/window_plan.h"

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

// Boxes of rows whose window plans stay small: one, or parts of a batch where there are very many entries.
std::vector<RowBox> cut_rows(const AttentionProblem& p, std::int64_t task_rows) {
  constexpr std::int64_t kPlannedEntries = 1 << 19;
  const std::int64_t* offsets = p.windows.row_offsets;
  if (offsets == nullptr || offsets[p.batches * p.queries] - offsets[0] <= kPlannedEntries)
    return {{0, p.batches, 0, p.queries}};
  std::vector<RowBox> boxes;
  for (std::int64_t batch = 0; batch < p.batches; ++batch)
    for (std::int64_t query = 0, end; query < p.queries; query = end) {
      const std::int64_t* of_row = offsets + batch * p.queries;
      end = std::min(query + task_rows, p.queries);
      while (end < p.queries && of_row[std::min(end + task_rows, p.queries)] - of_row[query] <= kPlannedEntries)
        end = std::min(end + task_rows, p.queries);
      boxes.push_back({batch, 1, query, end - query});
    }
  return boxes;
}

// Few queries: ranges of key blocks by shape alone, enough tasks for many slots where there are keys enough.
void forward_few(const KernelTable& kernels, const KeyPlans& plans, ForwardJob& job) {
  constexpr std::int64_t kTasks = 32, kRangeBlocks = 4;
  const AttentionProblem& p = job.problem;
  std::int64_t blocks = 0;
  for (std::int64_t b = 0; b < (plans.step() == 0 ? 1 : p.batches); ++b)
    blocks = std::max(blocks, plans.of(b).block_count);
  job.ranges = std::clamp<std::int64_t>(blocks / kRangeBlocks, 1, ceil_divide(kTasks, p.batches));
  WindowPlans windows;
  windows.build(p, plans, {0, p.batches, 0, p.queries}, kernels.tile_rows, kernels.lanes, kForwardKeys);
  job.windows = windows.plan();
  const std::int64_t rows = p.batches * p.heads * p.queries;
  std::vector<float> partial(static_cast<std::size_t>(job.ranges * rows * kernels.few_part(job)));
  job.partial = partial.data();
  run_tasks(p.parallel, job.ranges * p.batches, kernels.few_scratch(job),
            [&](std::int64_t task, std::byte* scratch) { kernels.few_task(job, task, scratch); });
  if (job.ranges > 1)
    run_tasks(p.parallel, p.batches, 0, [&](std::int64_t batch, std::byte*) { kernels.few_merge(job, batch); });
}

}  // namespace

void forward(const AttentionProblem& problem, const ForwardResult& result) {
  forward(problem, result, chosen_isa());
}

void forward(const AttentionProblem& whole, const ForwardResult& result, Isa isa) {
  const KernelTable& kernels = kernels_for(whole, isa);
  if (whole.batches * whole.heads * whole.queries == 0) return;
  AttentionProblem problem = whole;
  const LaidTable table(problem);
  ForwardJob job{};
  job.problem = problem;
  job.problem.parallel.slots = slots_for(problem, 2);
  job.result = result;
  job.statistics = any_statistic(result.statistics);
  const KeyPlans plans(problem, kForwardKeys, problem.segments.value != nullptr || job.statistics);
  job.plans = plans.data();
  job.plan_step = plans.step();
  const bool few = problem.queries <= kernels.few_queries;
  if (few && !job.statistics) return forward_few(kernels, plans, job);
  job.task_rows = forward_rows(job.problem, kernels.tile_rows);
  const RowStatistics& wanted = result.statistics;
  if (problem.windows.row_offsets != nullptr && (wanted.entropy != nullptr || wanted.segment_mass != nullptr ||
                                                 wanted.change != nullptr || wanted.divergence != nullptr)) {
    constexpr std::int64_t kSideEntries = 1 << 19;
    while ((job.side_entries = most_entries(problem, job.task_rows)) > kSideEntries &&
           job.task_rows > kernels.tile_rows)
      job.task_rows = ceil_divide(job.task_rows / 2, kernels.tile_rows) * kernels.tile_rows;
  }
  WindowPlans windows;
  for (const RowBox& rows : cut_rows(problem, job.task_rows)) {
    windows.build(job.problem, plans, rows, kernels.tile_rows, kernels.lanes, kForwardKeys);
    job.windows = windows.plan();
    job.rows = rows;
    job.head_tasks = ceil_divide(rows.queries, job.task_rows);
    const std::int64_t head_tasks = problem.heads * job.head_tasks;
    run_batches(job.problem, {rows.batch, rows.batches, head_tasks, 1}, kernels.forward_scratch(job),
                {{problem.q, problem.queries, problem.key_width, problem.type},
                 {problem.k, problem.keys, problem.key_width, problem.type},
                 {problem.v, problem.keys, problem.value_width, problem.type},
                 {{result.output, result.output_strides}, problem.queries, problem.value_width, problem.type}},
                [&](std::int64_t batch, std::int64_t task, std::byte* scratch) {
                  kernels.forward_task(job, batch * head_tasks + task, scratch);
                });
  }
  // Few queries have the same output, to the bit, whether their statistics are wanted or not.
  if (few) forward_few(kernels, plans, job);
}

}  // namespace camber::kernels
