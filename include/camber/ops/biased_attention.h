#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "camber/ops/structured_bias.h"

/// Attention with a structured additive bias:
///
///   z = softmax_scale * q k^T + windows + segments + table + attn_mask,   output = softmax(z) v.
///
/// B batch, H heads, Q queries, K keys, S segments, D head dimension, Dv value dimension.
#pragma GCC visibility push(default)  // libcamber_ops.so hides everything else
namespace camber::ops {

/// `auto` takes the best that can run; every other name is a demand and an error where it cannot be met.
enum class Implementation {
  kAuto,
  kFused,      // CPU kernels: nothing of size Q x K is ever stored
  kCorrected,  // torch's own attention for the device, corrected exactly for the bias; any device that has one
  kStreamed,   // chunks of queries in plain tensor operations, recomputed in backward; any device, float64 too
  kReference,  // the formula as written, dense
};

const char* name_of(Implementation implementation);
Implementation implementation_from(const std::string& name);

/// Everything that removes keys. All of them may come together, and with the bias; none is ever dropped.
struct AttentionMasks {
  /// Float, [1|B, 1|H, Q, K], added to the scores and differentiable.
  std::optional<at::Tensor> attn_mask{};
  /// Bool, [1|B, 1|H, Q, K], true = blocked (the opposite of what scaled_dot_product_attention means by a bool mask).
  std::optional<at::Tensor> blocked_mask{};
  /// Bool, [B, K], true = blocked.
  std::optional<at::Tensor> key_padding_mask{};
  /// int64, [B]: keys from this index on do not exist.
  std::optional<at::Tensor> key_lengths{};
  /// int64, [1|B, Q]: query i sees the keys before this index alone, and the others cost nothing (causal: 1, 2, 3, ..).
  std::optional<at::Tensor> row_lengths{};
  /// Bool, [B, S]: which sensors delivered; needs segments with offsets. Keys of an absent one cost nothing.
  std::optional<at::Tensor> segment_available{};
};

struct AttentionOptions {
  /// 1 / sqrt(D) when absent. The bias comes after it.
  std::optional<double> softmax_scale{};
  AttentionMasks masks{};
  /// Dropout of the weights; counter-based: a function of (seed, b, h, q, k) in every implementation and pass.
  double dropout = 0;
  std::uint64_t dropout_seed = 0;
  /// Also return row statistics, taken before dropout.
  bool statistics = false;
  Implementation implementation = Implementation::kAuto;
};

/// Row statistics [B, H, Q] of the attention that was really used; p0 is the attention without the finite bias of
/// windows and segments (table, masks and -inf stay).
struct AttentionStatistics {
  at::Tensor entropy{};         // logsumexp(z) - sum p z, in nats
  at::Tensor largest_weight{};  // max p
  at::Tensor sum_of_squares{};  // sum p^2
  at::Tensor change{};          // half of sum |p - p0|: the share of attention that the bias moved
  at::Tensor divergence{};      // KL(p || p0)
  at::Tensor keys_left{};       // keys with a finite z
  at::Tensor segment_mass{};    // [B, H, Q, S]; undefined without segments
};

struct AttentionOutput {
  at::Tensor output{};     // [B, H, Q, Dv], dtype of q
  at::Tensor logsumexp{};  // [B, H, Q], natural log, float (double for double inputs), differentiable
  std::optional<AttentionStatistics> statistics{};
};

/// Which implementation runs for a call, and why each better one could not.
struct AttentionReport {
  Implementation ran = Implementation::kAuto;
  std::vector<std::string> reasons{};
  /// Rows b * Q + q that `corrected` left to `streamed`, because their windows held nearly all weight and lost it;
  /// int64 on the CPU, undefined where none could need it.
  at::Tensor recomputed{};
  std::int64_t recomputed_rows = 0;
  std::string sentence() const;
};

/// q [B, H, Q, D], k [B, H, K, D], v [B, H, K, Dv]; any strides with a last stride of 1. Gradients flow to q, k, v,
/// window values, segment values, the table and attn_mask. A row without a finite z gives output 0, logsumexp -inf and
/// gradients 0. A NaN stays in the rows that see it: -inf, in whatever part, removes a key with all that it holds.
///
///   AttentionReport report;
///   auto [output, logsumexp, statistics] =
///       biased_attention(q, k, v, bias, {.masks = {.key_padding_mask = padding}, .statistics = true}, &report);
AttentionOutput biased_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 const StructuredBias& bias = {}, const AttentionOptions& options = {},
                                 AttentionReport* report = nullptr);

/// Joins attention over shards of the keys exactly: with weights exp(lse_i - lse), output = sum_i weight_i output_i.
/// outputs [B, H, Q, Dv] and logsumexps [B, H, Q]; differentiable in both.
AttentionOutput merge(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& logsumexps);

}  // namespace camber::ops
#pragma GCC visibility pop
