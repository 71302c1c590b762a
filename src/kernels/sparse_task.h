#pragma once
#include <cstddef>

#include "camber/kernels/sparse.h"

// What the driver of sparse attention hands to the code of one instruction set. Plain data only, as in task.h.
namespace camber::kernels {

/// Rows, or keys, of one (batch, head) that a task takes.
inline constexpr std::int64_t kSparseRows = 64, kSparseKeys = 256;

struct SparseJob {
  SparseProblem problem;
  SparseResult result;     // of the forward
  BackwardInput input;     // of the backward
  SparseGradients wanted;  // q, k and v; the value's gradient is made of `slopes`
  // Rows b*Q .. b*Q+Q-1 of each batch in an order that keeps their keys in the cache.
  const std::int32_t* order;  // [B*Q], queries
  std::int64_t longest_row, longest_key;
  // Weights and slopes dz of every entry, [H, nnz]; null: not needed.
  float *weights, *slopes;
  // Of a correction: what it starts from, and the slopes of the bias, [H, nnz].
  Correction correction;
  float* value_slopes;
  // The lists by keys: key (b, j) holds by_key_offsets[b*K+j] .. [b*K+j+1], in the order of the rows.
  const std::int64_t* by_key_offsets;  // [B*K+1]
  const std::int64_t* by_key_entry;    // [nnz]
  const std::int32_t* by_key_query;    // [nnz]
};

struct SparseKernels {
  std::size_t (*scratch)(const SparseJob& job);
  // Tasks are (batch, head, part): part counts kSparseRows rows, or kSparseKeys keys.
  void (*forward_rows)(const SparseJob& job, std::int64_t batch, std::int64_t head, std::int64_t part,
                       std::byte* scratch);
  void (*backward_rows)(const SparseJob& job, std::int64_t batch, std::int64_t head, std::int64_t part,
                        std::byte* scratch);
  void (*backward_keys)(const SparseJob& job, std::int64_t batch, std::int64_t head, std::int64_t part,
                        std::byte* scratch);
  // The same of a correction.
  void (*correct_rows)(const SparseJob& job, std::int64_t batch, std::int64_t head, std::int64_t part,
                       std::byte* scratch);
  void (*correct_gradient_rows)(const SparseJob& job, std::int64_t batch, std::int64_t head, std::int64_t part,
                                std::byte* scratch);
  void (*correct_gradient_keys)(const SparseJob& job, std::int64_t batch, std::int64_t head, std::int64_t part,
                                std::byte* scratch);
};

}  // namespace camber::kernels
