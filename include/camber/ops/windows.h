#pragma once
#include <ATen/core/Tensor.h>

#pragma GCC visibility push(default)  // libcamber_ops.so hides everything else
namespace camber::ops {

/// Windows round cells of maps as sparse rows, with what is needed to give them values. On another device than the CPU
/// the lists may be longer than their last row says, so that nobody has to wait to learn how long they are: entries
/// behind row_offsets[B*Q] are left out of everything.
struct WindowIndex {
  at::Tensor row_offsets{};       // int64 [B*Q+1]
  at::Tensor key_index{};         // int32 [nnz]
  at::Tensor map_index{};         // int32 [nnz]: which map the key lies in
  at::Tensor squared_distance{};  // int32 [nnz]: to the window's centre, in cells
};

/// center int64 [B, Q, M, 2] holds (column, row) on each of the M maps (a column below 0: no window there); size int32
/// [B, Q, M], odd; map_shape int64 [M, 2] holds (columns, rows), fewer than 2^31 keys in all. Windows are cut at the
/// borders of their map.
WindowIndex build_windows(const at::Tensor& center, const at::Tensor& size, const at::Tensor& map_shape);

/// value[h, e] = profile[e] * strength[h, row of e, map_index[e]], for strength [Hb, B*Q, M] and profile [nnz].
/// The gradient of strength sums its entries in double, in the order of the list; derivatives of any order exist. A
/// profile that requires a gradient is refused. Under autocast values are computed in float.
at::Tensor window_values(const at::Tensor& strength, const at::Tensor& profile, const at::Tensor& row_offsets,
                         const at::Tensor& map_index);

}  // namespace camber::ops
#pragma GCC visibility pop
