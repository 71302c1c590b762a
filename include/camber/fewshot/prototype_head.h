#pragma once
#include <cstdint>

#include <camber/nn/bounded_scale.h>

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

namespace camber::fewshot {

struct PrototypeHeadOptions {
  bool normalize = true;
  bool scaled = false;
  nn::BoundedScaleOptions scale = nn::scale_preset("logit").scale;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("normalize", normalize, "features of unit length before prototypes and distances");
    visitor("scaled", scaled, "multiply the distances by a bounded scale; else by 1");
    visitor("scale", scale, "the scale of the distances");
  }
  friend bool operator==(const PrototypeHeadOptions&, const PrototypeHeadOptions&) = default;
};

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
