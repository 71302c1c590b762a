#pragma once
#include "kernels/finish_statistics.h"
#include "kernels/forward_tile.h"

// A forward task: all key blocks of one (batch, head) for a range of queries.
//   1. the queries are packed into tiles, scaled by softmax_scale * log2(e)
//   2. for every key block: keys and values are packed, the next block's rows are prefetched
//   3.   for every tile of queries: weights, their sum, the sum over values
//   4. outputs are divided by the sums and written, logsumexp = ln 2 * (reference + log2 sum)
namespace camber::kernels {
namespace {

template <class T>
inline const T* row_of(const ConstRows& rows, std::int64_t batch, std::int64_t head, std::int64_t row) {
  const Strides& at = rows.strides;
  return static_cast<const T*>(rows.data) + batch * at.batch + head * at.head + row * at.row;
}

template <class T, class Numbers>
inline void pack_queries(ForwardTask<Numbers>& task) {
  const AttentionProblem& p = task.problem;
  const int width = static_cast<int>(p.key_width);
  const float unit = p.softmax_scale * kLog2E;
  for (int row = 0; row < task.rows; row += kTileRows) {
    const int rows = task.rows - row < kTileRows ? task.rows - row : kTileRows;
    const T* first = row_of<T>(p.q, task.batch, task.head, task.first_query + row);
    Numbers::pack_queries(first, p.q.strides.row, rows, width, unit, task.scratch.query_tiles + row * task.words);
    for (int i = 0; i < kTileRows; ++i) {
      Vec squares = zero();
      for (int d = 0; d < width && i < rows; d += kLanes) {
        const Vec x = mul(load_floats(first + i * p.q.strides.row + d, width - d), broadcast(unit));
        squares = fma(x, x, squares);
      }
      task.scratch.norms[row + i] = __builtin_sqrtf(sum_of(squares)) * 1.0001f;
    }
  }
}

template <class Numbers>
inline void start_rows(ForwardTask<Numbers>& task) {
  ForwardScratch<Numbers>& s = task.scratch;
  const int rows = round_up(task.rows, kTileRows);
  const auto zero_out = [](auto* at, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) at[i] = 0;
  };
  zero_out(s.outputs, std::int64_t{rows} * task.value_stride);
  zero_out(s.sums, std::int64_t{rows} * kLanes);
  for (int i = 0; i < rows; ++i) s.reference[i] = i < task.rows ? kNegativeInfinity : 0.0f;
  if (!task.job.statistics) return;
  zero_out(s.moments, std::int64_t{rows} * kLanes);
  zero_out(s.squares, std::int64_t{rows} * kLanes);
  zero_out(s.largest, std::int64_t{rows} * kLanes);
  zero_out(s.outside, std::int64_t{rows} * kLanes);
  zero_out(s.segment_sums, rows * segment_count(task.problem));
  zero_out(s.keys_left, rows);
  if (task.job.side_entries > 0) zero_out(s.window_weights, task.entry_offsets()[task.rows] - task.entry_offsets()[0]);
}

// Where the rows of a block lie; the rest of the last panel points to zeros.
template <class T, class Numbers>
inline void find_rows(const ForwardTask<Numbers>& task, const KeyBlock& block, const void** keys, const void** values) {
  const AttentionProblem& p = task.problem;
  for (int r = 0; r < block.run_count; ++r) {
    const KeyRun& run = task.plan.runs[block.first_run + r];
    const T* key = row_of<T>(p.k, task.batch, task.head, run.key);
    const T* value = row_of<T>(p.v, task.batch, task.head, run.key);
    for (int i = 0; i < run.count; ++i, key += p.k.strides.row, value += p.v.strides.row) {
      keys[run.position + i] = key;
      values[run.position + i] = value;
    }
  }
  for (int i = block.length; i < round_up(block.length, kPanel); ++i) keys[i] = values[i] = task.scratch.zeros;
}

// Whether all packed values are finite: their products with 0 are.
template <class Numbers>
inline bool finite_values(const ForwardTask<Numbers>& task, int count) {
  const typename Numbers::Word nothing = 0;
  const auto zeros = Numbers::broadcast_word(&nothing);
  Vec sums[4] = {zero(), zero(), zero(), zero()};  // one addition waits for the last
  const int words = (count + Numbers::kPerWord - 1) / Numbers::kPerWord * task.value_stride;
  int i = 0;
  for (; i + 4 * kLanes <= words; i += 4 * kLanes)
#pragma GCC unroll 4
    for (int n = 0; n < 4; ++n)
      Numbers::accumulate(sums[n], Numbers::read(task.scratch.values + i + n * kLanes), zeros);
  for (; i < words; i += kLanes) Numbers::accumulate(sums[0], Numbers::read(task.scratch.values + i), zeros);
  return sum_of(add(add(sums[0], sums[1]), add(sums[2], sums[3]))) == 0;
}

// Packs zeros for the values that are not finite, so that a key without weight does not leak its own (0 * NaN is NaN);
// add_non_finite_values adds them where they have a weight.
template <class T, class Numbers>
inline void set_aside_non_finite_values(ForwardTask<Numbers>& task, const KeyBlock& block, const void** values) {
  ForwardScratch<Numbers>& s = task.scratch;
  const int width = static_cast<int>(task.problem.value_width);
  find_rows<T>(task, block, s.non_finite_rows, values);  // packing may have moved the rows
  for (int i = 0; i < block.length; ++i) {
    float sum = 0;
    for (int d = 0; d < width; ++d) sum += 0 * to_float(static_cast<const T*>(values[i])[d]);
    if (sum == 0) continue;
    s.non_finite_positions[task.non_finite_count] = i;
    s.non_finite_rows[task.non_finite_count++] = values[i];
    values[i] = s.zeros;
  }
  Numbers::template pack_values<T>(values, block.length, width, s.staged, s.values);
}

// Adds weight * value of the values set aside, for the rows of a tile that give them a weight.
template <class T, class Numbers, int M>
inline void add_non_finite_values(ForwardTask<Numbers>& task, int row, int seen) {
  ForwardScratch<Numbers>& s = task.scratch;
  const float* weights = task.problem.dropout.probability > 0 ? s.dropped : s.strip;
  for (int i = 0; i < M; ++i)
    for (int k = 0; k < task.non_finite_count; ++k) {
      if (s.non_finite_positions[k] >= seen) break;  // positions rise
      const float weight = weights[i * kForwardKeys + s.non_finite_positions[k]];
      const auto* value = static_cast<const T*>(s.non_finite_rows[k]);
      float* to = s.outputs + (row + i) * task.value_stride;
      for (std::int64_t d = 0; d < task.problem.value_width && weight != 0; ++d) to[d] += weight * to_float(value[d]);
    }
}

// Packs the block and finds its largest |k|.
template <class T, class Numbers>
inline void pack_block(ForwardTask<Numbers>& task, const KeyBlock& block, const void** keys, const void** values) {
  ForwardScratch<Numbers>& s = task.scratch;
  const int key_width = static_cast<int>(task.problem.key_width),
            value_width = static_cast<int>(task.problem.value_width);
  Numbers::template pack_keys<T>(keys, block.length, key_width, s.staged, s.keys);
  Numbers::template pack_values<T>(values, block.length, value_width, s.staged, s.values);
  task.non_finite_count = 0;
  if (!finite_values(task, block.length)) set_aside_non_finite_values<T>(task, block, values);
  Vec largest = zero();
  const auto* panel = s.keys;
  for (int first = 0; first < block.length; first += kPanel, panel += task.words * kPanel)
    for (int n = 0; n < 2; ++n) {
      Vec squares = zero();
      for (int d = 0; d < task.words; ++d) {
        const auto k = Numbers::read(panel + d * kPanel + n * kLanes);
        Numbers::accumulate(squares, k, k);
      }
      largest = max_number(largest, squares);
    }
  task.key_norm = __builtin_sqrtf(max_of(largest)) * 1.0001f;
}

// Asks for a share of the next block's rows while this tile is computed.
template <class T, class Numbers>
inline void prefetch_rows(const ForwardTask<Numbers>& task, const void* const* keys, const void* const* values,
                          int first, int end) {
  const std::int64_t key_bytes = task.problem.key_width * static_cast<std::int64_t>(sizeof(T));
  const std::int64_t value_bytes = task.problem.value_width * static_cast<std::int64_t>(sizeof(T));
  for (int i = first; i < end; ++i) {
    for (std::int64_t at = 0; at < key_bytes; at += 64)
      __builtin_prefetch(static_cast<const char*>(keys[i]) + at, 0, 2);
    for (std::int64_t at = 0; at < value_bytes; at += 64)
      __builtin_prefetch(static_cast<const char*>(values[i]) + at, 0, 2);
  }
}

// Steps of the packed values of a block.
template <class Numbers>
inline int value_steps(const KeyBlock& block) {
  return (block.length + Numbers::kPerWord - 1) / Numbers::kPerWord;
}

template <class Numbers>
inline const typename Numbers::Word* weights_for_values(ForwardTask<Numbers>& task, const KeyBlock& block, int row,
                                                        int rows, int seen) {
  ForwardScratch<Numbers>& s = task.scratch;
  const float* weights = s.strip;
  if (task.problem.dropout.probability > 0) {
    const double probability = task.problem.dropout.probability;
    const auto threshold = static_cast<std::uint32_t>(probability * 4294967296.0);
    const auto keep = static_cast<float>(1.0 / (1.0 - probability));
    for (int i = 0; i < rows; ++i) {
      const DropoutRow at{task.problem.dropout.seed, static_cast<std::uint32_t>(task.batch),
                          static_cast<std::uint32_t>(task.head),
                          static_cast<std::uint32_t>(task.first_query + row + i)};
      dropout_factors(at, threshold, keep, task.plan, block, s.words, s.factors);
      for (int j = 0; j < seen; j += kLanes)
        store(s.dropped + i * kForwardKeys + j, mul(load(s.strip + i * kForwardKeys + j), load(s.factors + j)));
    }
    weights = s.dropped;
  }
  return Numbers::left_weights(weights, rows, seen, s.packed_weights);
}

// The tile's weights, in the strip; whether these were had the direct way.
template <class Numbers, bool kStatistics, int M>
inline bool tile_weights(ForwardTask<Numbers>& task, const KeyBlock& block, int row, BlockBias& bias) {
  find_bias<Numbers, M>(task, block, row, bias);
  if (direct<Numbers, M>(task, row, bias)) {
    if constexpr (kStatistics) count_removed<Numbers, M>(task, bias);
    if (bias.masked)
      direct_weights<Numbers, true, kStatistics, M>(task, row, bias);
    else
      direct_weights<Numbers, false, kStatistics, M>(task, row, bias);
    clear_removed_rows<Numbers, kStatistics, M>(task, block, bias);
    scale_by_bias<Numbers, M>(task, block, row, bias);
    if constexpr (kStatistics) clear_removed_scores(task, bias);
    clear_unseen<Numbers, kStatistics, M>(task, bias);
    if (start_direct<Numbers, M>(task, row, bias)) {
      if constexpr (kStatistics) count_keys(task, row, M, bias);
      return true;
    }
    find_bias<Numbers, M>(task, block, row, bias);  // the strip was used up
  }
  general_scores<Numbers, M>(task, block, row, bias);
  for (int i = 0; i < M; ++i) general_weights_row<Numbers, kStatistics>(task, bias.width, i, row + i);
  return false;
}

// One tile of queries against the packed block.
template <class T, class Numbers, bool kStatistics, int M>
inline void forward_tile(ForwardTask<Numbers>& task, const KeyBlock& block, int row) {
  ForwardScratch<Numbers>& s = task.scratch;
  BlockBias bias;
  find_kept<Numbers, kStatistics, M>(task, block, row, bias);
  if (bias.seen == 0) return;
  const bool is_direct = tile_weights<Numbers, kStatistics, M>(task, block, row, bias);
  unsigned collected = block.span_count > 1 ? ~0u : 0u;  // rows with window entries, or segments to tell apart
  if constexpr (kStatistics)
    for (const WindowStretch& stretch : bias.windows) collected |= 1u << stretch.offset / kForwardKeys;
  for (int i = 0; i < M; ++i)
    add_weights<Numbers, kStatistics>(task, bias.width, i, row + i, (collected >> i & 1u) == 0,
                                      is_direct ? bias.start[i] : 0.0f);
  if (kStatistics && !is_direct) take_bias_out(task, block, row, M < task.rows - row ? M : task.rows - row, bias);
  if (!task.without_bias) {
    const auto* weights = weights_for_values(task, block, row, M, bias.seen);
    const int steps = (bias.seen + Numbers::kPerWord - 1) / Numbers::kPerWord;
    add_product<Numbers, kForwardKeys / Numbers::kPerWord, 1, M>(
        weights, s.values, value_steps<Numbers>(block), steps, s.outputs + row * task.value_stride, task.value_stride);
    if (task.non_finite_count > 0) add_non_finite_values<T, Numbers, M>(task, row, bias.seen);
  }
  if constexpr (kStatistics) {
    take_windows(task, bias.windows);
    for (int i = 0; i < M && row + i < task.rows; ++i)
      if ((collected >> i & 1u) != 0) add_outside(task, block, row + i, s.strip + i * kForwardKeys);
  }
}

// The keys from here on are seen by no row of the task.
template <class Numbers>
inline std::int64_t task_end(const ForwardTask<Numbers>& task) {
  std::int64_t end = 0;
  for (int row = 0; row < task.rows; ++row) {
    const std::int64_t of_row = row_end(task.problem, task.batch, task.first_query + row);
    end = of_row > end ? of_row : end;
  }
  return end;
}

template <class T, class Numbers, bool kStatistics>
inline void all_blocks(ForwardTask<Numbers>& task) {
  start_rows(task);
  task.segment = task.problem.segments.offsets == nullptr ? 0 : -1;
  const KeyPlan& plan = task.plan;
  ForwardScratch<Numbers>& s = task.scratch;
  const int tiles = (task.rows + kTileRows - 1) / kTileRows;
  const std::int64_t end = task.problem.row_lengths.data == nullptr ? task.problem.keys : task_end(task);
  if (plan.block_count > 0) find_rows<T>(task, plan.blocks[0], s.key_rows, s.value_rows);
  for (std::int64_t b = 0; b < plan.block_count && plan.blocks[b].first_key < end; ++b) {
    const KeyBlock& block = plan.blocks[b];
    const void **keys = s.key_rows + b % 2 * kForwardKeys, **values = s.value_rows + b % 2 * kForwardKeys;
    const void** next_keys = s.key_rows + (b + 1) % 2 * kForwardKeys;
    const void** next_values = s.value_rows + (b + 1) % 2 * kForwardKeys;
    if constexpr (kStatistics) change_segment(task, &block);
    pack_block<T>(task, block, keys, values);
    int next_length = 0;
    if (b + 1 < plan.block_count) {
      find_rows<T>(task, plan.blocks[b + 1], next_keys, next_values);
      next_length = plan.blocks[b + 1].length;
    }
    for (int tile = 0; tile < tiles; ++tile) {
      prefetch_rows<T>(task, next_keys, next_values, tile * next_length / tiles, (tile + 1) * next_length / tiles);
      const int row = tile * kTileRows;
      with_tile_rows(task.rows - row, [&]<int M>() { forward_tile<T, Numbers, kStatistics, M>(task, block, row); });
    }
  }
  if constexpr (kStatistics) change_segment(task, static_cast<const KeyBlock*>(nullptr));
}

template <class T, class Numbers>
inline void write_rows_out(ForwardTask<Numbers>& task) {
  const AttentionProblem& p = task.problem;
  const ForwardResult& result = task.job.result;
  const int width = static_cast<int>(p.value_width);
  for (int row = 0; row < task.rows; ++row) {
    const std::int64_t query = task.first_query + row, at = (task.batch * p.heads + task.head) * p.queries + query;
    const float total = sum_of(load(task.scratch.sums + row * kLanes)), reference = task.scratch.reference[row];
    const bool empty = total == 0;
    const float inverse = empty ? 0 : 1 / total;
    T* to = static_cast<T*>(result.output) + task.batch * result.output_strides.batch +
            task.head * result.output_strides.head + query * result.output_strides.row;
    const float* from = task.scratch.outputs + row * task.value_stride;
    for (int d = 0; d < width; d += kLanes) store_floats(to + d, mul(load(from + d), broadcast(inverse)), width - d);
    result.logsumexp[at] = empty ? kNegativeInfinity : (reference + __builtin_log2f(total)) * kLn2;
    if (task.job.statistics) finish_statistics(task, row, total, at);
  }
}

template <class T, class Numbers>
inline void run_forward(ForwardTask<Numbers>& task) {
  pack_queries<T>(task);
  if (!task.job.statistics) {
    all_blocks<T, Numbers, false>(task);
  } else {
    // By row, so that a row's statistics do not depend on the rows that share its task.
    bool separate = false;
    for (int row = 0; row < task.rows; ++row) separate = strong_bias(task, row) || separate;
    if (separate) {
      task.without_bias = true;
      all_blocks<T, Numbers, true>(task);
      for (int row = 0; row < task.rows; ++row)
        if (strong_bias(task, row)) keep_plain(task, row);
      task.without_bias = false;
    }
    all_blocks<T, Numbers, true>(task);
    for (int row = 0; row < task.rows; ++row)
      if (!separate || !strong_bias(task, row)) derive_plain(task, row);
  }
  write_rows_out<T>(task);
}

template <class Numbers, class T>
inline void forward_task_of(const ForwardJob& job, std::int64_t index, std::byte* memory) {
  const AttentionProblem& p = job.problem;
  const std::int64_t head_index = index / job.head_tasks, row = index % job.head_tasks * job.task_rows;
  const std::int64_t batch = job.rows.batch + head_index / p.heads, head = head_index % p.heads;
  const std::int64_t first = job.rows.query + row, left = job.rows.queries - row;
  Arena arena{memory};
  ForwardTask<Numbers> task{.job = job,
                            .problem = p,
                            .plan = job.plans[batch * job.plan_step],
                            .scratch = lay_out<Numbers>(arena, job),
                            .batch = batch,
                            .head = head,
                            .first_query = first,
                            .first_tile = plan_tile(job.windows, batch, first),
                            .rows = static_cast<int>(left < job.task_rows ? left : job.task_rows),
                            .words = (static_cast<int>(p.key_width) + Numbers::kPerWord - 1) / Numbers::kPerWord,
                            .value_stride = round_up(static_cast<int>(p.value_width), kLanes),
                            .tile_scale = p.softmax_scale * kLog2E,
                            .key_norm = 0,
                            .non_finite_count = 0,
                            .masks = masks_of(p, batch, head),
                            .window_value = p.windows.row_offsets == nullptr ? nullptr : window_values(p.windows, head),
                            .without_bias = false,
                            .segment = -1};
  for (std::int64_t i = 0; i < kLargestWidth; ++i) task.scratch.zeros[i] = 0;
  run_forward<T>(task);
}

}  // namespace
}  // namespace camber::kernels
