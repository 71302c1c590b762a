#include "camber/fewshot/semantic_anchor_purification.h"

#include <cmath>

#include <torch/nn/functional/dropout.h>
#include <torch/nn/functional/normalization.h>
#include <torch/nn/init.h>

namespace camber::fewshot {
namespace {

namespace F = torch::nn::functional;

torch::Tensor unit_rows(const torch::Tensor& rows) {
  return F::normalize(rows, F::NormalizeFuncOptions().dim(1));
}

void check_inputs(const torch::Tensor& f_dom, const torch::Tensor& f_phy, const torch::Tensor& labels,
                  std::int64_t support, const PurificationOptions& options) {
  TORCH_CHECK_VALUE(f_dom.dim() == 2 && f_dom.size(1) == options.domain_width, "[purification] f_dom must be [B, ",
                    options.domain_width, "], got ", f_dom.sizes());
  TORCH_CHECK_VALUE(f_phy.dim() == 2 && f_phy.size(1) == options.intrinsic_width && f_phy.size(0) == f_dom.size(0),
                    "[purification] f_phy must be [", f_dom.size(0), ", ", options.intrinsic_width, "], got ",
                    f_phy.sizes());
  TORCH_CHECK_VALUE(support >= 1 && support <= f_dom.size(0), "[purification] n_way * k_shot must be from 1 to the ",
                    f_dom.size(0), " rows given, got ", support);
  TORCH_CHECK_VALUE(labels.dim() == 1 && labels.size(0) >= support && labels.scalar_type() == torch::kLong,
                    "[purification] labels must be int64 with at least ", support, " numbers, got ", labels.sizes());
}

}  // namespace

torch::Tensor class_means(const torch::Tensor& features, const torch::Tensor& labels, std::int64_t n_way) {
  const auto counts = torch::bincount(labels, /*weights=*/{}, n_way);
  TORCH_CHECK_VALUE(counts.size(0) == n_way, "[class_means] labels must lie below ", n_way, ", got ",
                    counts.size(0) - 1);
  const auto on_host = counts.cpu();
  const auto* count = on_host.const_data_ptr<std::int64_t>();
  for (std::int64_t c = 0; c < n_way; ++c)
    TORCH_CHECK_VALUE(count[c] > 0, "[class_means] every class must have an example in the support, but class ", c,
                      " of ", n_way, " has none");
  // A product has one order of its sums; what a GPU adds up by index has none.
  const auto sums = features.is_cpu()
                        ? torch::zeros({n_way, features.size(1)}, features.options()).index_add(0, labels, features)
                        : labels.unsqueeze(0)
                              .eq(torch::arange(n_way, labels.options()).unsqueeze(1))
                              .to(features.scalar_type())
                              .matmul(features);
  return sums / counts.to(features.scalar_type()).unsqueeze(1);
}

torch::Tensor mean_pairwise_cosine(const torch::Tensor& rows) {
  const std::int64_t n = rows.size(0);
  if (n < 2) return torch::zeros({}, rows.options());
  const auto unit = unit_rows(rows);
  return (unit.sum(0).square().sum() - unit.square().sum()) / static_cast<double>(n * (n - 1));
}

SemanticAnchorPurificationImpl::SemanticAnchorPurificationImpl(PurificationOptions purification_options)
    : options(std::move(purification_options)) {
  options.validate();
  reset();
}

void SemanticAnchorPurificationImpl::reset() {
  const std::int64_t domain = options.domain_width, intrinsic = options.intrinsic_width;
  query = register_module("query", torch::nn::Linear(domain, intrinsic));
  project = register_module("project", torch::nn::Linear(intrinsic, domain));
  orthogonal =
      register_module("orthogonal", torch::nn::Linear(torch::nn::LinearOptions(domain, intrinsic).bias(false)));
  norm = register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({domain})));
  alpha = register_parameter("alpha", torch::zeros({}));
  if (options.sharpness == Sharpness::kScale) scale = register_module("scale", nn::BoundedScale(options.scale));
  for (const auto& layer : {query, project}) {
    torch::nn::init::xavier_uniform_(layer->weight, 0.5);
    torch::nn::init::zeros_(layer->bias);
  }
  torch::nn::init::xavier_uniform_(orthogonal->weight, 1.0);
}

Purification SemanticAnchorPurificationImpl::forward(const torch::Tensor& f_dom, const torch::Tensor& f_phy,
                                                     const torch::Tensor& labels, std::int64_t n_way,
                                                     std::int64_t k_shot) {
  const std::int64_t support = n_way * k_shot;
  check_inputs(f_dom, f_phy, labels, support, options);
  const auto dropout = [this](const torch::Tensor& x) { return torch::dropout(x, options.dropout, is_training()); };

  const auto fixed_phy = f_phy.detach();
  auto means = class_means(fixed_phy.narrow(0, 0, support), labels.narrow(0, 0, support), n_way);
  if (options.centre_prototypes) means = means - means.mean(0, /*keepdim=*/true);
  const auto prototypes = unit_rows(means);
  const auto queries = unit_rows(dropout(query(f_dom)));
  const auto sharpness =
      scale ? scale->value()
            : torch::full({}, 1 / std::sqrt(static_cast<double>(options.intrinsic_width)), f_dom.options());
  const auto attention = torch::softmax(sharpness * queries.matmul(prototypes.t()), 1);
  const auto semantic = dropout(project(attention.matmul(prototypes)));
  const auto gate = alpha.sigmoid();

  Purification result{.purified = norm(f_dom - gate * semantic), .attention = attention};
  const auto cosine = (unit_rows(orthogonal(result.purified)) * unit_rows(fixed_phy)).sum(1);
  result.orthogonality_loss = cosine.square().mean();

  const torch::NoGradGuard no_grad;
  const auto semantic_norms = semantic.norm(2, 1);
  auto& seen = result.statistics;
  seen.gate = gate.detach();
  seen.attention_entropy = -(attention * (attention + 1e-8).log()).sum(1).mean().detach();
  seen.attention_max = std::get<0>(attention.max(1)).mean().detach();
  seen.semantic_norm = semantic_norms.mean().detach();
  seen.purification_ratio = (gate * semantic_norms / (f_dom.norm(2, 1) + 1e-8)).mean().detach();
  seen.orthogonal_norm = orthogonal->weight.norm().detach();
  seen.logit_scale = sharpness.detach().reshape({});
  seen.logit_scale_clipped =
      scale ? seen.logit_scale.ge(scale->max()).to(f_dom.scalar_type()) : torch::zeros({}, f_dom.options());
  seen.prototype_cosine = mean_pairwise_cosine(prototypes);
  return result;
}

}  // namespace camber::fewshot
