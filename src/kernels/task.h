#pragma once
#include <cstddef>
#include <cstdint>

#include "camber/kernels/adam.h"
#include "camber/kernels/attention.h"
#include "kernels/sparse_convolution_task.h"
#include "kernels/sparse_task.h"

// What the drivers (plain C++) hand to the code of one instruction set. Plain data only: no inline function may be
// shared between files compiled for different CPUs.
namespace camber::kernels {

/// Keys of a forward block, and of a backward block, at most. Multiples of every vector and tile size.
inline constexpr int kForwardKeys = 256;
inline constexpr int kBackwardKeys = 96;
/// Query rows of a backward tile.
inline constexpr int kBackwardRows = 60;
/// Query rows of a register tile, on any instruction set, at most.
inline constexpr int kMostTileRows = 16;

/// Neighbouring keys at neighbouring positions of a block: position + i holds key + i, for i < count.
struct KeyRun {
  std::int64_t key;
  std::int32_t position, count;
};
/// Neighbouring positions of a block whose keys belong to one segment.
struct SegmentSpan {
  std::int32_t segment, position, count;
};
/// Neighbouring positions of a block whose keys have rising codes, code + i for i < count.
struct CodeSpan {
  std::int32_t code, position, count;
};
/// Up to kForwardKeys (kBackwardKeys) keys in rising order; keys that no row may see are left out.
struct KeyBlock {
  std::int64_t first_key, end_key;
  std::int32_t first_run, run_count;
  std::int32_t first_span, span_count;  // span_count 0: no segments
  std::int32_t first_code, code_count;  // code_count 0: no codes
  std::int32_t length;                  // positions in use
};
struct KeyPlan {
  const KeyBlock* blocks;
  const KeyRun* runs;
  const SegmentSpan* spans;
  const CodeSpan* codes;
  std::int64_t block_count;
};

/// Batches batch .. batch + batches, and of each the queries query .. query + queries.
struct RowBox {
  std::int64_t batch, batches, query, queries;
};

/// Window entries entry .. entry + count of one row on neighbouring positions of a block, at most as many as a vector
/// has lanes. offset = row of the tile * keys of a block + position; value counts from the first one of (block, tile).
struct WindowStretch {
  std::int64_t entry;
  std::int32_t value;
  std::int16_t offset, count;
};
/// Where the stretches of a (block, tile) begin, and their values.
struct WindowStart {
  std::int64_t stretch, value;
};
/// The stretches of every (key block, tile of rows), by rows and keys: begin[b * tiles + t] .. begin[b * tiles + t +
/// 1], where t counts the tiles of all batches of a box. Their values lie in the same order, the one in which a task
/// reads them. Null where the box has no entries.
struct WindowPlan {
  const WindowStretch* stretches;
  const WindowStart* begin;  // [blocks * tiles + 1]
  const float* values;       // [1|H, head_values], in units of log2
  std::int64_t head_values;
  const float* largest;       // [1|H, tiles], the largest |value| of a tile's rows; NaN where there is one
  std::int64_t batch, query;  // the first ones of the box
  std::int64_t batch_tiles, tiles;
};

struct ForwardJob {
  AttentionProblem problem;
  ForwardResult result;
  const KeyPlan* plans;       // one for each batch, or a single one
  std::int64_t plan_step;     // 1 or 0
  RowBox rows;                // of this run of tasks
  WindowPlan windows;         // of these rows
  std::int64_t task_rows;     // query rows of a task, a multiple of every tile's rows
  std::int64_t head_tasks;    // tasks of one (batch, head)
  std::int64_t side_entries;  // window entries of a task at most, where the statistics need them one by one, else 0
  bool statistics;            // any row statistic wanted
  // Few queries: tasks of (batch, range of key blocks), what each range found of a row one after the other.
  std::int64_t ranges;  // 0: not few
  float* partial;       // [ranges, B, H * Q, part]
};

/// A box of batches, heads and queries whose gradients are computed together, so that its arrays fit memory.
struct BackwardWave {
  std::int64_t batch, batches, head, heads, query, queries;
};

/// A backward task takes one batch, one group of heads and one range of key blocks: dk, dv and the gradients of the
/// bias have one owner each; dq and the share of a segment that began in an earlier range are kept a range and added
/// later.
struct BackwardJob {
  AttentionProblem problem;
  BackwardInput input;
  Gradients gradients;
  const KeyPlan* plans;
  std::int64_t plan_step;
  std::int64_t ranges;       // parts into which the blocks of a batch are cut
  std::int64_t group_heads;  // heads a task takes in order: 1, or all of the wave where a bias gradient is shared
  bool few;                  // few queries: rows are read as they lie, all heads of a block by one task
  bool interleave_heads;     // tile by tile rather than one after the other, so that a shared mask is touched once
  BackwardWave wave;
  WindowPlan windows;  // of the wave's rows
  // Arrays of the wave; padded_rows = its queries rounded up to kBackwardRows (fewer than these: to whole tiles),
  // widths rounded up to the lanes. Few queries have plain rows of q and grad_output in them (prepare_few).
  std::int64_t padded_rows;
  float* query_tiles;   // [batches, heads, padded_rows, D]: q in tiles
  float* query_panels;  // [batches, heads, padded_rows, padded D]: q in row panels of kBackwardRows rows
  float* output_tiles;  // grad_output likewise
  float* output_panels;
  float* row_terms;            // [batches, heads, 2, padded_rows]: logsumexp * log2(e), delta - grad_logsumexp
  float* partial_query;        // [ranges, batches, heads, padded_rows, padded D]
  float* partial_segment;      // [ranges, batches, segment heads, padded_rows]
  float* partial_table;        // [batches / table_batches, ranges, heads, table size]
  std::int64_t table_batches;  // neighbouring batches that add to one share of the table, in order
  bool adds_to_table;          // the share holds what an earlier one added
};

/// The entry points of one instruction set. `scratch` is aligned to 64 bytes and belongs to the running slot.
struct KernelTable {
  int tile_rows, lanes;
  int few_queries;  // so many are few
  std::size_t (*forward_scratch)(const ForwardJob& job);
  void (*forward_task)(const ForwardJob& job, std::int64_t task, std::byte* scratch);
  std::int64_t (*few_part)(const ForwardJob& job);  // floats of a row of `partial`
  std::size_t (*few_scratch)(const ForwardJob& job);
  void (*few_task)(const ForwardJob& job, std::int64_t task, std::byte* scratch);
  void (*few_merge)(const ForwardJob& job, std::int64_t batch);
  std::size_t (*backward_scratch)(const BackwardJob& job);
  void (*backward_prepare)(const BackwardJob& job, std::int64_t head_of_wave);  // rows of one (batch, head)
  void (*backward_task)(const BackwardJob& job, std::int64_t task, std::byte* scratch);
  void (*backward_finish)(const BackwardJob& job, std::int64_t head_of_wave);  // adds the ranges
  void (*backward_finish_table)(const BackwardJob& job, std::int64_t head_of_table);
  SparseKernels sparse;
  ConvolutionKernels convolution;
  void (*adam_step)(const AdamStep& step, const AdamNumbers& numbers);
};

const KernelTable& scalar_kernels();
const KernelTable& avx2_kernels();
const KernelTable& avx512_kernels();
const KernelTable& avx512_bf16_kernels();

}  // namespace camber::kernels
