#pragma once
#include <cstdint>
#include <optional>

#include <ATen/core/Tensor.h>

namespace camber::benchmarks {

/// The projections of torch.nn.MultiheadAttention, each [C, C]; biases [C] may be absent.
struct MultiheadWeights {
  at::Tensor query{}, key{}, value{}, out{};
  std::optional<at::Tensor> query_bias{}, key_bias{}, value_bias{}, out_bias{};
};

struct MultiheadOutput {
  at::Tensor output{};   // [B, Q, C]
  at::Tensor weights{};  // [B, Q, K], averaged over the heads
};

/// The operations of torch.nn.MultiheadAttention with need_weights = true: rows [B, N, C] are turned to [N, B, C], the
/// bias [B, 1, Q, K] is expanded over the heads, baddbmm adds it to the scores, and the weights are averaged.
MultiheadOutput multihead_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                    const MultiheadWeights& weights, const std::optional<at::Tensor>& bias,
                                    std::int64_t heads);

}  // namespace camber::benchmarks
