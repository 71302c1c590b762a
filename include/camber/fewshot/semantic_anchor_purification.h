#pragma once
#include <cstdint>

#include <camber/fewshot/options.h>
#include <camber/nn/bounded_scale.h>

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

namespace camber::fewshot {

/// What one pass saw, scalars without a gradient; nothing is read back to the host until somebody asks.
struct PurificationStatistics {
  torch::Tensor gate{};                 ///< sigmoid(alpha)
  torch::Tensor attention_entropy{};    ///< mean of -sum p ln(p + 1e-8)
  torch::Tensor attention_max{};        ///< mean of the largest weight
  torch::Tensor semantic_norm{};        ///< mean |C|
  torch::Tensor purification_ratio{};   ///< mean of g |C| / (|f_dom| + 1e-8)
  torch::Tensor orthogonal_norm{};      ///< |W_orth|
  torch::Tensor logit_scale{};          ///< what multiplies the cosines
  torch::Tensor logit_scale_clipped{};  ///< 1 where the scale stands at its upper bound or beyond, else 0
  torch::Tensor prototype_cosine{};     ///< mean cosine between two prototypes: near 1, they have collapsed
};

struct Purification {
  torch::Tensor purified{};            ///< [B, domain_width]
  torch::Tensor attention{};           ///< [B, n_way]
  torch::Tensor orthogonality_loss{};  ///< mean cos(W_orth purified, f_phy)^2
  PurificationStatistics statistics{};
};

/// Semantic anchor purification: takes class information that leaked into a domain feature out again. The anchors are
/// the episode's own class prototypes. With f_dom [B, 64], f_phy [B, 640] and the labels of the support, which comes
/// first (class c has k_shot rows in any order):
///
///   P_c = l2norm(mean of f_phy over the support of class c), without gradient              [n_way, 640]
///   Q   = l2norm(dropout(W_q f_dom + b_q))                                                 [B, 640]
///   A   = softmax(s Q P^T), s a bounded scale: 25 at the start, at most 100                [B, n_way]
///   C   = dropout(W_proj (A P) + b_proj)                                                   [B, 64]
///   out = LayerNorm(f_dom - sigmoid(alpha) C), alpha = 0 at the start                      [B, 64]
///   L   = mean cos(W_orth out, f_phy without gradient)^2
///
/// n_way and k_shot may differ from call to call; a class without support is an error that names it. It runs in
/// evaluation too (without dropout). Centring subtracts the mean prototype first: with prototypes that look alike the
/// attention stays flat at any scale below the cap.
///
///   SemanticAnchorPurification sap(PurificationOptions{.domain_width = 64, .intrinsic_width = 640});
///   const Purification result = sap->forward(f_dom, f_phy, labels, 5, 5);
class SemanticAnchorPurificationImpl : public torch::nn::Cloneable<SemanticAnchorPurificationImpl> {
 public:
  explicit SemanticAnchorPurificationImpl(PurificationOptions purification_options = {});
  void reset() override;

  /// labels: int64, at least the first n_way * k_shot of them; each 0 .. n_way-1.
  Purification forward(const torch::Tensor& f_dom, const torch::Tensor& f_phy, const torch::Tensor& labels,
                       std::int64_t n_way, std::int64_t k_shot);

  PurificationOptions options;
  torch::nn::Linear query{nullptr}, project{nullptr}, orthogonal{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  nn::BoundedScale scale{nullptr};
  torch::Tensor alpha;
};
TORCH_MODULE(SemanticAnchorPurification);

/// The mean feature of each class: labels 0 .. n_way-1, any order and any counts. [n_way, D]. A class without an
/// example is a std::invalid_argument that names it.
torch::Tensor class_means(const torch::Tensor& features, const torch::Tensor& labels, std::int64_t n_way);

/// The mean cosine between two different rows; 0 for fewer than two rows.
torch::Tensor mean_pairwise_cosine(const torch::Tensor& rows);

}  // namespace camber::fewshot
