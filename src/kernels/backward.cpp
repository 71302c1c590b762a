#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "kernels/dispatch.h"
#include "kernels/key_plan.h"
#include "kernels/laid_table.h"
#include "kernels/slots.h"
#include "kernels/small_batches.h"
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
// `own_arrays`: each task has arrays of its own, so that only the shares of the table belong to the box.
std::vector<BackwardWave> cut_waves(const AttentionProblem& p, std::int64_t row_floats, bool one_batch, bool own_arrays,
                                    std::int64_t table_floats) {
  constexpr std::int64_t kWaveFloats = 8 << 20, kPlannedEntries = 1 << 20;
  const std::int64_t rows = std::max<std::int64_t>(kBackwardRows, kWaveFloats / row_floats);
  std::int64_t queries = std::min(p.queries, rows / kBackwardRows * kBackwardRows);
  while (queries > kBackwardRows && most_entries(p, queries) > kPlannedEntries)
    queries = ceil_divide(queries / 2, kBackwardRows) * kBackwardRows;
  const std::int64_t padded = ceil_divide(queries, kBackwardRows) * kBackwardRows;
  const std::int64_t heads = std::clamp<std::int64_t>(rows / padded, 1, p.heads);
  const std::int64_t planned = kPlannedEntries / std::max<std::int64_t>(1, most_entries(p, queries));
  const std::int64_t held =
      own_arrays ? kWaveFloats / std::max<std::int64_t>(1, heads * table_floats) : rows / (padded * heads);
  const std::int64_t batches = heads < p.heads || queries < p.queries || one_batch
                                   ? 1
                                   : std::clamp<std::int64_t>(std::min(planned, held), 1, p.batches);
  std::vector<BackwardWave> waves;
  for (std::int64_t b = 0; b < p.batches; b += batches)
    for (std::int64_t h = 0; h < p.heads; h += heads)
      for (std::int64_t q = 0; q < p.queries; q += queries)
        waves.push_back({b, std::min(batches, p.batches - b), h, std::min(heads, p.heads - h), q,
                         std::min(queries, p.queries - q)});
  return waves;
}

// Which arrays of a wave: all, the shares of the table alone, or those of its rows alone.
enum class Arrays { kAll, kTable, kRows };

// The arrays of a wave in one piece of memory.
class WaveArrays {
 public:
  // Sets the wave's padded rows.
  WaveArrays(BackwardJob& job, const KernelTable& kernels, Arrays which) {
    const bool table = which != Arrays::kRows, rest = which != Arrays::kTable;
    const AttentionProblem& p = job.problem;
    const BackwardWave& wave = job.wave;
    const std::int64_t lanes = kernels.lanes, unit = wave.queries < kBackwardRows ? kernels.tile_rows : kBackwardRows;
    job.padded_rows = ceil_divide(wave.queries, unit) * unit;
    const std::int64_t rows = wave.batches * wave.heads * job.padded_rows;
    const std::int64_t key_stride = ceil_divide(p.key_width, lanes) * lanes;
    const std::int64_t value_stride = ceil_divide(p.value_width, lanes) * lanes;
    const auto add = [&](bool wanted, float* BackwardJob::*array, std::int64_t floats) {
      if (!wanted) return;
      pieces_.push_back({array, floats_});
      floats_ += ceil_divide(floats, 16) * 16;
    };
    add(rest, &BackwardJob::query_tiles, rows * key_stride);
    add(rest, &BackwardJob::query_panels, rows * key_stride);
    add(rest, &BackwardJob::output_tiles, rows * value_stride);
    add(rest, &BackwardJob::output_panels, rows * value_stride);
    add(rest, &BackwardJob::row_terms, 2 * rows);
    add(rest && job.gradients.q.data != nullptr, &BackwardJob::partial_query, job.ranges * rows * key_stride);
    add(rest && job.gradients.segment_value != nullptr, &BackwardJob::partial_segment,
        job.ranges * wave.batches * p.segments.heads * job.padded_rows);
    add(table && job.gradients.table_value != nullptr, &BackwardJob::partial_table,
        ceil_divide(wave.batches, job.table_batches) * job.ranges * wave.heads * p.table.size);
  }

  std::int64_t floats() const { return floats_; }
  void place(BackwardJob& job, float* memory) const {
    for (const Piece& piece : pieces_) job.*piece.array = memory + piece.at;
  }

 private:
  struct Piece {
    float* BackwardJob::*array;
    std::int64_t at;
  };
  std::vector<Piece> pieces_;
  std::int64_t floats_ = 0;
};

// Memory for one wave after the other. Not cleared: its pages are first touched by the slots that fill them.
class WaveMemory {
 public:
  float* room_for(std::int64_t floats) {
    if (size_ >= floats) return memory_.get();
    memory_.reset();  // not kept beside the new one
    memory_.reset(static_cast<float*>(std::aligned_alloc(64, static_cast<std::size_t>(floats) * sizeof(float))));
    if (memory_ == nullptr) throw std::bad_alloc();
    size_ = floats;
    return memory_.get();
  }

 private:
  struct Free {
    void operator()(float* memory) const { std::free(memory); }
  };
  std::unique_ptr<float, Free> memory_;
  std::int64_t size_ = 0;
};

