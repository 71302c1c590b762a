#pragma once
#include "kernels/backward_prepare.h"

// The backward pass of a wave, in three phases:
//   prepare  q and grad_output of each (batch, head) in tiles and panels, logsumexp and delta of its rows
//   task     for every key block of a range: for every tile of queries: weights and slopes are recomputed, then
//            dv += p^T grad_output,  dk += dz^T q,  dq += dz k,  bias gradients
//   finish   the ranges' shares of dq and of segments are added in order
namespace camber::kernels {
namespace {

inline void zero_floats(float* at, std::int64_t count) {
  __builtin_memset(at, 0, static_cast<std::size_t>(count) * sizeof(float));
}

#ifdef CAMBER_BF16_PRODUCTS
// The rows of a block in pairs of bfloat16.
inline void pair_head_block(BackwardTask& task, const KeyBlock& block, HeadBlock& to) {
  using T = std::uint16_t;
  const BackwardSizes& sizes = task.sizes;
  BackwardScratch& s = task.scratch;
  const int width = round_up(block.length, kPanel);
  if (task.wanted.q.data != nullptr) {
    auto* panels = words_of<BfloatNumbers>(to.key_panels);
    BfloatNumbers::pack_values<T>(s.key_rows, block.length, sizes.key_width, nullptr, panels);
    BfloatNumbers::clear_non_finite_words(panels, (block.length + 1) / 2 * sizes.key_stride);
  }
  if (task.slopes_wanted) {
    auto* values = words_of<BfloatNumbers>(to.values);
    BfloatNumbers::pack_keys<T>(s.value_rows, block.length, sizes.value_width, s.staged, values);
    BfloatNumbers::clear_non_finite_words(values, width * words_in<BfloatNumbers>(sizes.value_width));
  }
  BfloatNumbers::pack_keys<T>(s.key_rows, block.length, sizes.key_width, s.staged, words_of<BfloatNumbers>(to.keys));
}
#endif

inline void zero_gradients(const BackwardSizes& sizes, int keys, HeadBlock& to) {
  zero_floats(to.grad_keys, keys * sizes.key_stride);
  zero_floats(to.grad_values, keys * sizes.value_stride);
}

template <class Numbers, class T>
inline void pack_head_block(BackwardTask& task, const KeyBlock& block, std::int64_t head, HeadBlock& to) {
  const AttentionProblem& p = task.problem;
  const BackwardSizes& sizes = task.sizes;
  BackwardScratch& s = task.scratch;
  for (int r = 0; r < block.run_count; ++r) {
    const KeyRun& run = task.plan.runs[block.first_run + r];
    for (int i = 0; i < run.count; ++i) {
      s.key_rows[run.position + i] = row_of<T>(p.k, task.batch, head, run.key + i);
      s.value_rows[run.position + i] = row_of<T>(p.v, task.batch, head, run.key + i);
    }
  }
  const int width = round_up(block.length, kPanel);
  for (int i = block.length; i < width; ++i) s.key_rows[i] = s.value_rows[i] = s.zeros;
  zero_gradients(sizes, width, to);
#ifdef CAMBER_BF16_PRODUCTS
  if constexpr (Numbers::kPerWord > 1) return pair_head_block(task, block, to);
#endif
  const float* const* keys = FloatNumbers::float_rows<T>(s.key_rows, block.length, sizes.key_width, s.staged);
  pack_transposed(keys, block.length, sizes.key_width, to.keys);
  const Vec unit = broadcast(p.softmax_scale * kLog2E);
  for (int i = 0; i < width * sizes.key_width; i += kLanes) store(to.keys + i, mul(load(to.keys + i), unit));
  // A row that gives such a key a weight is NaN by its logsumexp or its delta.
  if (task.slopes_wanted) {
    pack_transposed(FloatNumbers::float_rows<T>(s.value_rows, block.length, sizes.value_width,
                                                s.staged + kBackwardKeys * sizes.key_width),
                    block.length, sizes.value_width, to.values);
    clear_non_finite(to.values, width * sizes.value_width);
  }
  if (task.wanted.q.data != nullptr) {
    pack_row_panels(keys, block.length, sizes.key_width, to.key_panels);
    clear_non_finite(to.key_panels, block.length * sizes.key_stride);
  }
}

// dq, dk and dv of a tile from its weights and slopes.
inline void add_tile_queries(BackwardTask& task, const BackwardTile& tile, const KeyBlock& block, int row, int rows) {
  float* partial = query_share(task, tile) + row * task.sizes.key_stride;
  with_tile_rows(rows, [&]<int M>() {
    add_product<FloatNumbers, kBackwardKeys, 1, M>(task.scratch.slopes + row * kBackwardKeys,
                                                   tile.head_block.key_panels, block.length, block.length, partial,
                                                   task.sizes.key_stride);
  });
}

template <class Numbers>
inline void add_tile_keys(BackwardTask& task, const BackwardTile& tile, const KeyBlock& block,
                          const typename Numbers::Word* weights, const typename Numbers::Word* slopes) {
  const BackwardJob& job = task.job;
  const BackwardSizes& sizes = task.sizes;
  const std::int64_t base = tile.in_wave * job.padded_rows + tile.first_row;
  const auto* queries = words_of<Numbers>(job.query_panels) + base * sizes.key_stride;
  const auto* outputs = words_of<Numbers>(job.output_panels) + base * sizes.value_stride;
  const int steps = words_in<Numbers>(tile.rows);
  for (int key = 0; key < block.length; key += kTileRows)
    with_tile_rows(block.length - key, [&]<int M>() {
      if (task.wanted.v.data != nullptr)
        add_product<Numbers, 1, kBackwardKeys, M>(weights + key, outputs, steps, steps,
                                                  tile.head_block.grad_values + key * sizes.value_stride,
                                                  sizes.value_stride);
      if (task.wanted.k.data != nullptr)
        add_product<Numbers, 1, kBackwardKeys, M>(slopes + key, queries, steps, steps,
                                                  tile.head_block.grad_keys + key * sizes.key_stride, sizes.key_stride);
    });
}

#ifdef CAMBER_BF16_PRODUCTS
// The same with weights and slopes rounded to bfloat16, in pairs; sums stay float.
inline void add_paired_tile(BackwardTask& task, const BackwardTile& tile, const KeyBlock& block) {
  BackwardScratch& s = task.scratch;
  const BackwardSizes& sizes = task.sizes;
  const int width = round_up(block.length, kPanel), steps = words_in<BfloatNumbers>(block.length);
  if (task.wanted.q.data != nullptr) {
    BfloatNumbers::pair_columns(s.slopes, kBackwardKeys, tile.rows, width, s.slopes_by_columns);
    for (int row = 0; row < tile.rows; row += kTileRows)
      with_tile_rows(tile.rows - row, [&]<int M>() {
        add_product<BfloatNumbers, kBackwardKeys / 2, 1, M>(
            s.slopes_by_columns + row * kBackwardKeys / 2, words_of<BfloatNumbers>(tile.head_block.key_panels), steps,
            steps, query_share(task, tile) + row * sizes.key_stride, sizes.key_stride);
      });
  }
  if (task.wanted.v.data != nullptr)
    BfloatNumbers::pair_rows(s.weights, kBackwardKeys, tile.rows, width, s.paired_weights);
  if (task.wanted.k.data != nullptr)
    BfloatNumbers::pair_rows(s.slopes, kBackwardKeys, tile.rows, width, s.paired_slopes);
  add_tile_keys<BfloatNumbers>(task, tile, block, s.paired_weights, s.paired_slopes);
}
#endif

// One tile of queries of one head against the block.
template <class Numbers>
inline void backward_tile(BackwardTask& task, const BackwardTile& tile, const KeyBlock& block) {
  BackwardScratch& s = task.scratch;
  if (!any_kept(task, tile, block, 0, tile.rows)) return skip_mask_gradient(task, tile, block);
  for (int row = 0; row < tile.rows; row += kTileRows) {
    const int rows = tile.rows - row < kTileRows ? tile.rows - row : kTileRows;
    if (!any_kept(task, tile, block, row, rows)) {
      zero_floats(s.weights + row * kBackwardKeys, rows * kBackwardKeys);
      zero_floats(s.slopes + row * kBackwardKeys, rows * kBackwardKeys);
      continue;
    }
    with_tile_rows(rows, [&]<int M>() { tile_rows<Numbers, M>(task, tile, block, row, rows); });
    if (Numbers::kPerWord == 1 && task.wanted.q.data != nullptr) add_tile_queries(task, tile, block, row, rows);
  }
  add_bias_gradients(task, tile, block);
  if constexpr (Numbers::kPerWord == 1) add_tile_keys<Numbers>(task, tile, block, s.weights, s.slopes);
#ifdef CAMBER_BF16_PRODUCTS
  if constexpr (Numbers::kPerWord > 1) add_paired_tile(task, tile, block);
#endif
}

// Writes the block's rows of dk or dv; a later wave of queries adds to what an earlier one wrote.
inline void write_block(const BackwardTask& task, const KeyBlock& block, std::int64_t head, const GradientRows& to,
                        const float* from, int stride, int width, float scale) {
  if (to.data == nullptr) return;
  const bool adds = task.job.wave.query > 0;
  for (int r = 0; r < block.run_count; ++r) {
    const KeyRun& run = task.plan.runs[block.first_run + r];
    for (int i = 0; i < run.count; ++i) {
      const float* row = from + (run.position + i) * stride;
      float* out = to.data + task.batch * to.strides.batch + head * to.strides.head + (run.key + i) * to.strides.row;
      for (int d = 0; d < width; d += kLanes) {
        const Vec value = mul(load(row + d), broadcast(scale));
        store_first(out + d, adds ? add(value, load_first(out + d, width - d)) : value, width - d);
      }
    }
  }
}

// Few queries: all heads of a block, so that rows [B, K, H, D] are read as they lie in memory.
inline void few_heads_of_pass(BackwardTask& task, std::int64_t first, std::int64_t count) {
  const BackwardWave& wave = task.job.wave;
  for (std::int64_t b = task.first_block; b < task.end_block; ++b)
    for (std::int64_t head = first; head < first + count; ++head) {
      const BackwardTile tile{head, (task.batch - wave.batch) * wave.heads + head - wave.head, task.scratch.blocks[0],
                              0, static_cast<int>(wave.queries)};
      with_elements(task.problem.type, [&]<class T>() { few_backward_tile<T>(task, tile, task.plan.blocks[b]); });
    }
}

// The heads first .. first + count of the problem, block by block.
template <class Numbers, class T>
inline void all_heads_of_pass(BackwardTask& task, std::int64_t first, std::int64_t count) {
  const BackwardJob& job = task.job;
  BackwardScratch& s = task.scratch;
  for (std::int64_t b = task.first_block; b < task.end_block; ++b) {
    const KeyBlock& block = task.plan.blocks[b];
    for (std::int64_t h = 0; h < count; ++h) pack_head_block<Numbers, T>(task, block, first + h, s.blocks[h]);
    for (std::int64_t row = 0; row < job.wave.queries; row += kBackwardRows) {
      const std::int64_t left = job.wave.queries - row;
      for (std::int64_t h = 0; h < count; ++h) {
        const std::int64_t in_wave = (task.batch - job.wave.batch) * job.wave.heads + first + h - job.wave.head;
        backward_tile<Numbers>(task,
                               {first + h, in_wave, s.blocks[h], static_cast<int>(row),
                                static_cast<int>(left < kBackwardRows ? left : kBackwardRows)},
                               block);
      }
    }
    for (std::int64_t h = 0; h < count; ++h) {
      write_block(task, block, first + h, task.wanted.k, s.blocks[h].grad_keys, task.sizes.key_stride,
                  task.sizes.key_width, task.problem.softmax_scale);
      write_block(task, block, first + h, task.wanted.v, s.blocks[h].grad_values, task.sizes.value_stride,
                  task.sizes.value_width, 1.0f);
    }
  }
}

inline std::int64_t continued_segment(const KeyPlan& plan, std::int64_t first_block, std::int64_t end_block) {
  if (first_block == 0 || first_block == end_block) return -1;
  const KeyBlock &before = plan.blocks[first_block - 1], &block = plan.blocks[first_block];
  if (block.span_count == 0) return -1;
  const std::int32_t last = plan.spans[before.first_span + before.span_count - 1].segment;
  const std::int32_t first = plan.spans[block.first_span].segment;
  return last == first ? first : -1;
}

inline void run_backward(const BackwardJob& job, std::int64_t index, std::byte* memory) {
  const AttentionProblem& p = job.problem;
  const BackwardWave& wave = job.wave;
  const std::int64_t groups = wave.heads / job.group_heads;
  const std::int64_t range = index % job.ranges, group = index / job.ranges % groups;
  const std::int64_t batch = wave.batch + index / (job.ranges * groups);
  const KeyPlan& plan = job.plans[batch * job.plan_step];
  const std::int64_t first = plan.block_count * range / job.ranges, end = plan.block_count * (range + 1) / job.ranges;
  Arena arena{memory};
  const Gradients& wanted = job.gradients;
  BackwardTask task{.job = job,
                    .problem = p,
                    .wanted = wanted,
                    .plan = plan,
                    .scratch = lay_out_backward(arena, job),
                    .sizes = sizes_of(p),
                    .batch = batch,
                    .range = range,
                    .first_block = first,
                    .end_block = end,
                    .continued_segment = continued_segment(plan, first, end),
                    .slopes_wanted = wanted.q.data != nullptr || wanted.k.data != nullptr ||
                                     wanted.window_value != nullptr || wanted.segment_value != nullptr ||
                                     wanted.table_value != nullptr || wanted.mask.data != nullptr};
  zero_floats(task.scratch.zeros, kLargestWidth);
  const std::int64_t first_head = wave.head + group * job.group_heads;
  const std::int64_t in_wave = (batch - wave.batch) * wave.heads + group * job.group_heads;
  if (wanted.q.data != nullptr) {
    const std::int64_t rows = job.padded_rows * task.sizes.key_stride;
    zero_floats(job.partial_query + (range * wave.batches * wave.heads + in_wave) * rows, job.group_heads * rows);
  }
  if (wanted.segment_value != nullptr) {
    const std::int64_t heads = p.segments.heads, at = (range * wave.batches + batch - wave.batch) * heads;
    const std::int64_t own = heads == 1 ? 0 : first_head;
    zero_floats(job.partial_segment + (at + own) * job.padded_rows,
                (heads == 1 ? 1 : job.group_heads) * job.padded_rows);
  }
  if (wanted.table_value != nullptr && !job.adds_to_table)
    zero_floats(table_share(job, batch, range, first_head), job.group_heads * p.table.size);
  if (job.few) return few_heads_of_pass(task, first_head, job.group_heads);
  with_backward_numbers(p.type, [&]<class Numbers, class T>() {
    if (job.interleave_heads) return all_heads_of_pass<Numbers, T>(task, first_head, job.group_heads);
    for (std::int64_t h = 0; h < job.group_heads; ++h) all_heads_of_pass<Numbers, T>(task, first_head + h, 1);
  });
}

// dq of one (batch, head): the ranges in order, times the scale.
inline void finish_queries(const BackwardJob& job, std::int64_t in_wave) {
  const GradientRows& to = job.gradients.q;
  if (to.data == nullptr) return;
  const BackwardSizes sizes = sizes_of(job.problem);
  const BackwardWave& wave = job.wave;
  const std::int64_t batch = wave.batch + in_wave / wave.heads, head = wave.head + in_wave % wave.heads;
  const std::int64_t range_size = wave.batches * wave.heads * job.padded_rows * sizes.key_stride;
  for (std::int64_t i = 0; i < wave.queries; ++i) {
    float* out = to.data + batch * to.strides.batch + head * to.strides.head + (wave.query + i) * to.strides.row;
    const float* row = job.partial_query + (in_wave * job.padded_rows + i) * sizes.key_stride;
    for (int d = 0; d < sizes.key_width; d += kLanes) {
      Vec sum = load(row + d);
      for (std::int64_t range = 1; range < job.ranges; ++range) sum = add(sum, load(row + range * range_size + d));
      store_first(out + d, mul(sum, broadcast(job.problem.softmax_scale)), sizes.key_width - d);
    }
  }
}

// The shares of segments that run over several ranges, for one (batch, head); a head that shares its values has none.
inline void finish_segments(const BackwardJob& job, std::int64_t in_wave) {
  const SegmentBias& segments = job.problem.segments;
  if (job.gradients.segment_value == nullptr) return;
  const BackwardWave& wave = job.wave;
  const std::int64_t batch = wave.batch + in_wave / wave.heads, head = wave.head + in_wave % wave.heads;
  if (segments.heads == 1 && head != wave.head) return;
  const std::int64_t own = segments.heads == 1 ? 0 : head;
  const KeyPlan& plan = job.plans[batch * job.plan_step];
  for (std::int64_t range = 1; range < job.ranges; ++range) {
    const std::int64_t first = plan.block_count * range / job.ranges, end = plan.block_count * (range + 1) / job.ranges;
    const std::int64_t segment = continued_segment(plan, first, end);
    if (segment < 0) continue;
    const float* share =
        job.partial_segment + ((range * wave.batches + batch - wave.batch) * segments.heads + own) * job.padded_rows;
    float* gradient = job.gradients.segment_value +
                      ((batch * segments.heads + own) * job.problem.queries + wave.query) * segments.count + segment;
    for (std::int64_t i = 0; i < wave.queries; ++i) gradient[i * segments.count] += share[i];
  }
}

// The table's gradient of one head, or of all where they share it: batches and ranges in order, then heads.
inline void finish_table(const BackwardJob& job, std::int64_t table_head) {
  const BackwardWave& wave = job.wave;
  const TableBias& table = job.problem.table;
  const std::int64_t first = table.heads == 1 ? wave.head : table_head;
  const std::int64_t count = table.heads == 1 ? wave.heads : 1;
  float* to = job.gradients.table_value + (table.heads == 1 ? 0 : table_head) * table.size;
  for (std::int64_t batch = wave.batch; batch < wave.batch + wave.batches; batch += job.table_batches)
    for (std::int64_t range = 0; range < job.ranges; ++range)
      for (std::int64_t head = first; head < first + count; ++head) {
        const float* share = table_share(job, batch, range, head);
        for (std::int64_t i = 0; i < table.size; i += kLanes) {
          const int left = static_cast<int>(table.size - i < kLanes ? table.size - i : kLanes);
          store_first(to + i, add(load_floats(to + i, left), load_floats(share + i, left)), left);
        }
      }
}

}  // namespace
}  // namespace camber::kernels
