#pragma once
#include <array>
#include <cstdint>

#include <ATen/core/Tensor.h>

#pragma GCC visibility push(default)  // libcamber_ops.so hides everything else
namespace camber::ops {

/// Sizes along (z, y, x).
using GridShape = std::array<std::int64_t, 3>;

/// How the taps of a kernel move over a grid. Tap t of output site o reads the input site
///
///   o * stride + t * dilation - padding.
///
/// Submanifold: the output sites are the input sites, the kernel is odd and centred (stride 1; the padding is not
/// used).
struct SparseKernel {
  GridShape size{3, 3, 3}, stride{1, 1, 1}, padding{0, 0, 0}, dilation{1, 1, 1};
  bool submanifold = false;
};

/// Which rows of features each tap of a kernel joins, built once from the sites and shared by every layer of the same
/// geometry. N input rows, M output rows, T taps (z, y, x row-major), P pairs.
struct SparseIndices {
  at::Tensor coordinates{};          // int32 [M, 4]: (batch, z, y, x) of the output rows
  GridShape spatial_shape{0, 0, 0};  // of the output grid
  std::int64_t batch = 0;
  std::int64_t inputs = 0;   // N
  std::int64_t dropped = 0;  // input rows outside the grid: no pair reads them
  GridShape kernel{0, 0, 0};
  // The pairs by tap and output row: pair_offsets[t, i] is the first pair of tap t whose output row is at least 64 * i.
  at::Tensor pair_input{}, pair_output{};  // int32 [P]
  at::Tensor pair_offsets{};               // int64 [T, ceil(M / 64) + 1]
  // The same pairs by tap and input row, for the gradient of the features.
  at::Tensor back_input{}, back_output{};  // int32 [P]
  at::Tensor back_offsets{};               // int64 [T, ceil(N / 64) + 1]

  std::int64_t outputs() const { return coordinates.size(0); }
};

/// coordinates int32 or int64 [N, 4] hold (batch, z, y, x) of the input rows, each site once; a batch outside 0 ..
/// batch-1 and a site given twice are refused. Sites outside the grid are dropped and counted. A site of the output
/// grid, floor((n + 2 padding - dilation (size - 1) - 1) / stride) + 1 along each axis, is active when any input falls
/// on one of its taps. Output rows: submanifold in the order of the input rows (without dropped ones), else sorted by
/// (batch, z, y, x). The result does not depend on the number of threads. A grid of all batches has fewer than 2^32
/// cells.
///
///   SparseIndices same = build_sparse_indices(sites, {41, 1024, 1024}, 1, {.submanifold = true});
///   SparseIndices half = build_sparse_indices(sites, {41, 1024, 1024}, 1, {.stride = {2, 2, 2}, .padding = {1, 1,
///   1}});
SparseIndices build_sparse_indices(const at::Tensor& coordinates, GridShape spatial_shape, std::int64_t batch,
                                   const SparseKernel& kernel);

/// Sparse convolution (a cross-correlation):
///
///   output[o, :] = sum over taps t, over the input row i that tap t of site o reads, if any, of weight[:, t, :]
///   features[i, :]
///
/// features [N, Cin], weight [Cout, kz, ky, kx, Cin] -> output [M, Cout]. Gradients flow to features and weight; a
/// second derivative is refused. The bits do not depend on the number of threads. float runs on the kernels, double on
/// the plain definition; bfloat16 (inference only) adds in float and rounds once. Under autocast half and bfloat16
/// become float.
///
///   at::Tensor coarse = sparse_convolution(features, weight, half);  // rows of half.coordinates
at::Tensor sparse_convolution(const at::Tensor& features, const at::Tensor& weight, const SparseIndices& indices);

}  // namespace camber::ops
#pragma GCC visibility pop
