#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "kernels/dispatch.h"
#include "kernels/key_plan.h"
#include "kernels/laid_table.h"
#include "kernels/slots.h"
#include "kernels/window_plan.h"

namespace camber::kernels {
namespace {

// Calls visit(key, count) for the runs of keys that the plan left out.
template <class Visit>
void for_missing_keys(const KeyPlan& plan, std::int64_t keys, const Visit& visit) {
  std::int64_t next = 0;
  for (std::int64_t b = 0; b < plan.block_count; ++b)
    for (std::int32_t r = 0; r < plan.blocks[b].run_count; ++r) {
      const KeyRun& run = plan.runs[plan.blocks[b].first_run + r];
      if (run.key > next) visit(next, run.key - next);
      next = run.key + run.count;
    }
  if (keys > next) visit(next, keys - next);
}

// Gradients that no task writes: rows of k and v that nobody sees, their columns of the mask, sums that start at 0.
void clear_gradients(const AttentionProblem& p, const KeyPlans& plans, const Gradients& wanted) {
  if (wanted.window_value != nullptr) std::fill_n(wanted.window_value, p.windows.heads * p.windows.entries, 0.0f);
  if (wanted.segment_value != nullptr)
    std::fill_n(wanted.segment_value, p.batches * p.segments.heads * p.queries * p.segments.count, 0.0f);
  if (wanted.table_value != nullptr) std::fill_n(wanted.table_value, p.table.heads * p.table.size, 0.0f);
  const KeyPlan nothing{};
  bool missing = p.queries == 0;
  for (std::int64_t b = 0; b < (plans.step() == 0 ? 1 : p.batches) && !missing; ++b)
    for_missing_keys(plans.of(b), p.keys, [&](std::int64_t, std::int64_t) { missing = true; });
  if (!missing) return;
  run_tasks(p.parallel, p.batches * p.heads, 0, [&](std::int64_t index, std::byte*) {
    const std::int64_t batch = index / p.heads, head = index % p.heads;
    const KeyPlan& plan = p.queries == 0 ? nothing : plans.of(batch);
    const auto clear = [&](const GradientRows& to, std::int64_t row, std::int64_t rows, std::int64_t column,
                           std::int64_t width) {
      float* plane = to.data + batch * to.strides.batch + head * to.strides.head;
      for (std::int64_t i = row; i < row + rows; ++i) std::fill_n(plane + i * to.strides.row + column, width, 0.0f);
    };
    const bool first = (batch == 0 || p.mask.batches > 1) && (head == 0 || p.mask.heads > 1);
    for_missing_keys(plan, p.keys, [&](std::int64_t key, std::int64_t count) {
      if (wanted.k.data != nullptr) clear(wanted.k, key, count, 0, p.key_width);
      if (wanted.v.data != nullptr) clear(wanted.v, key, count, 0, p.value_width);
      if (wanted.mask.data != nullptr && first) clear(wanted.mask, 0, p.queries, key, count);
    });
  });
}

// Key ranges of a batch: enough tasks for many slots, even where a gradient that all heads share keeps the heads
// together. By shape alone, so that dq has the same bits for any number of slots and any set of wanted gradients.
std::int64_t range_count(const AttentionProblem& p, const KeyPlans& plans) {
  constexpr std::int64_t kTasks = 16;
  std::int64_t most = 1;
  for (std::int64_t b = 0; b < p.batches; ++b) most = std::max(most, plans.of(b).block_count);
  return std::min(most, std::max<std::int64_t>(1, ceil_divide(kTasks, p.batches)));
}

// Boxes of (batches, heads, queries) whose arrays stay below kWaveFloats and whose windows are few enough to plan.
std::vector<BackwardWave> cut_waves(const AttentionProblem& p, std::int64_t row_floats, bool one_batch) {
  constexpr std::int64_t kWaveFloats = 8 << 20, kPlannedEntries = 1 << 20;
  // Many small batches: a wave that stays in the cache from prepare to finish, as long as it has tasks for many slots.
  constexpr std::int64_t kCachedFloats = 1 << 20, kWaveTasks = 64;
  const std::int64_t rows = std::max<std::int64_t>(kBackwardRows, kWaveFloats / row_floats);
  std::int64_t queries = std::min(p.queries, rows / kBackwardRows * kBackwardRows);
  while (queries > kBackwardRows && most_entries(p, queries) > kPlannedEntries)
    queries = ceil_divide(queries / 2, kBackwardRows) * kBackwardRows;
  const std::int64_t padded = ceil_divide(queries, kBackwardRows) * kBackwardRows;
  const std::int64_t heads = std::clamp<std::int64_t>(rows / padded, 1, p.heads);
  const std::int64_t planned = kPlannedEntries / std::max<std::int64_t>(1, most_entries(p, queries));
  const std::int64_t cached = std::max(ceil_divide(kWaveTasks, heads), kCachedFloats / (row_floats * padded * heads));
  const std::int64_t batches =
      heads < p.heads || queries < p.queries || one_batch
          ? 1
          : std::clamp<std::int64_t>(std::min({planned, cached, rows / (padded * heads)}), 1, p.batches);
  std::vector<BackwardWave> waves;
  for (std::int64_t b = 0; b < p.batches; b += batches)
    for (std::int64_t h = 0; h < p.heads; h += heads)
      for (std::int64_t q = 0; q < p.queries; q += queries)
        waves.push_back({b, std::min(batches, p.batches - b), h, std::min(heads, p.heads - h), q,
                         std::min(queries, p.queries - q)});
  return waves;
}

// The arrays of a wave in one piece of memory.
class WaveArrays {
 public:
  void lay_out(BackwardJob& job, int tile_rows, int lanes) {
    const AttentionProblem& p = job.problem;
    const BackwardWave& wave = job.wave;
    const std::int64_t unit = wave.queries < kBackwardRows ? tile_rows : kBackwardRows;
    job.padded_rows = ceil_divide(wave.queries, unit) * unit;
    const std::int64_t rows = wave.batches * wave.heads * job.padded_rows;
    const std::int64_t key_stride = ceil_divide(p.key_width, lanes) * lanes;
    const std::int64_t value_stride = ceil_divide(p.value_width, lanes) * lanes;
    std::vector<std::pair<float**, std::int64_t>> pieces{{&job.query_tiles, rows * key_stride},
                                                         {&job.query_panels, rows * key_stride},
                                                         {&job.output_tiles, rows * value_stride},
                                                         {&job.output_panels, rows * value_stride},
                                                         {&job.row_terms, 2 * rows}};
    if (job.gradients.q.data != nullptr) pieces.emplace_back(&job.partial_query, job.ranges * rows * key_stride);
    if (job.gradients.segment_value != nullptr)
      pieces.emplace_back(&job.partial_segment, job.ranges * wave.batches * p.segments.heads * job.padded_rows);
    if (job.gradients.table_value != nullptr)
      pieces.emplace_back(&job.partial_table, wave.batches * job.ranges * wave.heads * p.table.size);
    std::int64_t total = 0;
    for (const auto& [pointer, count] : pieces) total += ceil_divide(count, 16) * 16;
    if (size_ < total) {
      memory_.reset();  // not kept beside the new one
      memory_.reset(static_cast<float*>(std::aligned_alloc(64, static_cast<std::size_t>(total) * sizeof(float))));
      if (memory_ == nullptr) throw std::bad_alloc();
      size_ = total;
    }
    float* at = memory_.get();
    for (const auto& [pointer, count] : pieces) {
      *pointer = at;
      at += ceil_divide(count, 16) * 16;
    }
  }

