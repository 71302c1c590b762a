#include "benchmarks/torch_multihead_attention.h"

#include <cmath>

#include <ATen/ATen.h>

namespace camber::benchmarks {

MultiheadOutput multihead_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                    const MultiheadWeights& weights, const std::optional<at::Tensor>& bias,
                                    std::int64_t heads) {
  const std::int64_t batch = query.size(0), queries = query.size(1), keys = key.size(1), channels = query.size(2);
  const auto heads_of = [&](const at::Tensor& rows, const at::Tensor& weight, const std::optional<at::Tensor>& added) {
    const auto projected = at::linear(rows.transpose(0, 1), weight, added);  // [rows, B, C], as the module computes it
    return projected.contiguous().view({rows.size(1), batch * heads, channels / heads}).transpose(0, 1);
  };
  const double scale = 1 / std::sqrt(static_cast<double>(channels) / static_cast<double>(heads));
  const auto q = heads_of(query, weights.query, weights.query_bias) * scale;
  const auto k = heads_of(key, weights.key, weights.key_bias).transpose(1, 2);
  const auto v = heads_of(value, weights.value, weights.value_bias);
  at::Tensor scores;
  if (bias) {
    const auto expanded = bias->expand({batch, heads, queries, keys}).reshape({batch * heads, queries, keys});
    scores = at::baddbmm(expanded, q, k);
  } else {
    scores = at::bmm(q, k);
  }
  const auto shares = at::softmax(scores, -1);
  const auto joined = at::bmm(shares, v).transpose(0, 1).contiguous().view({queries, batch, channels});
  return {at::linear(joined, weights.out, weights.out_bias).transpose(0, 1),
          shares.view({batch, heads, queries, keys}).mean(1)};
}

}  // namespace camber::benchmarks
