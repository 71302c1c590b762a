#pragma once
#include "camber/kernels/attention.h"

/// Attention of each query over its own short list of keys, on raw pointers:
///
///   z[b,h,i,e] = softmax_scale * q[b,h,i,:] . k[b,h,key(e),:] + value[h,e]   for the entries e of row (b, i)
///   output     = sum_e softmax(z)_e v[b,h,key(e),:],   logsumexp = ln sum_e exp z
///
/// Cost and memory follow the lists, not Q * K. No weight is kept: the backward recomputes them.
namespace camber::kernels {

struct SparseProblem {
  std::int64_t batches = 0, heads = 0, queries = 0, keys = 0;
  std::int64_t key_width = 0, value_width = 0;
  float softmax_scale = 1;
  ConstRows q, k, v;  // float32
  WindowBias lists;   // its value may be null: no bias
  ParallelFor parallel;
};

struct SparseResult {
  float* output = nullptr;  // [B, H, Q, Dv]
  Strides output_strides{};
  float* logsumexp = nullptr;  // [B, H, Q]
};

/// The gradients wanted; null ones are not computed. Every element of a wanted gradient is written.
struct SparseGradients {
  GradientRows q, k, v;
  float* value = nullptr;  // [lists.heads, nnz], summed over the heads where lists.heads is 1
};

/// A row without a finite z: output 0, logsumexp -inf, gradients 0. The bits of every result are the same for any
/// number of slots.
///
///   SparseProblem problem{.batches = 1, .heads = 4, .queries = 900, .keys = 22384, .key_width = 64, .value_width =
///   64}; problem.lists = {row_offsets, key_index, nullptr, 1, entries};
///   ...
///   sparse_forward(problem, {.output = o, .output_strides = {900 * 256, 64, 256}, .logsumexp = l}, chosen_isa());
void sparse_forward(const SparseProblem& problem, const SparseResult& result, Isa isa);
/// input.grad_logsumexp may be null.
void sparse_backward(const SparseProblem& problem, const BackwardInput& input, const SparseGradients& gradients,
                     Isa isa);

/// Attention without a bias, corrected for the bias of the listed entries. Of an entry, with s its scaled product and
/// the shift that is in `logsumexp` already (a bias of its segment; -inf where the key is removed anyway),
///
///   c = exp(s + shift + value - logsumexp) - exp(s + shift - logsumexp),   total = 1 + sum c,
///   output' = (output + sum c v) / total,   logsumexp' = logsumexp + ln total.
///
/// A total near 0 has lost its digits, one that is not finite its meaning: such rows are left as they are (where the
/// total is not above 0 or infinite) and are the caller's to compute another way.
struct Correction {
  const float* shift = nullptr;  // [shift_heads, nnz], or null
  std::int64_t shift_heads = 1;
  const float* logsumexp = nullptr;  // [B, H, Q], of the attention without a bias
  float* total = nullptr;            // [B, H, Q], written
  float* slopes = nullptr;           // of the backward, [H, nnz]: slopes of the changed weights; null: not wanted
};

/// In place in `result`; without result.output, the totals alone.
void sparse_correct(const SparseProblem& problem, const Correction& correction, const SparseResult& result, Isa isa);
/// Adds to dq, dk and dv of attention by exp(s + shift - logsumexp') what the listed entries change, and writes the
/// gradient of the values. input.logsumexp = +inf leaves a row out.
void sparse_correct_backward(const SparseProblem& problem, const Correction& correction, const BackwardInput& input,
                             const SparseGradients& gradients, Isa isa);

}  // namespace camber::kernels
