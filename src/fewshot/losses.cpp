#include "camber/fewshot/losses.h"

#include <limits>

#include <torch/nn/functional/normalization.h>

namespace camber::fewshot {

torch::Tensor supervised_contrast(const torch::Tensor& features, const torch::Tensor& labels, double temperature) {
  namespace F = torch::nn::functional;
  const auto unit = F::normalize(features, F::NormalizeFuncOptions().dim(1));
  const std::int64_t rows = features.size(0);
  const auto self = torch::eye(rows, torch::TensorOptions().dtype(torch::kBool).device(features.device()));
  const auto logits = (unit.matmul(unit.t()) / temperature).masked_fill(self, -std::numeric_limits<float>::infinity());
  const auto partners = labels.unsqueeze(0).eq(labels.unsqueeze(1)).logical_and(self.logical_not());
  const auto counts = partners.sum(1);
  const auto log_shares = logits - logits.logsumexp(1, /*keepdim=*/true);
  const auto sums = log_shares.masked_fill(partners.logical_not(), 0).sum(1);
  const auto anchors = counts.gt(0);
  const auto each = -(sums / counts.clamp_min(1)).masked_fill(anchors.logical_not(), 0);
  return each.sum() / anchors.sum().clamp_min(1);
}

torch::Tensor reverse_gradient(const torch::Tensor& x, double strength) {
  return x.detach() - strength * (x - x.detach());
}

}  // namespace camber::fewshot
