#pragma once
#include "kernels/few_rows.h"
#include "kernels/forward.h"

// Forward for at most kFewQueries queries without statistics. A task takes one batch and one range of key blocks with
// all heads, so that rows [B, K, H, D] are read as they lie in memory; what the ranges found is merged in their order.
namespace camber::kernels {
namespace {

struct FewScratch {
  float* queries;    // [heads][rows][key_stride], times softmax_scale * log2(e)
  float* outputs;    // [heads][rows][value_stride], sum of weight * v
  float* block_sum;  // [rows][value_stride], that of one block
  float* reference;  // [heads][rows]
  float* sums;       // [heads][rows][kLanes], sum of weights by lane
  float* strip;      // [rows][kForwardKeys], scores, then weights
  float* dropped;    // the same after dropout
  float* factors;    // [kForwardKeys]
  std::uint32_t* words;
};

struct FewSizes {
  int rows, key_width, value_width, key_stride, value_stride;
};

inline FewSizes few_sizes(const AttentionProblem& p) {
  return {static_cast<int>(p.queries), static_cast<int>(p.key_width), static_cast<int>(p.value_width),
          round_up(static_cast<int>(p.key_width), 2 * kLanes), round_up(static_cast<int>(p.value_width), 2 * kLanes)};
}

inline FewScratch lay_out_few(Arena& arena, const ForwardJob& job) {
  const FewSizes sizes = few_sizes(job.problem);
  const std::int64_t rows = job.problem.heads * sizes.rows;
  FewScratch s{};
  s.queries = arena.take<float>(rows * sizes.key_stride);
  s.outputs = arena.take<float>(rows * sizes.value_stride);
  s.block_sum = arena.take<float>(sizes.rows * sizes.value_stride);
  s.reference = arena.take<float>(rows);
  s.sums = arena.take<float>(rows * kLanes);
  s.strip = arena.take<float>(kFewQueries * kForwardKeys + kLanes);
  s.dropped = arena.take<float>(job.problem.dropout.probability > 0 ? kFewQueries * kForwardKeys + kLanes : 0);
  s.factors = arena.take<float>(kForwardKeys + kLanes);
  s.words = arena.take<std::uint32_t>(kForwardKeys + 64);
  return s;
}

struct FewTask {
  const ForwardJob& job;
  const AttentionProblem& problem;
  const KeyPlan& plan;
  FewScratch scratch;
  FewSizes sizes;
  std::int64_t batch;
};

template <class T>
inline void start_few(FewTask& task) {
  const AttentionProblem& p = task.problem;
  FewScratch& s = task.scratch;
  const Vec unit = broadcast(p.softmax_scale * kLog2E);
  for (std::int64_t head = 0; head < p.heads; ++head)
    for (int i = 0; i < task.sizes.rows; ++i) {
      const std::int64_t row = head * task.sizes.rows + i;
      const T* from = row_of<T>(p.q, task.batch, head, i);
      float* query = s.queries + row * task.sizes.key_stride;
      for (int d = 0; d < task.sizes.key_stride; d += kLanes) {
        const int left = task.sizes.key_width - d;
        store(query + d, left > 0 ? mul(load_floats(from + d, left), unit) : zero());
      }
      for (int d = 0; d < task.sizes.value_stride; d += kLanes)
        store(s.outputs + row * task.sizes.value_stride + d, zero());
      store(s.sums + row * kLanes, zero());
      s.reference[row] = kNegativeInfinity;
    }
}

// Bias, masks and the end of the block on the scores of one head.
inline void few_bias(FewTask& task, const KeyBlock& block, std::int64_t head) {
  const AttentionProblem& p = task.problem;
  float* strip = task.scratch.strip;
  const WindowPlan& plan = task.job.windows;
  const Stretches windows =
      stretches_of(plan, p.windows, head, plan_tile(plan, task.batch, 0), &block - task.plan.blocks);
  for (const WindowStretch& stretch : windows) {
    float* to = strip + stretch.offset;
    store(to, add_bias(load(to), stretch_values(windows, stretch, false)));
  }
  const HeadMasks masks = masks_of(p, task.batch, head);
  for (int i = 0; i < task.sizes.rows; ++i) {
    float* scores = strip + i * kForwardKeys;
    if (const float* values = segment_values(p, task.batch, head, i); values != nullptr && block.span_count > 0)
      add_segments(values, false, task.plan, block, scores);
    add_table(p, head, i, task.plan, block, scores);
    if (masks.mask != nullptr) add_mask(masks.mask + i * masks.mask_row, task.plan, block, scores);
    if (masks.blocked != nullptr) apply_blocked(masks.blocked + i * masks.blocked_row, task.plan, block, scores);
    for (int j = positions_before(task.plan, block, row_end(p, task.batch, i)); j < round_up(block.length, kPanel); ++j)
      scores[j] = kNegativeInfinity;
  }
}

// Scores of a row to weights; its reference rises to the largest one.
inline void few_weights(FewTask& task, const KeyBlock& block, std::int64_t row, float* scores) {
  FewScratch& s = task.scratch;
  const int width = round_up(block.length, kPanel);
  const float reference = raised_reference(scores, width, s.reference[row]);
  if (reference > s.reference[row]) {
    const Vec factor = exp2(broadcast(s.reference[row] - reference));
    s.reference[row] = reference;
    float* output = s.outputs + row * task.sizes.value_stride;
    for (int d = 0; d < task.sizes.value_stride; d += kLanes) store(output + d, mul(load(output + d), factor));
    store(s.sums + row * kLanes, mul(load(s.sums + row * kLanes), factor));
  }
  scores_to_weights(scores, width, reference);
  store(s.sums + row * kLanes, add(load(s.sums + row * kLanes), sum_of_weights(scores, width)));
}

inline const float* few_dropped(FewTask& task, const KeyBlock& block, std::int64_t head) {
  const Dropout& dropout = task.problem.dropout;
  FewScratch& s = task.scratch;
  if (dropout.probability == 0) return s.strip;
  for (int i = 0; i < task.sizes.rows; ++i) {
    const DropoutRow at{dropout.seed, static_cast<std::uint32_t>(task.batch), static_cast<std::uint32_t>(head),
                        static_cast<std::uint32_t>(i)};
    dropout_factors(at, static_cast<std::uint32_t>(dropout.probability * 4294967296.0),
                    static_cast<float>(1.0 / (1.0 - dropout.probability)), task.plan, block, s.words, s.factors);
    for (int j = 0; j < block.length; j += kLanes)
      store(s.dropped + i * kForwardKeys + j, mul(load(s.strip + i * kForwardKeys + j), load(s.factors + j)));
  }
  return s.dropped;
}

// A value that is not finite made a sum so: once more, and keys without weight add nothing (0 * NaN is NaN).
template <class T>
inline void sum_seen_values(FewTask& task, const KeyBlock& block, std::int64_t head, const float* weights, int row) {
  const ConstRows& v = task.problem.v;
  float* sum = task.scratch.block_sum + row * task.sizes.value_stride;
  for (int d = 0; d < task.sizes.value_width; ++d) sum[d] = 0;
  for (int r = 0; r < block.run_count; ++r) {
    const KeyRun& run = task.plan.runs[block.first_run + r];
    for (int j = 0; j < run.count; ++j) {
      const float weight = weights[row * kForwardKeys + run.position + j];
      const T* value = row_of<T>(v, task.batch, head, run.key + j);
      for (int d = 0; d < task.sizes.value_width && weight != 0; ++d) sum[d] += weight * to_float(value[d]);
    }
  }
}

template <class T, int M>
inline void few_block(FewTask& task, const KeyBlock& block, std::int64_t head) {
  const AttentionProblem& p = task.problem;
  FewScratch& s = task.scratch;
  const FewSizes& sizes = task.sizes;
  for (int r = 0; r < block.run_count; ++r) {
    const KeyRun& run = task.plan.runs[block.first_run + r];
    run_products<M, kForwardKeys>(s.queries + head * M * sizes.key_stride, sizes.key_stride,
                                  row_of<T>(p.k, task.batch, head, run.key), p.k.strides.row, sizes.key_width,
                                  run.count, s.strip + run.position);
  }
  few_bias(task, block, head);
  for (int i = 0; i < M; ++i) few_weights(task, block, head * M + i, s.strip + i * kForwardKeys);
  const float* weights = few_dropped(task, block, head);
  for (int i = 0; i < M * sizes.value_stride; i += kLanes) store(s.block_sum + i, zero());
  for (int r = 0; r < block.run_count; ++r) {
    const KeyRun& run = task.plan.runs[block.first_run + r];
    add_run_rows<M, kForwardKeys>(weights + run.position, row_of<T>(p.v, task.batch, head, run.key), p.v.strides.row,
                                  sizes.value_width, run.count, s.block_sum, sizes.value_stride);
  }
  for (int i = 0; i < M; ++i) {
    Vec check = zero();
    for (int d = 0; d < sizes.value_stride; d += kLanes)
      check = fma(load(s.block_sum + i * sizes.value_stride + d), zero(), check);
    if (!(sum_of(check) == 0)) sum_seen_values<T>(task, block, head, weights, i);
    float* output = s.outputs + (head * M + i) * sizes.value_stride;
    for (int d = 0; d < sizes.value_stride; d += kLanes)
      store(output + d, add(load(output + d), load(s.block_sum + i * sizes.value_stride + d)));
  }
}

// What one range found of one row: its reference, its sum of weights, its sum over values.
inline std::int64_t few_part_size(const FewSizes& sizes) {
  return kLanes + sizes.value_stride;
}

inline float* few_part(const ForwardJob& job, std::int64_t range, std::int64_t batch, std::int64_t row) {
  const FewSizes sizes = few_sizes(job.problem);
  const std::int64_t rows = job.problem.heads * sizes.rows;
  return job.partial + ((range * job.problem.batches + batch) * rows + row) * few_part_size(sizes);
}

// The ranges of a batch in their order: each is brought to the largest reference, then they add up.
template <class T>
inline void merge_few(const ForwardJob& job, std::int64_t batch) {
  const AttentionProblem& p = job.problem;
  const FewSizes sizes = few_sizes(p);
  const ForwardResult& result = job.result;
  for (std::int64_t row = 0; row < p.heads * sizes.rows; ++row) {
    const std::int64_t head = row / sizes.rows, query = row % sizes.rows;
    float reference = kNegativeInfinity, total = 0;
    for (std::int64_t range = 0; range < job.ranges; ++range) {
      const float other = few_part(job, range, batch, row)[0];
      reference = other > reference ? other : reference;
    }
    float* first = few_part(job, 0, batch, row);
    for (std::int64_t range = 0; range < job.ranges; ++range) {
      const float* part = few_part(job, range, batch, row);
      // A range without any key has the sum 0; one of NaN keeps it.
      const float exponent = part[0] == kNegativeInfinity ? 0.0f : part[0] - reference;
      const Vec factor = exp2(broadcast(exponent));
      total += part[1] * max_of(factor);
      for (int d = 0; d < sizes.value_stride; d += kLanes) {
        const Vec share = mul(load(part + kLanes + d), factor);
        store(first + kLanes + d, range == 0 ? share : add(load(first + kLanes + d), share));
      }
    }
    const float inverse = total == 0 ? 0 : 1 / total;
    T* to = static_cast<T*>(result.output) + batch * result.output_strides.batch + head * result.output_strides.head +
            query * result.output_strides.row;
    for (int d = 0; d < sizes.value_width; d += kLanes)
      store_floats(to + d, mul(load(first + kLanes + d), broadcast(inverse)), sizes.value_width - d);
    result.logsumexp[(batch * p.heads + head) * p.queries + query] =
        total == 0 ? kNegativeInfinity : (reference + __builtin_log2f(total)) * kLn2;
  }
}

template <class T>
inline void few_task_of(const ForwardJob& job, std::int64_t index, std::byte* memory) {
  const AttentionProblem& p = job.problem;
  const std::int64_t batch = index / job.ranges, range = index % job.ranges;
  Arena arena{memory};
  FewTask task{.job = job,
               .problem = p,
               .plan = job.plans[batch * job.plan_step],
               .scratch = lay_out_few(arena, job),
               .sizes = few_sizes(p),
               .batch = batch};
  const FewScratch& s = task.scratch;
  start_few<T>(task);
  const std::int64_t end = task.plan.block_count * (range + 1) / job.ranges;
  for (std::int64_t b = task.plan.block_count * range / job.ranges; b < end; ++b)
    for (std::int64_t head = 0; head < p.heads; ++head)
      with_few_rows(task.sizes.rows, [&]<int M>() { few_block<T, M>(task, task.plan.blocks[b], head); });
  for (std::int64_t row = 0; row < p.heads * task.sizes.rows; ++row) {
    float* part = few_part(job, range, batch, row);
    part[0] = s.reference[row];
    part[1] = sum_of(load(s.sums + row * kLanes));
    __builtin_memcpy(part + kLanes, s.outputs + row * task.sizes.value_stride,
                     static_cast<std::size_t>(task.sizes.value_stride) * sizeof(float));
  }
  if (job.ranges == 1) merge_few<T>(job, batch);
}

}  // namespace
}  // namespace camber::kernels
