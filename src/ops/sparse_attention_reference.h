#pragma once
#include <array>
#include <cstdint>

#include <ATen/core/Tensor.h>

/// sparse_attention in double as its definition says it: what the kernels are held against, and what numeric gradients
/// need.
namespace camber::ops {

/// The inputs of sparse_attention as both implementations read them: last strides of 1, lists and bias contiguous. The
/// bias may be undefined.
struct SparseInputs {
  at::Tensor q, k, v, row_offsets, key_index, bias;
  double scale;

  std::int64_t rows() const { return q.size(0) * q.size(2); }
};

/// Of q, k, v and value; undefined where not asked for.
using SparseGradients = std::array<at::Tensor, 4>;

void sparse_reference_forward(const SparseInputs& inputs, const at::Tensor& output, const at::Tensor& logsumexp);
void sparse_reference_backward(const SparseInputs& inputs, const at::Tensor& grad_output, const at::Tensor& output,
                               const at::Tensor& logsumexp, const SparseGradients& wanted);

/// The same in plain tensor operations, for devices without kernels of ours; float and double.
void sparse_tensor_forward(const SparseInputs& inputs, const at::Tensor& output, const at::Tensor& logsumexp);
void sparse_tensor_backward(const SparseInputs& inputs, const at::Tensor& grad_output, const at::Tensor& output,
                            const at::Tensor& logsumexp, const SparseGradients& wanted);

}  // namespace camber::ops