void finish_table(const KernelTable& kernels, const BackwardJob& job) {
  if (job.gradients.table_value == nullptr) return;
  const std::int64_t first = job.problem.table.heads == 1 ? 0 : job.wave.head;
  run_tasks(job.problem.parallel, job.problem.table.heads == 1 ? 1 : job.wave.heads, 0,
            [&](std::int64_t index, std::byte*) { kernels.backward_finish_table(job, first + index); });
}

// Ranges of keys share what is prepared of their queries.
void run_ranges(const KernelTable& kernels, BackwardJob& job, WaveMemory& memory) {
  const WaveArrays arrays(job, kernels, Arrays::kAll);
  arrays.place(job, memory.room_for(arrays.floats()));
  const ParallelFor& parallel = job.problem.parallel;
  const std::int64_t heads = job.wave.batches * job.wave.heads;
  run_tasks(
      parallel, heads, 0, [&](std::int64_t index, std::byte*) { kernels.backward_prepare(job, index); });
  run_tasks(
      parallel, job.ranges * heads / job.group_heads, kernels.backward_scratch(job),
      [&](std::int64_t index, std::byte* scratch) { kernels.backward_task(job, index, scratch); });
  run_tasks(parallel, heads, 0, [&](std::int64_t index, std::byte*) { kernels.backward_finish(job, index); });
  finish_table(kernels, job);
}

// One range: each task is a wave of its own in its slot's memory, so that what it prepares stays in the cache.
void run_single_range(const KernelTable& kernels, BackwardJob& job, WaveMemory& memory) {
  constexpr std::int64_t kShares = 32, kMostBatches = 8;  // enough for many slots
  if (job.gradients.table_value != nullptr)
    job.table_batches = std::clamp<std::int64_t>(job.wave.batches / kShares, 1, kMostBatches);
  const WaveArrays shares(job, kernels, Arrays::kTable);
  shares.place(job, memory.room_for(shares.floats()));
  const BackwardWave& wave = job.wave;
  const std::int64_t count = job.group_heads, groups = wave.heads / count;
  BackwardJob first = job;
  first.wave.batches = 1;
  first.wave.heads = count;
  const WaveArrays arrays(first, kernels, Arrays::kRows);
  const std::size_t scratch = (kernels.backward_scratch(first) + 63) / 64 * 64;
  const std::size_t bytes = scratch + static_cast<std::size_t>(arrays.floats()) * sizeof(float);
  const AttentionProblem& p = job.problem;
  const auto gradient = [](const GradientRows& to, std::int64_t rows, std::int64_t width) {
    return BatchRows{{to.data, to.strides}, rows, width, ElementType::float32};
  };
  const std::initializer_list<BatchRows> rows{{p.q, p.queries, p.key_width, p.type},
                                              {p.k, p.keys, p.key_width, p.type},
                                              {p.v, p.keys, p.value_width, p.type},
                                              {job.input.output, p.queries, p.value_width, p.type},
                                              {job.input.grad_output, p.queries, p.value_width, p.type},
                                              gradient(job.gradients.q, p.queries, p.key_width),
                                              gradient(job.gradients.k, p.keys, p.key_width),
                                              gradient(job.gradients.v, p.keys, p.value_width)};
  const SmallBatches batches{wave.batch, wave.batches, groups, job.table_batches};
  run_batches(p, batches, bytes, rows, [&](std::int64_t batch, std::int64_t group, std::byte* slot) {
    BackwardJob own = first;
    own.wave.batch = wave.batch + batch;
    own.wave.head = wave.head + group * count;
    own.adds_to_table = batch % job.table_batches != 0;
    if (job.partial_table != nullptr)
      own.partial_table =
          job.partial_table + (batch / job.table_batches * groups + group) * count * job.problem.table.size;
    arrays.place(own, reinterpret_cast<float*>(slot + scratch));
    for (std::int64_t h = 0; h < count; ++h) kernels.backward_prepare(own, h);
    kernels.backward_task(own, 0, slot);
    for (std::int64_t h = 0; h < count; ++h) kernels.backward_finish(own, h);
  });
  finish_table(kernels, job);
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
  job.table_batches = 1;
  const bool mask_of_batch = gradients.mask.data != nullptr && problem.mask.batches == 1 && problem.batches > 1;
  const bool mask_of_heads = gradients.mask.data != nullptr && problem.mask.heads == 1;
  const bool shared = mask_of_heads || (gradients.window_value != nullptr && problem.windows.heads == 1) ||
                      (gradients.segment_value != nullptr && problem.segments.heads == 1);
  job.few = problem.queries <= kernels.few_queries;
  job.interleave_heads = mask_of_heads && !job.few;
  const std::int64_t lanes = kernels.lanes;
  const std::int64_t row_floats =
      2 * (problem.key_width + problem.value_width + lanes) + job.ranges * (problem.key_width + lanes);
  WaveMemory memory;
  WindowPlans windows;
  const std::int64_t table_floats = gradients.table_value == nullptr ? 0 : problem.table.size;
  for (const BackwardWave& wave : cut_waves(problem, row_floats, mask_of_batch, job.ranges == 1, table_floats)) {
    job.wave = wave;
    job.group_heads = shared || job.few ? wave.heads : 1;
    windows.build(problem, plans, {wave.batch, wave.batches, wave.query, wave.queries}, kernels.tile_rows,
                  kernels.lanes, kBackwardKeys);
    job.windows = windows.plan();
    (job.ranges == 1 ? run_single_range : run_ranges)(kernels, job, memory);
  }
  table.gather(problem, wanted.table_value);
}

}  // namespace camber::kernels
