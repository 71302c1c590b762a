#pragma once
#include "kernels/backward_bias.h"
#include "kernels/few_rows.h"
#include "kernels/forward.h"

// Backward of at most kFewQueries queries: rows of k and v are read where they lie, those of dk and dv written at once.
namespace camber::kernels {
namespace {

// The share of a tile's dq that this range has.
inline float* query_share(const BackwardTask& task, const BackwardTile& tile) {
  const BackwardJob& job = task.job;
  const std::int64_t base = tile.in_wave * job.padded_rows + tile.first_row;
  return job.partial_query +
         (task.range * job.wave.batches * job.wave.heads * job.padded_rows + base) * task.sizes.key_stride;
}

// Plain rows, padded with zeros: q times softmax_scale * log2(e) in query_tiles, q without what is not finite in
// query_panels, grad_output in output_panels.
inline void prepare_few(const BackwardJob& job, std::int64_t base, int rows, const float* const* q_rows,
                        const float* const* grad_rows) {
  const BackwardSizes sizes = sizes_of(job.problem);
  const Vec unit = broadcast(job.problem.softmax_scale * kLog2E);
  for (int i = 0; i < rows; ++i) {
    float* scaled = job.query_tiles + (base + i) * sizes.key_stride;
    float* plain = job.query_panels + (base + i) * sizes.key_stride;
    float* grad = job.output_panels + (base + i) * sizes.value_stride;
    for (int d = 0; d < sizes.key_width; d += kLanes) {
      const Vec x = load_floats(q_rows[i] + d, sizes.key_width - d);
      store(scaled + d, mul(x, unit));
      store(plain + d, x);
    }
    clear_non_finite(plain, sizes.key_stride);
    for (int d = 0; d < sizes.value_width; d += kLanes)
      store(grad + d, load_floats(grad_rows[i] + d, sizes.value_width - d));
  }
}

// The weights and slopes of the tile on the block.
template <class T, int M>
inline void few_slopes(BackwardTask& task, const BackwardTile& tile, const KeyBlock& block) {
  const AttentionProblem& p = task.problem;
  const BackwardJob& job = task.job;
  const BackwardSizes& sizes = task.sizes;
  float *weights = task.scratch.weights, *slopes = task.scratch.slopes;
  const std::int64_t base = tile.in_wave * job.padded_rows;
  for (int r = 0; r < block.run_count; ++r) {
    const KeyRun& run = task.plan.runs[block.first_run + r];
    run_products<M, kBackwardKeys>(job.query_tiles + base * sizes.key_stride, sizes.key_stride,
                                   row_of<T>(p.k, task.batch, tile.head, run.key), p.k.strides.row, sizes.key_width,
                                   run.count, weights + run.position);
    if (task.slopes_wanted)
      run_products<M, kBackwardKeys>(job.output_panels + base * sizes.value_stride, sizes.value_stride,
                                     row_of<T>(p.v, task.batch, tile.head, run.key), p.v.strides.row, sizes.value_width,
                                     run.count, slopes + run.position);
  }
  const int width = round_up(block.length, kPanel);
  const Stretches windows = windows_of(task, tile, block, 0);
  for (const WindowStretch& stretch : windows) {
    float* to = weights + stretch.offset;
    store(to, add_bias(load(to), stretch_values(windows, stretch, false)));
  }
  float floor[M];
  find_floors<M>(task, tile, block, 0, M, floor);
  const float* delta = row_terms(task, tile) + job.padded_rows;
  for (int i = 0; i < M; ++i) general_weights(task, tile, block, i, floor[i], weights + i * kBackwardKeys);
  clear_rows_without_keys(floor, M, width, weights);
  for (int i = 0; i < M; ++i)
    general_slopes(task, tile, block, i, delta[i], weights + i * kBackwardKeys, slopes + i * kBackwardKeys);
}

// row of the key = factor * sum over i of weights[i][key] * rows[i], for the keys of a run.
template <int M>
inline void write_few_rows(const float* weights, const float* rows, int row_stride, int width, int count, float factor,
                           float* to, std::int64_t to_stride) {
  for (int column = 0; column < width; column += kLanes) {
    Vec row[M];
    for (int i = 0; i < M; ++i) row[i] = mul(load(rows + i * row_stride + column), broadcast(factor));
    for (int j = 0; j < count; ++j) {
      Vec sum = mul(broadcast(weights[j]), row[0]);
#pragma GCC unroll 4
      for (int i = 1; i < M; ++i) multiply_add(sum, broadcast(weights[i * kBackwardKeys + j]), row[i]);
      store_first(to + j * to_stride + column, sum, width - column);
    }
  }
}

// dq of the tile on the block. Where a key made a sum not finite: once more, and keys without slope add nothing.
template <class T, int M>
inline void add_few_queries(BackwardTask& task, const BackwardTile& tile, const KeyBlock& block) {
  const ConstRows& k = task.problem.k;
  const BackwardSizes& sizes = task.sizes;
  float sums[M * (kLargestWidth + kPanel)];
  const int stride = round_up(sizes.key_width, kPanel);
  for (int i = 0; i < M * stride; ++i) sums[i] = 0;
  for (int r = 0; r < block.run_count; ++r) {
    const KeyRun& run = task.plan.runs[block.first_run + r];
    add_run_rows<M, kBackwardKeys>(task.scratch.slopes + run.position, row_of<T>(k, task.batch, tile.head, run.key),
                                   k.strides.row, sizes.key_width, run.count, sums, stride);
  }
  float* share = query_share(task, tile);
  for (int i = 0; i < M; ++i) {
    float check = 0, *sum = sums + i * stride;
    for (int d = 0; d < sizes.key_width; ++d) check += 0 * sum[d];
    for (int d = 0; d < sizes.key_width && !(check == 0); ++d) sum[d] = 0;
    for (int r = 0; r < block.run_count && !(check == 0); ++r) {
      const KeyRun& run = task.plan.runs[block.first_run + r];
      for (int j = 0; j < run.count; ++j) {
        const float slope = task.scratch.slopes[i * kBackwardKeys + run.position + j];
        const T* key = row_of<T>(k, task.batch, tile.head, run.key + j);
        for (int d = 0; d < sizes.key_width && slope != 0; ++d) sum[d] += slope * to_float(key[d]);
      }
    }
    for (int d = 0; d < sizes.key_stride; d += kLanes)
      store(share + i * sizes.key_stride + d, add(load(share + i * sizes.key_stride + d), load(sum + d)));
  }
}

template <class T>
inline void few_backward_tile(BackwardTask& task, const BackwardTile& tile, const KeyBlock& block) {
  const BackwardJob& job = task.job;
  const BackwardSizes& sizes = task.sizes;
  const std::int64_t base = tile.in_wave * job.padded_rows;
  with_few_rows(tile.rows, [&]<int M>() {
    few_slopes<T, M>(task, tile, block);
    if (task.wanted.q.data != nullptr) add_few_queries<T, M>(task, tile, block);
    for (int r = 0; r < block.run_count; ++r) {
      const KeyRun& run = task.plan.runs[block.first_run + r];
      const auto to = [&](const GradientRows& rows) {
        return rows.data + task.batch * rows.strides.batch + tile.head * rows.strides.head + run.key * rows.strides.row;
      };
      if (task.wanted.k.data != nullptr)
        write_few_rows<M>(task.scratch.slopes + run.position, job.query_panels + base * sizes.key_stride,
                          sizes.key_stride, sizes.key_width, run.count, task.problem.softmax_scale, to(task.wanted.k),
                          task.wanted.k.strides.row);
      if (task.wanted.v.data != nullptr)
        write_few_rows<M>(task.scratch.weights + run.position, job.output_panels + base * sizes.value_stride,
                          sizes.value_stride, sizes.value_width, run.count, 1.0f, to(task.wanted.v),
                          task.wanted.v.strides.row);
    }
  });
  add_bias_gradients(task, tile, block);
}

}  // namespace
}  // namespace camber::kernels
