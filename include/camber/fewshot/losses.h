#pragma once
#include <camber/fewshot/options.h>

#include <torch/types.h>

namespace camber::fewshot {

/// Supervised contrast: rows of unit length, z_ij = f_i f_j / temperature for j != i,
///   L = mean over anchors i that have a partner of  - mean over partners p of (z_ip - logsumexp_j z_ij).
/// 0 when no row has a partner.
torch::Tensor supervised_contrast(const torch::Tensor& features, const torch::Tensor& labels, double temperature);

/// The value itself; its gradient times -strength.
torch::Tensor reverse_gradient(const torch::Tensor& x, double strength = 1);

}  // namespace camber::fewshot
