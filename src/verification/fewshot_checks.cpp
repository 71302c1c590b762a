#include <cmath>

#include "camber/fewshot/episode_model.h"
#include "camber/train/optimizer_groups.h"
#include "verification/checklist.h"

namespace camber::verification {
namespace {

using fewshot::Purification;
using fewshot::PurificationOptions;
using fewshot::SemanticAnchorPurification;

constexpr std::int64_t kWays = 5, kShots = 5, kFeatureRows = 100;

struct Inputs {
  torch::Tensor f_dom = torch::randn({kFeatureRows, 64}), f_phy = torch::randn({kFeatureRows, 640}),
                labels = torch::arange(kWays).repeat_interleave(kShots);

  Purification run(SemanticAnchorPurification& sap) const {
    return sap->forward(f_dom.to(sap->alpha.scalar_type()), f_phy.to(sap->alpha.scalar_type()), labels, kWays, kShots);
  }
};

torch::Tensor unit(const torch::Tensor& rows) {
  return rows / rows.norm(2, 1, /*keepdim=*/true);
}

// The definition in plain tensor operations of double precision, prototypes by one mean a class.
torch::Tensor definition(const SemanticAnchorPurification& sap, const torch::Tensor& f_dom,
                         const torch::Tensor& f_phy) {
  std::vector<torch::Tensor> means;
  means.reserve(static_cast<std::size_t>(kWays));
  for (std::int64_t c = 0; c < kWays; ++c) means.push_back(f_phy.narrow(0, c * kShots, kShots).mean(0));
  const auto prototypes = unit(torch::stack(means));
  const auto wide = [](const torch::Tensor& x) { return x.detach().to(torch::kDouble); };
  const auto queries = unit(f_dom.matmul(wide(sap->query->weight).t()) + wide(sap->query->bias));
  const auto attention = (25.0 * queries.matmul(prototypes.t())).softmax(1);
  const auto semantic = attention.matmul(prototypes).matmul(wide(sap->project->weight).t()) + wide(sap->project->bias);
  const auto difference = f_dom - 0.5 * semantic;
  const auto centred = difference - difference.mean(1, true);
  return centred / (centred.square().mean(1, true) + 1e-5).sqrt();
}

Seen equals_definition() {
  Inputs in;
  SemanticAnchorPurification sap(PurificationOptions{.dropout = 0});
  sap->to(torch::kDouble);
  const auto expected = definition(sap, in.f_dom.to(torch::kDouble), in.f_phy.to(torch::kDouble));
  return at_most(difference(in.run(sap).purified, expected), 1e-6, "error");
}

Seen starts_at_25() {
  SemanticAnchorPurification sap;
  return at_most(std::abs(Inputs().run(sap).statistics.logit_scale.item<double>() - 25), 1e-4, "away from 25");
}

Seen capped_at_100() {
  SemanticAnchorPurification sap;
  {
    const torch::NoGradGuard no_grad;
    sap->scale->raw().fill_(std::log(200.0));
  }
  const auto seen = Inputs().run(sap).statistics;
  const auto value = seen.logit_scale.item<double>();
  return {"set to 200, acts as " + number(value),
          value <= 100 && value > 99.99 && seen.logit_scale_clipped.item<double>() == 1};
}

Seen is_sharp() {
  SemanticAnchorPurification sap(PurificationOptions{.dropout = 0});
  const auto seen = Inputs().run(sap).statistics;
  const auto entropy = seen.attention_entropy.item<double>(), largest = seen.attention_max.item<double>();
  return {"entropy " + number(entropy) + " (below ln 5 = 1.60944), largest weight " + number(largest) + " (above 0.2)",
          entropy < std::log(5.0) && largest > 0.2};
}

Seen one_parameter_without_decay() {
  SemanticAnchorPurification sap;
  const train::OptimizerGroups groups(*sap);
  std::size_t count = 0;
  std::string name;
  for (const auto& group : groups.groups())
    if (group.decay_mult == 0) count += group.parameters.size(), name = group.parameter_names.front();
  return equal(static_cast<double>(count), 1, "parameter, " + name);
}

Seen path_to_the_logits() {
  fewshot::EpisodeModelOptions options;
  options.encoder.channels = 4;
  options.feed_classifier = true;
  fewshot::EpisodeModel model(options, std::vector<std::int64_t>{1, 28, 28}, 3, 2, 1);
  {
    const torch::NoGradGuard no_grad;
    model->feed->weight.fill_(0.05);
  }
  const fewshot::EpisodeLabels labels{.way = torch::arange(12) % 3, .n_way = 3, .k_shot = 2};
  const auto features = model->encode(torch::rand({12, 1, 28, 28}));
  model->forward(features, labels).logits.square().sum().backward();
  return {"gradient of the scale " + number(model->sap->scale->raw().grad().item<double>()),
          model->sap->scale->raw().grad().item<double>() != 0};
}

}  // namespace

void check_fewshot(Checklist& list) {
  list.section("few-shot");
  list.check("purification equals its definition in float64", equals_definition);
  list.check("the logit scale starts at 25", starts_at_25);
  list.check("the logit scale is capped at 100", capped_at_100);
  list.check("attention over isotropic prototypes is not flat", is_sharp);
  list.check("one parameter stands in the group without decay", one_parameter_without_decay);
  list.check("purification that feeds the classifier has a gradient path", path_to_the_logits);
}

}  // namespace camber::verification
