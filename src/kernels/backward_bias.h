#pragma once
#include "kernels/backward_tile.h"

// The slopes of a tile of queries added to the gradients of windows, segments and mask.
namespace camber::kernels {
namespace {

inline void add_window_gradient(BackwardTask& task, const BackwardTile& tile, const KeyBlock& block) {
  const WindowBias& windows = task.problem.windows;
  float* gradient = task.wanted.window_value + (windows.heads == 1 ? 0 : tile.head) * windows.entries;
  for (int row = 0; row < tile.rows; row += kTileRows)
    for (const WindowStretch& stretch : windows_of(task, tile, block, row)) {
      const Vec slope = load(task.scratch.slopes + row * kBackwardKeys + stretch.offset);
      float* to = gradient + stretch.entry;
      store_first(to, add(load_first(to, stretch.count), slope), stretch.count);
    }
}

inline float sum_of_span(const float* slopes, int count) {
  Vec sum = zero();
  for (int j = 0; j < count; j += kLanes) sum = add(sum, first_of(load(slopes + j), count - j));
  return sum_of(sum);
}

inline void add_segment_gradient(BackwardTask& task, const BackwardTile& tile, const KeyBlock& block) {
  const AttentionProblem& p = task.problem;
  const BackwardWave& wave = task.job.wave;
  const std::int64_t heads = p.segments.heads, head = heads == 1 ? 0 : tile.head;
  // Shares of the continued segment, [range, batch of the wave, head, row of the wave].
  float* share = task.job.partial_segment +
                 ((task.range * wave.batches + task.batch - wave.batch) * heads + head) * task.job.padded_rows;
  float* gradient = task.wanted.segment_value + (task.batch * heads + head) * p.queries * p.segments.count;
  for (int i = 0; i < tile.rows; ++i)
    for (int s = 0; s < block.span_count; ++s) {
      const SegmentSpan& span = task.plan.spans[block.first_span + s];
      const float sum = sum_of_span(task.scratch.slopes + i * kBackwardKeys + span.position, span.count);
      if (span.segment == task.continued_segment)
        share[tile.first_row + i] += sum;
      else
        gradient[query_of(task, tile.first_row + i) * p.segments.count + span.segment] += sum;
    }
}

// The share of a head's table that a batch's task adds to.
inline float* table_share(const BackwardJob& job, std::int64_t batch, std::int64_t range, std::int64_t head) {
  const BackwardWave& wave = job.wave;
  const std::int64_t share = (batch - wave.batch) / job.table_batches;
  return job.partial_table + ((share * job.ranges + range) * wave.heads + head - wave.head) * job.problem.table.size;
}

inline void add_table_gradient(BackwardTask& task, const BackwardTile& tile, const KeyBlock& block) {
  float* share = table_share(task.job, task.batch, task.range, tile.head);
  for (int row = 0; row < tile.rows; ++row) {
    const float* slopes = task.scratch.slopes + row * kBackwardKeys;
    for_table(task.problem, query_of(task, tile.first_row + row), task.plan, block,
              [&](int position, int count, int first, const std::int32_t* indices) {
                if (indices == nullptr)
                  store_first(share + first, add(load_floats(share + first, count), load(slopes + position)), count);
                else
                  for (int i = 0; i < count; ++i) share[indices[i]] += slopes[position + i];
              });
  }
}

// The first head (and batch) that a shared mask serves writes, the others add.
inline void write_mask_gradient(BackwardTask& task, const BackwardTile& tile, const KeyBlock& block) {
  const FloatMask& mask = task.problem.mask;
  const GradientRows& gradient = task.wanted.mask;
  const bool adds = (mask.heads == 1 && tile.head > 0) || (mask.batches == 1 && task.batch > 0);
  float* plane = gradient.data + (mask.batches == 1 ? 0 : task.batch * gradient.strides.batch) +
                 (mask.heads == 1 ? 0 : tile.head * gradient.strides.head);
  for (int i = 0; i < tile.rows; ++i)
    for (int r = 0; r < block.run_count; ++r) {
      const KeyRun& run = task.plan.runs[block.first_run + r];
      const float* slopes = task.scratch.slopes + i * kBackwardKeys + run.position;
      float* to = plane + query_of(task, tile.first_row + i) * gradient.strides.row + run.key;
      for (int j = 0; j < run.count; j += kLanes) {
        const Vec slope = load(slopes + j);
        store_first(to + j, adds ? add(load_first(to + j, run.count - j), slope) : slope, run.count - j);
      }
    }
}

// A tile none of whose rows sees a key of the block: a mask's gradient is 0 there, where it is not one more to add.
inline void skip_mask_gradient(BackwardTask& task, const BackwardTile& tile, const KeyBlock& block) {
  if (task.wanted.mask.data == nullptr) return;
  for (int i = 0; i < tile.rows * kBackwardKeys; ++i) task.scratch.slopes[i] = 0;
  write_mask_gradient(task, tile, block);
}

inline void add_bias_gradients(BackwardTask& task, const BackwardTile& tile, const KeyBlock& block) {
  if (task.wanted.window_value != nullptr) add_window_gradient(task, tile, block);
  if (task.wanted.segment_value != nullptr) add_segment_gradient(task, tile, block);
  if (task.wanted.table_value != nullptr) add_table_gradient(task, tile, block);
  if (task.wanted.mask.data != nullptr) write_mask_gradient(task, tile, block);
}

}  // namespace
}  // namespace camber::kernels
