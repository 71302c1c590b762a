#pragma once
#include <optional>

#include <ATen/core/Tensor.h>

#pragma GCC visibility push(default)  // libcamber_ops.so hides everything else
namespace camber::ops {

/// Attention of each query over its own short list of keys:
///
///   z_j = softmax_scale * q . k_j + value_j,   output = sum_j softmax(z)_j v_j   over the keys j of the query's list.
///
/// q [B, H, Q, D], k [B, H, K, D], v [B, H, K, Dv]; row_offsets int64 [B*Q+1] and key_index int32 [nnz] as in Windows;
/// value [Hb, nnz] optional. Cost and memory are proportional to the list. A query with an empty list gets zeros.
/// Gradients flow to q, k, v and value; their bits do not depend on the number of threads. A second derivative is
/// refused. On the CPU float runs on the kernels and double on the plain definition, on other devices both in plain
/// tensor operations; under autocast half and bfloat16 become float.
///
///   at::Tensor local = sparse_attention(q, k, v, rows.row_offsets, rows.key_index);
at::Tensor sparse_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const at::Tensor& row_offsets, const at::Tensor& key_index,
                            const std::optional<at::Tensor>& value = std::nullopt,
                            std::optional<double> softmax_scale = std::nullopt);

}  // namespace camber::ops
#pragma GCC visibility pop
