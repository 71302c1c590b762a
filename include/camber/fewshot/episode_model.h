#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <camber/fewshot/encoders.h>
#include <camber/fewshot/losses.h>
#include <camber/fewshot/prototype_head.h>
#include <camber/fewshot/semantic_anchor_purification.h>
#include <camber/fewshot/style_domain_encoder.h>

namespace camber::fewshot {

/// f_phy [B, D] and, with a domain branch, f_dom [B, domain_width].
struct EpisodeFeatures {
  torch::Tensor intrinsic{};
  torch::Tensor domain{};
};

/// Labels of an episode's rows, the support first.
struct EpisodeLabels {
  torch::Tensor way{};      ///< [B] int64, 0 .. n_way-1
  torch::Tensor classes{};  ///< [B] int64 of the training set; for the adversary alone
  torch::Tensor domains{};  ///< [B] int64 of the training set
  std::int64_t n_way = 0, k_shot = 0;
};

/// What a model says of an episode.
struct EpisodePass {
  torch::Tensor logits{};              ///< [Q, n_way] of the queries
  torch::Tensor purified{};            ///< [B, domain_width], undefined without a domain branch
  torch::Tensor orthogonality_loss{};  ///< sap only
  std::optional<PurificationStatistics> statistics{};
};

/// The terms of the loss by name, each times its weight; the loss is their sum. Names: classification, class_contrast,
/// domain, domain_contrast, orthogonality, adversary.
using EpisodeLosses = std::vector<std::pair<std::string, torch::Tensor>>;

/// The host model: an intrinsic encoder whose features the prototype head classifies, and a domain branch whose feature
/// is purified of class information and told apart by domain. In the original the purified feature reaches no logit, so
/// purification cannot change accuracy but through the joint clipping of gradients; feed_classifier gives it a path:
/// what is classified is f_phy - W_feed purified, W_feed = 0 at the start.
///
///   EpisodeModel model(EpisodeModelOptions{}, {1, 28, 28}, num_classes, num_domains, seed);
///   const EpisodeFeatures features = model->encode(images);
///   const EpisodePass pass = model->forward(features, labels);
///   const EpisodeLosses terms = model->losses(features, pass, labels, progress);
class EpisodeModelImpl : public torch::nn::Module {
 public:
  /// shape: of one example. Every part takes its first values from a stream of its own, so that adding one changes no
  /// other's.
  EpisodeModelImpl(EpisodeModelOptions model_options, std::vector<std::int64_t> shape, std::int64_t num_classes,
                   std::int64_t num_domains, std::uint64_t seed);

  EpisodeFeatures encode(const torch::Tensor& examples);
  EpisodePass forward(const EpisodeFeatures& features, const EpisodeLabels& labels);
  /// progress: share of the training done, for the temperatures.
  EpisodeLosses losses(const EpisodeFeatures& features, const EpisodePass& pass, const EpisodeLabels& labels,
                       double progress);

  EpisodeModelOptions options;
  Encoder encoder{nullptr};
  StyleDomainEncoder domain_encoder{nullptr};
  SemanticAnchorPurification sap{nullptr};
  PrototypeHead head{nullptr};
  torch::nn::Linear feed{nullptr}, adversary{nullptr};
  torch::nn::Sequential domain_classifier{nullptr};

 private:
  torch::Tensor purify(const EpisodeFeatures& features, const EpisodeLabels& labels, EpisodePass& pass);
};
TORCH_MODULE(EpisodeModel);

/// f_dom less its class's mean, plus the mean of those means; the classes' means come from the first `given` rows with
/// `known` labels, each row's own class from `assigned`.
torch::Tensor remove_class_means(const torch::Tensor& f_dom, const torch::Tensor& known, std::int64_t given,
                                 const torch::Tensor& assigned, std::int64_t n_way);

/// f_dom without its part in the span of the support's centred class means (n_way - 1 directions).
torch::Tensor project_to_null_space(const torch::Tensor& f_dom, const torch::Tensor& labels, std::int64_t support,
                                    std::int64_t n_way);

}  // namespace camber::fewshot
