#pragma once
#include <cstdint>
#include <optional>

#include <ATen/core/Tensor.h>

#pragma GCC visibility push(default)  // libcamber_ops.so hides everything else
namespace camber::ops {

/// A sparse additive bias: row b * Q + q of `row_offsets` lists the keys toward which query q of batch element b is
/// biased.
///
/// Shapes: row_offsets int64 [B*Q+1] from 0 to nnz (on another device than the CPU to at most nnz); key_index int32
/// [nnz], sorted and unique in a row; value [Hb, nnz] with Hb = 1 (shared by the heads) or H. The value is
/// differentiable; -inf removes a key, +inf is refused, and so is what might become +inf where scores are computed:
/// 2^125 and more in float.
struct Windows {
  at::Tensor row_offsets{};
  at::Tensor key_index{};
  at::Tensor value{};
};

/// A bias per query and contiguous range of keys (the bird's-eye grid, each camera).
///
/// Shapes: offsets int64 [S+1] from 0 to K, never falling (empty segments are allowed); value [B, Hb, Q, S] or nothing:
/// offsets alone serve statistics and availability.
struct Segments {
  at::Tensor offsets{};
  std::optional<at::Tensor> value{};
};

/// A bias out of a table that the batch elements share: value[head, index of (query, key)], as the relative position
/// biases of T5 and Swin are. The index is never stored as [Q, K] where codes give it: key_code[k] - query_code[q].
///
/// Shapes: value [Ht, T] with Ht = 1 or H, differentiable, -inf removes; either index int32 [Q, K], or query_code int32
/// [Q] and key_code int32 [K]. Indices lie in 0 .. T-1. Of the row statistics' p0 a table is part, as a mask is.
struct Table {
  at::Tensor value{};
  std::optional<at::Tensor> index{};
  std::optional<at::Tensor> query_code{};
  std::optional<at::Tensor> key_code{};
};

/// The dense layouts in which a bias may arrive.
enum class DenseLayout {
  kBatchQueryKey,      // [B, Q, K]
  kQueryBatchKey,      // [Q, B, K]
  kBatchHeadQueryKey,  // [B * H, Q, K], as torch.nn.MultiheadAttention takes it
};

/// A bias of queries toward keys, stored as what it is and never as a [B, H, Q, K] tensor; each part may be absent.
///
///   StructuredBias bias{.windows = Windows{row_offsets, key_index, value}};
///   auto out = biased_attention(q, k, v, bias);
struct StructuredBias {
  std::optional<Windows> windows{};
  std::optional<Segments> segments{};
  std::optional<Table> table{};

  /// The dense bias [B, Hb, Q, K], differentiable in the values; for tests, for peers and for looking at.
  /// `example` gives the dtype and the device of a bias without values.
  at::Tensor materialize(std::int64_t batch, std::int64_t queries, std::int64_t keys, const at::Tensor& example) const;

  /// What the bias really occupies, in bytes.
  std::int64_t bytes() const;

  /// Sparse rows from a dense bias. `support` [B|B*H, Q, K] (in the layout of `dense`) says which entries are kept;
  /// without it the entries other than zero are, which is refused for a bias that requires a gradient: an entry that
  /// happens to be zero would never learn. (A dense bias that learns everywhere goes in as attn_mask: dense_mask().)
  static StructuredBias from_dense(const at::Tensor& dense, DenseLayout layout, std::int64_t batch, std::int64_t heads,
                                   const std::optional<at::Tensor>& support = std::nullopt);

  /// value [Ht, T] looked up by index, integers [Q, K].
  static StructuredBias from_table(const at::Tensor& value, const at::Tensor& index);

  /// The value at key's position less query's: table [Ht, 2 m_1 + 1, .., 2 m_n + 1] holds the offsets -m .. m along
  /// each of n dimensions, the middle is offset 0, and offsets beyond take the outermost value. Positions are integers
  /// [Q, n] and [K, n]. Differentiable in the table.
  ///
  ///   // T5: one value a head and distance -128 .. 128; Swin: table [H, 13, 13] and the cells of a 7 x 7 window.
  ///   auto bias = StructuredBias::from_offsets(table, at::arange(512).unsqueeze(1), at::arange(512).unsqueeze(1));
  static StructuredBias from_offsets(const at::Tensor& table, const at::Tensor& query_position,
                                     const at::Tensor& key_position);

  /// ALiBi: -slope[head] * |key's position less query's|; slopes [H], positions integers [Q] and [K].
  static StructuredBias from_slopes(const at::Tensor& slopes, const at::Tensor& query_position,
                                    const at::Tensor& key_position);
};

/// A dense bias in one of the layouts above as the view [B, 1|H, Q, K] that biased_attention takes as attn_mask, with
/// all its gradients.
at::Tensor dense_mask(const at::Tensor& dense, DenseLayout layout, std::int64_t batch, std::int64_t heads);

}  // namespace camber::ops
#pragma GCC visibility pop
