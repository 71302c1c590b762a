#include "camber/fewshot/episode_model.h"

#include <torch/nn/functional/loss.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/container/functional.h>
#include <torch/utils.h>

#include "camber/random/stream.h"

namespace camber::fewshot {
namespace {

namespace F = torch::nn::functional;

constexpr double kNullSpaceFloor = 1e-5;  // directions below this share of the largest are noise

}  // namespace

torch::Tensor remove_class_means(const torch::Tensor& f_dom, const torch::Tensor& known, std::int64_t given,
                                 const torch::Tensor& assigned, std::int64_t n_way) {
  const auto means = class_means(f_dom.narrow(0, 0, given), known.narrow(0, 0, given), n_way);
  return f_dom - means.index_select(0, assigned) + means.mean(0, /*keepdim=*/true);
}

torch::Tensor project_to_null_space(const torch::Tensor& f_dom, const torch::Tensor& labels, std::int64_t support,
                                    std::int64_t n_way) {
  const auto means = class_means(f_dom.narrow(0, 0, support), labels.narrow(0, 0, support), n_way).detach();
  const auto centre = means.mean(0, /*keepdim=*/true);
  const auto [u, singular, directions] = torch::linalg_svd(means - centre, /*full_matrices=*/false);
  const auto kept = singular.gt(kNullSpaceFloor * singular.max()).to(f_dom.scalar_type()).unsqueeze(1);
  const auto basis = directions * kept;  // [n_way, D], rows of unit length or zero
  return f_dom - (f_dom - centre).matmul(basis.t()).matmul(basis);
}

EpisodeModelImpl::EpisodeModelImpl(EpisodeModelOptions model_options, std::vector<std::int64_t> shape,
                                   std::int64_t num_classes, std::int64_t num_domains, std::uint64_t seed)
    : options(std::move(model_options)) {
  options.validate();
  const random::Stream stream(seed, "fewshot.model");
  // A statement of its own before each part: the order in which arguments are evaluated is not fixed.
  const auto start = [&](const char* name) { torch::manual_seed(stream.at(name).key()); };
  start("encoder");
  encoder = register_module("encoder", Encoder(shape, options.encoder));
  start("head");
  head = register_module("head", PrototypeHead(options.head));
  if (!options.domain_branch) return;
  TORCH_CHECK_VALUE(shape.size() == 3, "[fewshot] domain_branch must be false for examples that are no images");
  const std::int64_t width = options.domain_width;
  start("domain_encoder");
  domain_encoder = register_module("domain_encoder", StyleDomainEncoder(width));
  start("domain_classifier");
  domain_classifier = register_module(
      "domain_classifier", torch::nn::Sequential(torch::nn::Linear(width, width), torch::nn::Functional(torch::relu),
                                                 torch::nn::Linear(width, num_domains)));
  if (options.purifier == Purifier::kSap) {
    PurificationOptions purification = options.purification;
    purification.domain_width = width;
    purification.intrinsic_width = encoder->width();
    start("sap");
    sap = register_module("sap", SemanticAnchorPurification(purification));
  }
  if (options.purifier == Purifier::kGradientReversal) {
    start("adversary");
    adversary = register_module("adversary", torch::nn::Linear(width, num_classes));
  }
  if (options.feed_classifier) {
    start("feed");
    feed = register_module("feed", torch::nn::Linear(torch::nn::LinearOptions(width, encoder->width()).bias(false)));
    torch::nn::init::zeros_(feed->weight);
  }
}

EpisodeFeatures EpisodeModelImpl::encode(const torch::Tensor& examples) {
  EpisodeFeatures features{.intrinsic = encoder(examples)};
  if (domain_encoder) features.domain = domain_encoder(examples);
  return features;
}

torch::Tensor EpisodeModelImpl::purify(const EpisodeFeatures& features, const EpisodeLabels& labels,
                                       EpisodePass& pass) {
  const std::int64_t support = labels.n_way * labels.k_shot, rows = features.domain.size(0);
  switch (options.purifier) {
    case Purifier::kNone:
    case Purifier::kGradientReversal:
      return features.domain;
    case Purifier::kSap: {
      auto result = sap->forward(features.domain, features.intrinsic, labels.way, labels.n_way, labels.k_shot);
      pass.orthogonality_loss = result.orthogonality_loss;
      pass.statistics = result.statistics;
      return result.purified;
    }
    case Purifier::kClassMean: {
      const torch::NoGradGuard no_grad;
      const auto nearest = head->forward(features.intrinsic, labels.way, labels.n_way, labels.k_shot).argmax(1);
      const auto assigned = torch::cat({labels.way.narrow(0, 0, support), nearest});
      const torch::AutoGradMode with_grad(true);
      return remove_class_means(features.domain, labels.way, support, assigned, labels.n_way);
    }
    case Purifier::kClassMeanOracle:
      return remove_class_means(features.domain, labels.way, rows, labels.way, labels.n_way);
    case Purifier::kNullSpace:
      return project_to_null_space(features.domain, labels.way, support, labels.n_way);
  }
  throw std::logic_error("[fewshot] unknown purifier");
}

EpisodePass EpisodeModelImpl::forward(const EpisodeFeatures& features, const EpisodeLabels& labels) {
  EpisodePass pass;
  if (domain_encoder) pass.purified = purify(features, labels, pass);
  const auto classified = feed ? features.intrinsic - feed(pass.purified) : features.intrinsic;
  pass.logits = head->forward(classified, labels.way, labels.n_way, labels.k_shot);
  return pass;
}

EpisodeLosses EpisodeModelImpl::losses(const EpisodeFeatures& features, const EpisodePass& pass,
                                       const EpisodeLabels& labels, double progress) {
  const LossWeights& weights = options.losses;
  const std::int64_t support = labels.n_way * labels.k_shot;
  EpisodeLosses terms;
  const auto add = [&terms](const char* name, double weight, const auto& loss) {
    if (weight > 0) terms.emplace_back(name, weight * loss());
  };
  add(
      "classification", 1,
      [&] { return F::cross_entropy(pass.logits, labels.way.narrow(0, support, pass.logits.size(0))); });
  add("class_contrast", weights.class_contrast,
      [&] { return supervised_contrast(features.intrinsic, labels.way, weights.class_temperature.at(progress)); });
  if (!domain_encoder) return terms;
  add(
      "domain", weights.domain,
      [&] { return F::cross_entropy(domain_classifier->forward(pass.purified), labels.domains); });
  add("domain_contrast", weights.domain_contrast,
      [&] { return supervised_contrast(pass.purified, labels.domains, weights.domain_temperature.at(progress)); });
  if (sap) add("orthogonality", weights.orthogonality, [&] { return pass.orthogonality_loss; });
  if (adversary)
    add("adversary", weights.adversary,
        [&] { return F::cross_entropy(adversary(reverse_gradient(features.domain)), labels.classes); });
  return terms;
}

}  // namespace camber::fewshot
