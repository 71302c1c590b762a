#pragma once
#include "kernels/arena.h"
#include "kernels/bias.h"
#include "kernels/dropout.h"
#include "kernels/numbers.h"

// What a backward task works on: one batch, a group of heads, one range of key blocks, the queries of the wave.
namespace camber::kernels {
namespace {

// One head's share of the current key block. k and v are words of the numbers that are multiplied.
struct HeadBlock {
  float* keys;         // k, transposed panels; floats times softmax_scale * log2(e)
  float* values;       // v, transposed panels
  float* key_panels;   // k, row panels
  float* grad_keys;    // [kBackwardKeys][key_stride]
  float* grad_values;  // [kBackwardKeys][value_stride]
};

struct BackwardScratch {
  float* weights;  // [kBackwardRows][kBackwardKeys], p, then p after dropout
  float* slopes;   // the same of dz
  // Where products multiply pairs: the same in pairs of rows, and dz in pairs of columns too.
  std::uint32_t *paired_weights, *paired_slopes, *slopes_by_columns;
  HeadBlock* blocks;      // [heads of a group]
  const void** key_rows;  // [kBackwardKeys]
  const void** value_rows;
  float* staged;   // [2][kBackwardKeys][widest]: rows of k and of v converted to float
  float* zeros;    // [kLargestWidth]
  float* factors;  // [kBackwardKeys]
  std::uint32_t* words;
};

// A float array seen as words of what is multiplied.
template <class Numbers>
inline typename Numbers::Word* words_of(float* at) {
  return reinterpret_cast<typename Numbers::Word*>(at);
}
template <class Numbers>
inline int words_in(int elements) {
  return (elements + Numbers::kPerWord - 1) / Numbers::kPerWord;
}

struct BackwardSizes {
  int key_width, value_width, key_stride, value_stride;  // strides: padded to kLanes
};

inline BackwardSizes sizes_of(const AttentionProblem& p) {
  const int key_width = static_cast<int>(p.key_width), value_width = static_cast<int>(p.value_width);
  return {key_width, value_width, round_up(key_width, kLanes), round_up(value_width, kLanes)};
}

inline BackwardScratch lay_out_backward(Arena& arena, const BackwardJob& job) {
  const BackwardSizes sizes = sizes_of(job.problem);
  BackwardScratch s{};
  s.weights = arena.take<float>(kBackwardRows * kBackwardKeys + kLanes);
  s.slopes = arena.take<float>(kBackwardRows * kBackwardKeys + kLanes);
  const std::int64_t pairs = job.problem.type == ElementType::bfloat16 ? kBackwardRows * kBackwardKeys / 2 : 0;
  s.paired_weights = arena.take<std::uint32_t>(pairs);
  s.paired_slopes = arena.take<std::uint32_t>(pairs);
  s.slopes_by_columns = arena.take<std::uint32_t>(pairs);
  s.blocks = arena.take<HeadBlock>(job.group_heads);
  s.key_rows = arena.take<const void*>(kBackwardKeys);
  s.value_rows = arena.take<const void*>(kBackwardKeys);
  s.staged = arena.take<float>(job.problem.type == ElementType::float32
                                   ? 0
                                   : std::int64_t{kBackwardKeys} * (sizes.key_width + sizes.value_width));
  s.zeros = arena.take<float>(kLargestWidth);
  s.factors = arena.take<float>(kBackwardKeys + kLanes);
  s.words = arena.take<std::uint32_t>(kForwardKeys + 64);
  for (std::int64_t h = 0; h < (job.interleave_heads ? job.group_heads : 1); ++h) {
    const HeadBlock block{
        arena.take<float>(kBackwardKeys * sizes.key_width), arena.take<float>(kBackwardKeys * sizes.value_width),
        arena.take<float>(kBackwardKeys * sizes.key_stride), arena.take<float>(kBackwardKeys * sizes.key_stride),
        arena.take<float>(kBackwardKeys * sizes.value_stride)};
    if (arena.base != nullptr) s.blocks[h] = block;
  }
  return s;
}

struct BackwardTask {
  const BackwardJob& job;
  const AttentionProblem& problem;
  const Gradients& wanted;
  const KeyPlan& plan;
  BackwardScratch scratch;
  BackwardSizes sizes;
  std::int64_t batch, range, first_block, end_block;
  std::int64_t continued_segment;  // the segment that began in an earlier range, or -1
  bool slopes_wanted;              // any gradient besides that of v
};

// One tile of queries of one head against the current block: rows first_row .. first_row + rows of the wave.
struct BackwardTile {
  std::int64_t head;     // of the problem
  std::int64_t in_wave;  // (batch, head) in the wave's arrays
  const HeadBlock& head_block;
  int first_row, rows;  // at most kBackwardRows, first_row a multiple of it
};

inline std::int64_t query_of(const BackwardTask& task, int wave_row) {
  return task.job.wave.query + wave_row;
}

// Positions of the block that row `wave_row` of the wave sees.
inline int kept_of(const BackwardTask& task, const KeyBlock& block, int wave_row) {
  if (task.problem.row_lengths.data == nullptr) return block.length;
  return positions_before(task.plan, block, row_end(task.problem, task.batch, query_of(task, wave_row)));
}

// The window entries of kTileRows rows from `row` of the tile on.
inline Stretches windows_of(const BackwardTask& task, const BackwardTile& tile, const KeyBlock& block, int row) {
  const WindowPlan& plan = task.job.windows;
  return stretches_of(plan, task.problem.windows, tile.head,
                      plan_tile(plan, task.batch, query_of(task, tile.first_row + row)), &block - task.plan.blocks);
}

inline const float* row_terms(const BackwardTask& task, const BackwardTile& tile) {
  return task.job.row_terms + tile.in_wave * 2 * task.job.padded_rows + tile.first_row;
}

}  // namespace
}  // namespace camber::kernels
