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

/// The dense layouts in which a bias may arrive.
enum class DenseLayout {
  kBatchQueryKey,      // [B, Q, K]
  kQueryBatchKey,      // [Q, B, K]
  kBatchHeadQueryKey,  // [B * H, Q, K], as torch.nn.MultiheadAttention takes it
};

/// A bias of queries toward keys, stored as what it is and never as a [B, H, Q, K] tensor; either part may be absent.
///
///   StructuredBias bias{.windows = Windows{row_offsets, key_index, value}};
///   auto out = biased_attention(q, k, v, bias);
struct StructuredBias {
  std::optional<Windows> windows{};
  std::optional<Segments> segments{};

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
};

/// A dense bias in one of the layouts above as the view [B, 1|H, Q, K] that biased_attention takes as attn_mask, with
/// all its gradients.
at::Tensor dense_mask(const at::Tensor& dense, DenseLayout layout, std::int64_t batch, std::int64_t heads);

}  // namespace camber::ops
#pragma GCC visibility pop
