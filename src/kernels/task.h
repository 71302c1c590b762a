#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/attention.h"

// What the drivers (plain C++) hand to the code of one instruction set. Plain data only: no inline function may be
// shared between files compiled for different CPUs.
namespace camber::kernels {

/// Keys of a forward block, and of a backward block, at most. Multiples of every vector and tile size.
inline constexpr int kForwardKeys = 256;
inline constexpr int kBackwardKeys = 96;
/// Query rows of a backward tile.
inline constexpr int kBackwardRows = 60;

/// Neighbouring keys at neighbouring positions of a block: position + i holds key + i, for i < count.
struct KeyRun {
  std::int64_t key;
  std::int32_t position, count;
};
/// Neighbouring positions of a block whose keys belong to one segment.
struct SegmentSpan {
  std::int32_t segment, position, count;
};
/// Up to kForwardKeys (kBackwardKeys) keys in rising order; keys that no row may see are left out.
struct KeyBlock {
  std::int64_t first_key, end_key;
  std::int32_t first_run, run_count;
  std::int32_t first_span, span_count;  // span_count 0: no segments
  std::int32_t length;                  // positions in use
};
struct KeyPlan {
  const KeyBlock* blocks;
  const KeyRun* runs;
  const SegmentSpan* spans;
  std::int64_t block_count;
};

struct ForwardJob {
  AttentionProblem problem;
  ForwardResult result;
  const KeyPlan* plans;     // one for each batch, or a single one
  std::int64_t plan_step;   // 1 or 0
  std::int64_t task_rows;   // query rows of a task, a multiple of every tile's rows
  std::int64_t head_tasks;  // tasks of one (batch, head)
  std::int64_t side_entries;  // window entries of a task at most, where the statistics need them one by one, else 0
  bool statistics;            // any row statistic wanted
};

/// A box of batches, heads and queries whose gradients are computed together; partial dq of each key range fit memory.
struct BackwardWave {
  std::int64_t batch, batch_count, head, head_count, query, query_count;
};

struct BackwardJob {
  AttentionProblem problem;
  BackwardInput input;
  Gradients gradients;
  const KeyPlan* plans;
  std::int64_t plan_step;
  std::int64_t ranges;       // parts into which the blocks of a batch are cut
  std::int64_t group_heads;  // heads a task takes in order: 1, or all of the wave where a gradient is shared by heads
  bool interleave_heads;     // a group's heads are worked on tile by tile, so that a shared mask is touched once
  BackwardWave wave;
  // Arrays of the wave, rows padded to kBackwardRows; [batch_count, head_count, padded rows ...].
  float* query_tiles;    // q in tiles, broadcast order
  float* query_panels;   // q in panels, vector order
  float* output_tiles;   // grad_output likewise
  float* output_panels;
  float* row_terms;      // [.., 2, padded rows]: logsumexp * log2(e) and delta - grad_logsumexp
  float* partial_query;  // [ranges, batch_count, head_count, padded rows, padded width]
  float* partial_segment;  // [ranges, batch_count, segment heads, padded rows]: a range's share of its first segment
};

/// The entry points of one instruction set. `scratch` is aligned to 64 bytes and belongs to the running slot.
struct KernelTable {
  std::size_t (*forward_scratch)(const ForwardJob& job);
  void (*forward_task)(const ForwardJob& job, std::int64_t task, std::byte* scratch);
  int tile_rows;
  int lanes;
};

const KernelTable& scalar_kernels();
const KernelTable& avx2_kernels();
const KernelTable& avx512_kernels();
const KernelTable& avx512_bf16_kernels();

}  // namespace camber::kernels
