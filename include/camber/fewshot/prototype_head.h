#pragma once
#include <cstdint>

#include <camber/fewshot/options.h>
#include <camber/nn/bounded_scale.h>

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

namespace camber::fewshot {

/// Classifies queries by their distance to the mean of each class's support: logit = -s |f - P_c|^2, s = 1 unless
/// `scaled`.
///
///   torch::Tensor logits = head->forward(features, labels, 5, 1);  // [B - 5, 5]: the rows after the support
class PrototypeHeadImpl : public torch::nn::Cloneable<PrototypeHeadImpl> {
 public:
  explicit PrototypeHeadImpl(PrototypeHeadOptions head_options = {});
  void reset() override;
  /// features [B, D], the support first; labels [B or more than the support] int64. Logits of the queries, [Q, n_way].
  torch::Tensor forward(const torch::Tensor& features, const torch::Tensor& labels, std::int64_t n_way,
                        std::int64_t k_shot);

  PrototypeHeadOptions options;
  nn::BoundedScale scale{nullptr};
};
TORCH_MODULE(PrototypeHead);

}  // namespace camber::fewshot
