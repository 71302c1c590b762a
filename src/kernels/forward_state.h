#pragma once
#include "kernels/arena.h"
#include "kernels/bias.h"
#include "kernels/dropout.h"
#include "kernels/numbers.h"

// What a forward task works on: the rows first_query .. first_query + rows of one (batch, head), and its scratch.
namespace camber::kernels {
namespace {

template <class Numbers>
struct ForwardScratch {
  using Word = typename Numbers::Word;
  // The task's rows, padded to whole tiles:
  Word* query_tiles;  // [tiles][words][kTileRows]
  float* outputs;     // [rows][value_stride], sum of weight * v
  float* reference;   // [rows], an integer; weights are 2^(z - reference)
  float* sums;        // [rows][kLanes], sum of weights by lane
  float* norms;       // [rows], |q| in units of log2
  // The current key block:
  Word* keys;             // transposed panels
  Word* values;           // row panels
  const void** key_rows;  // [2][kForwardKeys]: rows of this block and of the next one
  const void** value_rows;
  float* staged;                 // [kForwardKeys][widest]: rows converted to float
  int* non_finite_positions;     // [kForwardKeys]: positions whose values are not finite; they are packed as zeros
  const void** non_finite_rows;  // [kForwardKeys]: these values
  float* zeros;                  // [kLargestWidth]
  // The current tile:
  float* strip;          // [kTileRows][kForwardKeys], scores, then weights
  float* dropped;        // the same after dropout
  float* factors;        // [kForwardKeys]
  std::uint32_t* words;  // [kForwardKeys]
  Word* packed_weights;  // [kTileRows][kForwardKeys / kPerWord] where weights are rounded for the product
  // Statistics:
  float*
      scores;  // [kTileRows][kForwardKeys], those of the strip's weights, without windows where these came as factors
  float* moments;           // [rows][kLanes], sum of weight * (z without the finite values of windows and segments)
  float* squares;           // [rows][kLanes], sum of weight^2
  float* largest;           // [rows][kLanes], largest weight
  float* outside;           // [rows][kLanes], sum of weights outside the windows, of the current segment
  float* segment_sums;      // [rows][S], the same of each segment
  std::int64_t* keys_left;  // [rows]
  float* window_weights;    // [side_entries], weight of each window entry
  // The same three of the attention without the finite bias:
  float* plain_logsumexp;  // [rows], in units of log2
  float* plain_sums;       // [rows]
  float* plain_segments;   // [rows][S]
  float* plain_windows;    // [side_entries]
};

inline int padded_rows(const ForwardJob& job) {
  return round_up(static_cast<int>(job.task_rows), kTileRows);
}

inline std::int64_t segment_count(const AttentionProblem& problem) {
  return problem.segments.offsets == nullptr ? 1 : problem.segments.count;
}

template <class Numbers>
inline ForwardScratch<Numbers> lay_out(Arena& arena, const ForwardJob& job) {
  using Word = typename Numbers::Word;
  const AttentionProblem& p = job.problem;
  const int rows = padded_rows(job), tiles = rows / kTileRows;
  const int words = (static_cast<int>(p.key_width) + Numbers::kPerWord - 1) / Numbers::kPerWord;
  const int value_stride = round_up(static_cast<int>(p.value_width), kLanes);
  const int widest = round_up(static_cast<int>(p.key_width > p.value_width ? p.key_width : p.value_width), 16);
  ForwardScratch<Numbers> s{};
  s.query_tiles = arena.take<Word>(std::int64_t{tiles} * words * kTileRows);
  s.outputs = arena.take<float>(std::int64_t{rows} * value_stride);
  s.reference = arena.take<float>(rows);
  s.sums = arena.take<float>(std::int64_t{rows} * kLanes);
  s.norms = arena.take<float>(rows);
  s.keys = arena.take<Word>(std::int64_t{kForwardKeys} * words);
  s.values = arena.take<Word>(std::int64_t{kForwardKeys} * value_stride);
  s.key_rows = arena.take<const void*>(2 * kForwardKeys);
  s.value_rows = arena.take<const void*>(2 * kForwardKeys);
  s.staged = arena.take<float>(std::int64_t{kForwardKeys} * widest);
  s.non_finite_positions = arena.take<int>(kForwardKeys);
  s.non_finite_rows = arena.take<const void*>(kForwardKeys);
  s.zeros = arena.take<float>(kLargestWidth);
  s.strip = arena.take<float>(kTileRows * kForwardKeys + kLanes);
  s.dropped = arena.take<float>(p.dropout.probability > 0 ? kTileRows * kForwardKeys : 0);
  s.factors = arena.take<float>(kForwardKeys + kLanes);
  s.words = arena.take<std::uint32_t>(kForwardKeys + 64);
  s.packed_weights = arena.take<Word>(Numbers::kPerWord > 1 ? kTileRows * kForwardKeys / Numbers::kPerWord : 0);
  const std::int64_t counted = job.statistics ? rows : 0;
  s.scores = arena.take<float>(job.statistics ? kTileRows * kForwardKeys + kLanes : 0);
  s.moments = arena.take<float>(counted * kLanes);
  s.squares = arena.take<float>(counted * kLanes);
  s.largest = arena.take<float>(counted * kLanes);
  s.outside = arena.take<float>(counted * kLanes);
  s.segment_sums = arena.take<float>(counted * segment_count(p));
  s.keys_left = arena.take<std::int64_t>(counted);
  s.window_weights = arena.take<float>(job.side_entries);
  s.plain_logsumexp = arena.take<float>(counted);
  s.plain_sums = arena.take<float>(counted);
  s.plain_segments = arena.take<float>(counted * segment_count(p));
  s.plain_windows = arena.take<float>(job.side_entries);
  return s;
}

template <class Numbers>
struct ForwardTask {
  const ForwardJob& job;
  const AttentionProblem& problem;
  const KeyPlan& plan;
  ForwardScratch<Numbers> scratch;
  std::int64_t batch, head, first_query;
  std::int64_t first_tile;  // in the window plan
  int rows;                 // queries of this task
  int words;                // of a row of q or k
  int value_stride;         // Dv, padded to kLanes
  float tile_scale;         // applied to a tile of scores; 1 where it is folded into q
  float key_norm;           // largest |k| of the current block
  int non_finite_count;     // values of the current block that are not finite
  HeadMasks masks;
  const float* window_value;  // of this head, or null
  bool without_bias;          // finite window and segment values count as 0
  int segment;                // which one the sums outside windows belong to, or -1

  // Whether mask or table are laid out on the strip before the scores.
  bool laid() const { return masks.mask != nullptr || problem.table.value != nullptr; }
  // The [S] segment values of a row, or null.
  const float* segments_of(int row) const { return segment_values(problem, batch, head, first_query + row); }
  // The window entries of row i are entry_offsets()[i] .. entry_offsets()[i + 1].
  const std::int64_t* entry_offsets() const {
    return problem.windows.row_offsets + batch * problem.queries + first_query;
  }
};

}  // namespace
}  // namespace camber::kernels
