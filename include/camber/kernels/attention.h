#pragma once
#include <cstdint>

#include "camber/kernels/isa.h"

/// Attention with a structured bias on raw pointers, forward and backward, without a score matrix in memory.
///
///   z[b,h,i,j]   = softmax_scale * q[b,h,i,:] . k[b,h,j,:] + window + segment + table + mask
///   output       = softmax_j(z) v,   logsumexp = ln sum_j exp z
///
/// Shapes: B batches, H heads, Q queries, K keys, D = width of q and k, Dv = width of v, S segments, nnz window
/// entries. Strides count elements; the last stride is always 1. A stride of 0 broadcasts.
namespace camber::kernels {

enum class ElementType : std::uint8_t { float32, bfloat16, float16 };

/// Where element (b, h, row, 0) of a [B, H, rows, width] array lies: b * batch + h * head + row * row.
struct Strides {
  std::int64_t batch = 0, head = 0, row = 0;
};

struct ConstRows {
  const void* data = nullptr;
  Strides strides{};
};

/// Sparse rows: row (b, i) holds the entries row_offsets[b*Q+i] .. row_offsets[b*Q+i+1]; its keys are sorted and
/// unique. `value` is [heads, nnz], heads 1 (shared) or H; -inf removes the key for that row. Absent when row_offsets
/// is null.
struct WindowBias {
  const std::int64_t* row_offsets = nullptr;  // [B*Q+1]
  const std::int32_t* key_index = nullptr;    // [nnz]
  const float* value = nullptr;               // [heads, nnz]
  std::int64_t heads = 1;
  std::int64_t entries = 0;  // nnz
};

/// Contiguous key ranges offsets[s] .. offsets[s+1], from 0 to K, empty ones allowed. Absent when offsets is null.
struct SegmentBias {
  const std::int64_t* offsets = nullptr;  // [count+1]
  std::int64_t count = 0;                 // S
  const float* value = nullptr;           // [B, heads, Q, S], or null: offsets serve availability and statistics only
  std::int64_t heads = 1;
  const bool* available = nullptr;  // [B, S]; the keys of an absent segment cost nothing
};

/// A bias out of a table, shared by the batches: value[head][index], where the index of (query i, key j) is
/// key_code[j] - query_code[i], or index[i * K + j], or without either i * K + j itself; 0 .. size - 1. Absent when
/// value is null.
struct TableBias {
  const float* value = nullptr;  // [heads, size]; -inf removes
  std::int64_t heads = 1, size = 0;
  const std::int32_t* index = nullptr;       // [Q, K]
  const std::int32_t* query_code = nullptr;  // [Q]
  const std::int32_t* key_code = nullptr;    // [K]
};

/// [1|B, 1|H, Q, K], broadcast by stride 0. Of a float mask -inf blocks; of a bool mask true blocks. Whether batches or
/// heads share a mask, and so its gradient, is told by its sizes: an expanded view has stride 0 and the full size.
struct FloatMask {
  const float* data = nullptr;
  Strides strides{};
  std::int64_t batches = 1, heads = 1;  // 1 or the problem's
};
struct BoolMask {
  const bool* data = nullptr;
  Strides strides{};
};

/// Row (b, i) sees the keys before data[b * batch_stride + i] alone: causal attention has 1, 2, 3, ... Blocks of keys
/// that a row does not see cost nothing. Absent when data is null.
struct RowLengths {
  const std::int64_t* data = nullptr;  // [1|B, Q], values 0 .. K
  std::int64_t batch_stride = 0;       // 0 where the batches share them
};

/// Dropout on the weights: weight (b, h, i, j) stays, divided by (1 - probability), when
/// random::attention_dropout_word(seed, b, h, i, j) >= random::dropout_threshold(probability).
struct Dropout {
  double probability = 0;  // in [0, 1)
  std::uint64_t seed = 0;
};

/// How work is spread. `run` must call body(body_context, slot) once for every slot in 0 .. slots-1, on any threads and
/// in any order, and return when all have returned; the bodies never throw. Null: one slot, in the calling thread.
/// Slots pull tasks from a common counter; results carry the same bits for any number of slots.
struct ParallelFor {
  using Body = void (*)(void* body_context, std::int64_t slot);
  void (*run)(void* context, std::int64_t slots, Body body, void* body_context) = nullptr;
  void* context = nullptr;
  std::int64_t slots = 1;
};

struct AttentionProblem {
  std::int64_t batches = 0, heads = 0, queries = 0, keys = 0;
  std::int64_t key_width = 0, value_width = 0;  // D and Dv, 1 .. kLargestWidth
  float softmax_scale = 1;
  ElementType type = ElementType::float32;  // of q, k, v and the output
  ConstRows q, k, v;
  WindowBias windows;
  SegmentBias segments;
  TableBias table;
  FloatMask mask;
  BoolMask blocked;
  const bool* key_padding = nullptr;          // [B, K], true = blocked
  const std::int64_t* key_lengths = nullptr;  // [B], keys from here on do not exist
  RowLengths row_lengths;
  Dropout dropout;
  ParallelFor parallel;
};

inline constexpr std::int64_t kLargestWidth = 256;

/// Row statistics of the weights p before dropout, [B, H, Q] each; null: not wanted.
/// p0 = the attention without the finite bias of windows and segments (table, masks and -inf stay).
struct RowStatistics {
  float* entropy = nullptr;           // - sum p ln p
  float* largest_weight = nullptr;    // max p
  float* sum_of_squares = nullptr;    // sum p^2
  float* segment_mass = nullptr;      // [B, H, Q, S]: sum of p over each segment
  float* change = nullptr;            // half of sum |p - p0|
  float* divergence = nullptr;        // KL(p || p0)
  std::int64_t* keys_left = nullptr;  // keys with z > -inf
};

struct ForwardResult {
  void* output = nullptr;  // [B, H, Q, Dv], of the problem's type
  Strides output_strides{};
  float* logsumexp = nullptr;  // [B, H, Q]
  RowStatistics statistics;
};

/// What the forward saved and what flows back.
struct BackwardInput {
  ConstRows output;                       // [B, H, Q, Dv], of the problem's type
  const float* logsumexp = nullptr;       // [B, H, Q]
  ConstRows grad_output;                  // [B, H, Q, Dv], of the problem's type
  const float* grad_logsumexp = nullptr;  // [B, H, Q], null = zero
};

struct GradientRows {
  float* data = nullptr;
  Strides strides{};
};

/// The gradients wanted; null ones are not computed. Every element of a wanted gradient is written (no clearing
/// needed). They are float32 for problems of any type.
struct Gradients {
  GradientRows q, k, v;
  float* window_value = nullptr;   // [windows.heads, nnz], summed over the heads where windows.heads is 1
  float* segment_value = nullptr;  // [B, segments.heads, Q, S], likewise
  float* table_value = nullptr;    // [table.heads, size]
  GradientRows mask;               // the mask's own shape: summed over batches or heads where the mask has one
};

/// A row without a finite z: output 0, logsumexp -inf, statistics 0. Throws std::invalid_argument for a problem that is
/// not supported and std::bad_alloc; the arrays' contents are the caller's to check.
///
///   AttentionProblem problem{.batches = 1, .heads = 8, .queries = 900, .keys = 22384, .key_width = 32,
///                            .value_width = 32, .softmax_scale = 0.1767767f};
///   problem.q = {q, {900 * 256, 32, 256}};  // a [B, Q, H * D] array seen as [B, H, Q, D]
///   ...
///   forward(problem, {.output = o, .output_strides = {900 * 256, 32, 256}, .logsumexp = l});
void forward(const AttentionProblem& problem, const ForwardResult& result);
void forward(const AttentionProblem& problem, const ForwardResult& result, Isa isa);

void backward(const AttentionProblem& problem, const BackwardInput& input, const Gradients& gradients);
void backward(const AttentionProblem& problem, const BackwardInput& input, const Gradients& gradients, Isa isa);

}  // namespace camber::kernels
