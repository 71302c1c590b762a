#include "camber/fewshot/prototype_head.h"

#include <torch/nn/functional/normalization.h>

#include "camber/fewshot/semantic_anchor_purification.h"

namespace camber::fewshot {

PrototypeHeadImpl::PrototypeHeadImpl(PrototypeHeadOptions head_options) : options(std::move(head_options)) {
  options.validate();
  reset();
}

void PrototypeHeadImpl::reset() {
  if (options.scaled) scale = register_module("scale", nn::BoundedScale(options.scale));
}

torch::Tensor PrototypeHeadImpl::forward(const torch::Tensor& features, const torch::Tensor& labels, std::int64_t n_way,
                                         std::int64_t k_shot) {
  namespace F = torch::nn::functional;
  const std::int64_t support = n_way * k_shot;
  TORCH_CHECK_VALUE(features.dim() == 2 && features.size(0) > support, "[prototype_head] features must be [more than ",
                    support, ", D], got ", features.sizes());
  const auto rows = options.normalize ? F::normalize(features, F::NormalizeFuncOptions().dim(1)) : features;
  const auto prototypes = class_means(rows.narrow(0, 0, support), labels.narrow(0, 0, support), n_way);
  const auto queries = rows.narrow(0, support, rows.size(0) - support);
  // |q - p|^2 = |q|^2 + |p|^2 - 2 q p; the products are one matrix multiplication.
  const auto distances =
      queries.square().sum(1, true) + prototypes.square().sum(1) - 2 * queries.matmul(prototypes.t());
  return scale ? -scale->value() * distances : -distances;
}

}  // namespace camber::fewshot