 private:
  struct Free {
    void operator()(float* memory) const { std::free(memory); }
  };
  // Not cleared: its pages are first touched by the slots that fill them.
  std::unique_ptr<float, Free> memory_;
  std::int64_t size_ = 0;
};

void run_wave(const KernelTable& kernels, const BackwardJob& job) {
  const ParallelFor& parallel = job.problem.parallel;
  const std::int64_t rows_of_heads = job.wave.batches * job.wave.heads;
  const auto prepare = [&](std::int64_t index, std::byte*) { kernels.backward_prepare(job, index); };
  const auto task = [&](std::int64_t index, std::byte* scratch) { kernels.backward_task(job, index, scratch); };
  const auto finish = [&](std::int64_t index, std::byte*) { kernels.backward_finish(job, index); };
  const std::int64_t tasks = rows_of_heads / job.group_heads;
  if (job.ranges == 1) {  // a task's heads are its own: what it prepares is still in the cache
    run_tasks(parallel, tasks, kernels.backward_scratch(job), [&](std::int64_t index, std::byte* scratch) {
      for (std::int64_t h = 0; h < job.group_heads; ++h) prepare(index * job.group_heads + h, scratch);
      task(index, scratch);
      for (std::int64_t h = 0; h < job.group_heads; ++h) finish(index * job.group_heads + h, scratch);
    });
  } else {
    run_tasks(parallel, rows_of_heads, 0, prepare);
    run_tasks(parallel, job.ranges * tasks, kernels.backward_scratch(job), task);
    run_tasks(parallel, rows_of_heads, 0, finish);
  }
  if (job.gradients.table_value == nullptr) return;
  const std::int64_t first = job.problem.table.heads == 1 ? 0 : job.wave.head;
  run_tasks(parallel, job.problem.table.heads == 1 ? 1 : job.wave.heads, 0,
            [&](std::int64_t index, std::byte*) { kernels.backward_finish_table(job, first + index); });
}

}  // namespace

void backward(const AttentionProblem& problem, const BackwardInput& input, const Gradients& gradients) {
  backward(problem, input, gradients, chosen_isa());
}

void backward(const AttentionProblem& whole, const BackwardInput& input, const Gradients& wanted, Isa isa) {
  const KernelTable& kernels = kernels_for(whole, isa);
  AttentionProblem problem = whole;
  LaidTable table(problem);
  Gradients gradients = wanted;
  gradients.table_value = table.room_for(wanted.table_value);
  problem.parallel.slots = slots_for(whole, 5);
  const KeyPlans plans(problem, kBackwardKeys, problem.segments.value != nullptr);
  if (problem.batches * problem.heads == 0) return;
  clear_gradients(problem, plans, gradients);
  if (problem.queries == 0) return;

  BackwardJob job{};
  job.problem = problem;
  job.input = input;
  job.gradients = gradients;
  job.plans = plans.data();
  job.plan_step = plans.step();
  job.ranges = range_count(problem, plans);
  const bool mask_of_batch = gradients.mask.data != nullptr && problem.mask.batches == 1 && problem.batches > 1;
  const bool mask_of_heads = gradients.mask.data != nullptr && problem.mask.heads == 1;
  const bool shared = mask_of_heads || (gradients.window_value != nullptr && problem.windows.heads == 1) ||
                      (gradients.segment_value != nullptr && problem.segments.heads == 1);
  job.few = problem.queries <= kernels.few_queries;
  job.interleave_heads = mask_of_heads && !job.few;
  const std::int64_t lanes = kernels.lanes;
  const std::int64_t row_floats =
      2 * (problem.key_width + problem.value_width + lanes) + job.ranges * (problem.key_width + lanes);
  WaveArrays arrays;
  WindowPlans windows;
  for (const BackwardWave& wave : cut_waves(problem, row_floats, mask_of_batch)) {
    job.wave = wave;
    job.group_heads = shared || job.few ? wave.heads : 1;
    arrays.lay_out(job, kernels.tile_rows, kernels.lanes);
    windows.build(problem, plans, {wave.batch, wave.batches, wave.query, wave.queries}, kernels.tile_rows,
                  kernels.lanes, kBackwardKeys);
    job.windows = windows.plan();
    run_wave(kernels, job);
  }
  table.gather(problem, wanted.table_value);
}

}  // namespace camber::kernels
