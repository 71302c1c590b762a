#include <gtest/gtest.h>

#include <torch/optim/sgd.h>

#include "camber/fewshot/semantic_anchor_purification.h"
#include "camber/train/optimizer_groups.h"
#include "camber/train/scale_projector.h"
#include "fewshot/purification_definition.h"

namespace camber::fewshot {
namespace {

struct Case {
  std::int64_t n_way, k_shot, queries, domain_width, intrinsic_width;
  bool centre;
};

const std::vector<Case> kCases{{5, 5, 15, 64, 640, false}, {5, 5, 15, 64, 640, true}, {5, 1, 15, 64, 640, false},
                               {20, 1, 5, 8, 32, false},   {2, 3, 1, 5, 7, true},     {1, 1, 0, 3, 4, false}};

struct Problem {
  SemanticAnchorPurification sap{nullptr};
  torch::Tensor f_dom{}, f_phy{}, labels{};
  std::int64_t n_way = 0, k_shot = 0;

  Purification run() { return sap->forward(f_dom, f_phy, labels, n_way, k_shot); }
};

Problem problem(const Case& c, torch::Dtype type, double dropout = 0) {
  torch::manual_seed(7);
  Problem p{.n_way = c.n_way, .k_shot = c.k_shot};
  p.sap = SemanticAnchorPurification(PurificationOptions{.domain_width = c.domain_width,
                                                         .intrinsic_width = c.intrinsic_width,
                                                         .dropout = dropout,
                                                         .centre_prototypes = c.centre});
  const torch::NoGradGuard no_grad;
  for (auto& parameter : p.sap->parameters())
    if (parameter.dim() == 1) parameter.add_(0.1 * torch::randn_like(parameter));
  p.sap->alpha.fill_(0.3);
  p.sap->to(type);
  const std::int64_t rows = c.n_way * (c.k_shot + c.queries);
  p.f_dom = torch::randn({rows, c.domain_width}).to(type);
  p.f_phy = torch::randn({rows, c.intrinsic_width}).to(type);
  // The support in any order of classes.
  p.labels =
      torch::cat({torch::arange(c.n_way).repeat({c.k_shot}), torch::arange(c.n_way).repeat_interleave(c.queries)});
  return p;
}

std::vector<double> numbers(const torch::Tensor& tensor) {
  const auto flat = tensor.detach().to(torch::kDouble).contiguous();
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

DefinitionInputs definition_inputs(const Problem& p) {
  SemanticAnchorPurification sap = p.sap;
  return {.rows = static_cast<std::size_t>(p.f_dom.size(0)),
          .domain_width = static_cast<std::size_t>(p.f_dom.size(1)),
          .intrinsic_width = static_cast<std::size_t>(p.f_phy.size(1)),
          .n_way = static_cast<std::size_t>(p.n_way),
          .k_shot = static_cast<std::size_t>(p.k_shot),
          .centre = sap->options.centre_prototypes,
          .scale = sap->scale->value().item<double>(),
          .alpha = sap->alpha.item<double>(),
          .f_dom = numbers(p.f_dom),
          .f_phy = numbers(p.f_phy),
          .labels = {p.labels.data_ptr<std::int64_t>(), p.labels.data_ptr<std::int64_t>() + p.labels.numel()},
          .query_weight = numbers(sap->query->weight),
          .query_bias = numbers(sap->query->bias),
          .project_weight = numbers(sap->project->weight),
          .project_bias = numbers(sap->project->bias),
          .orthogonal_weight = numbers(sap->orthogonal->weight),
          .norm_weight = numbers(sap->norm->weight),
          .norm_bias = numbers(sap->norm->bias)};
}

// The largest difference over the largest number.
double relative_error(const torch::Tensor& seen, const std::vector<double>& expected) {
  const auto values = numbers(seen);
  EXPECT_EQ(values.size(), expected.size());
  double error = 0, size = 1e-30;
  for (std::size_t i = 0; i < values.size(); ++i) {
    error = std::max(error, std::abs(values[i] - expected[i]));
    size = std::max(size, std::abs(expected[i]));
  }
  return error / size;
}

void expect_equals_definition(const Case& c, torch::Dtype type, double tolerance) {
  Problem p = problem(c, type);
  const auto seen = p.run();
  const auto expected = purification_definition(definition_inputs(p));
  EXPECT_LT(relative_error(seen.purified, expected.purified), tolerance);
  EXPECT_LT(relative_error(seen.attention, expected.attention), tolerance);
  EXPECT_LT(relative_error(seen.orthogonality_loss, {expected.orthogonality_loss}), tolerance);
  const auto& s = seen.statistics;
  EXPECT_LT(relative_error(s.gate, {expected.gate}), tolerance);
  EXPECT_NEAR(s.attention_entropy.item<double>(), expected.attention_entropy, tolerance * 3);
  EXPECT_LT(relative_error(s.attention_max, {expected.attention_max}), tolerance);
  EXPECT_LT(relative_error(s.semantic_norm, {expected.semantic_norm}), tolerance);
  EXPECT_LT(relative_error(s.purification_ratio, {expected.purification_ratio}), tolerance);
  EXPECT_LT(relative_error(s.orthogonal_norm, {expected.orthogonal_norm}), tolerance);
  EXPECT_NEAR(s.prototype_cosine.item<double>(), expected.prototype_cosine, tolerance);
}

TEST(Purification, EqualsItsDefinitionInDouble) {
  for (const Case& c : kCases) expect_equals_definition(c, torch::kDouble, 1e-12);
}

TEST(Purification, EqualsItsDefinitionInFloat) {
  // Single precision at widths of 640: 1e-6 of the largest number.
  expect_equals_definition(kCases[0], torch::kFloat, 1e-6 * 4);
}

double weighted_sum(const DefinitionInputs& in, const std::vector<double>& weights) {
  const auto out = purification_definition(in);
  double sum = 3 * out.orthogonality_loss;
  for (std::size_t i = 0; i < weights.size(); ++i) sum += weights[i] * out.purified[i];
  return sum;
}

// Central differences of the definition at some elements of one input, against autograd.
double gradient_error(const DefinitionInputs& in, const std::vector<double>& weights, std::vector<double>& values,
                      const torch::Tensor& gradient) {
  const auto seen = numbers(gradient);
  double worst = 0;
  const std::size_t stride = std::max<std::size_t>(1, values.size() / 12);
  for (std::size_t i = 0; i < values.size(); i += stride) {
    const double kept = values[i], step = 1e-5;
    values[i] = kept + step;
    const double above = weighted_sum(in, weights);
    values[i] = kept - step;
    const double below = weighted_sum(in, weights);
    values[i] = kept;
    worst = std::max(worst, std::abs((above - below) / (2 * step) - seen[i]) / std::max(1.0, std::abs(seen[i])));
  }
  return worst;
}

TEST(Purification, GradientsEqualTheDefinitionsDifferences) {
  Problem p = problem({3, 2, 2, 6, 10, true}, torch::kDouble);
  p.f_dom.requires_grad_(true);
  p.f_phy.requires_grad_(true);
  const auto out = p.run();
  const auto weights = torch::randn_like(out.purified);
  ((out.purified * weights).sum() + 3 * out.orthogonality_loss).backward();
  auto in = definition_inputs(p);
  const auto w = numbers(weights);
  auto& sap = p.sap;
  EXPECT_LT(gradient_error(in, w, in.f_dom, p.f_dom.grad()), 1e-6);
  EXPECT_LT(gradient_error(in, w, in.query_weight, sap->query->weight.grad()), 1e-6);
  EXPECT_LT(gradient_error(in, w, in.query_bias, sap->query->bias.grad()), 1e-6);
  EXPECT_LT(gradient_error(in, w, in.project_weight, sap->project->weight.grad()), 1e-6);
  EXPECT_LT(gradient_error(in, w, in.project_bias, sap->project->bias.grad()), 1e-6);
  EXPECT_LT(gradient_error(in, w, in.orthogonal_weight, sap->orthogonal->weight.grad()), 1e-6);
  EXPECT_LT(gradient_error(in, w, in.norm_weight, sap->norm->weight.grad()), 1e-6);
  EXPECT_LT(gradient_error(in, w, in.norm_bias, sap->norm->bias.grad()), 1e-6);
  EXPECT_FALSE(p.f_phy.grad().defined()) << "prototypes and f_phy are without gradient";
  // alpha and the raw (log) scale: by hand, they are single numbers.
  const auto slope = [&](double& value, double by, double step) {
    const double kept = value;
    value = kept + step * by;
    const double above = weighted_sum(in, w);
    value = kept - step * by;
    const double below = weighted_sum(in, w);
    value = kept;
    return (above - below) / (2 * step);
  };
  EXPECT_NEAR(slope(in.alpha, 1, 1e-6), sap->alpha.grad().item<double>(), 1e-6);
  EXPECT_NEAR(slope(in.scale, in.scale, 1e-6), sap->scale->raw().grad().item<double>(), 1e-6);
}

TEST(Purification, ScaleStartsAt25AndIsCappedAt100WhenSetTo200) {
  Problem p = problem(kCases[0], torch::kFloat);
  EXPECT_NEAR(p.run().statistics.logit_scale.item<double>(), 25, 1e-4);
  EXPECT_EQ(p.run().statistics.logit_scale_clipped.item<double>(), 0);
  for (const auto constraint : {nn::Constraint::kProjected, nn::Constraint::kLogClamp, nn::Constraint::kClamp,
                                nn::Constraint::kStraightThrough}) {
    PurificationOptions options;
    options.scale.constraint = constraint;
    SemanticAnchorPurification sap(options);
    {
      const torch::NoGradGuard no_grad;
      sap->scale->raw().fill_(std::log(200.0));
    }
    const auto seen = sap->forward(p.f_dom, p.f_phy, p.labels, 5, 5).statistics;
    EXPECT_LE(seen.logit_scale.item<double>(), 100) << "constraint " << static_cast<int>(constraint);
    EXPECT_GE(seen.logit_scale.item<double>(), 99.999);
    EXPECT_EQ(seen.logit_scale_clipped.item<double>(), 1);
  }
}

TEST(Purification, IsSharpOnIsotropicPrototypesAndFlatWithTheOldTemperature) {
  torch::manual_seed(3);
  const auto f_dom = torch::randn({100, 64}), f_phy = torch::randn({100, 640});
  const auto labels = torch::arange(5).repeat_interleave(5);
  SemanticAnchorPurification sap(PurificationOptions{.dropout = 0});
  const auto seen = sap->forward(f_dom, f_phy, labels, 5, 5).statistics;
  EXPECT_LT(seen.attention_entropy.item<double>(), std::log(5.0) - 0.1);
  EXPECT_GT(seen.attention_max.item<double>(), 0.3);
  EXPECT_LT(std::abs(seen.prototype_cosine.item<double>()), 0.1);
  SemanticAnchorPurification old(PurificationOptions{.dropout = 0, .sharpness = Sharpness::kFixed});
  const auto flat = old->forward(f_dom, f_phy, labels, 5, 5).statistics;
  EXPECT_NEAR(flat.attention_entropy.item<double>(), std::log(5.0), 1e-4);
  EXPECT_NEAR(flat.attention_max.item<double>(), 0.2, 1e-3);
  EXPECT_NEAR(flat.logit_scale.item<double>(), 1 / std::sqrt(640.0), 1e-7);
}

TEST(Purification, CentringSharpensPrototypesThatLookAlike) {
  torch::manual_seed(4);
  const auto f_phy = torch::relu(torch::randn({25, 640})) + 3 * torch::rand({1, 640});
  const auto f_dom = torch::randn({25, 64}), labels = torch::arange(5).repeat_interleave(5);
  const auto entropy = [&](bool centre) {
    torch::manual_seed(5);
    SemanticAnchorPurification sap(PurificationOptions{.dropout = 0, .centre_prototypes = centre});
    return sap->forward(f_dom, f_phy, labels, 5, 5).statistics;
  };
  EXPECT_GT(entropy(false).prototype_cosine.item<double>(), 0.9);
  EXPECT_GT(entropy(false).attention_entropy.item<double>(), 1.55);
  EXPECT_LT(entropy(true).attention_entropy.item<double>(), 1.45);
}

TEST(Purification, TheScaleStandsAloneInTheGroupWithoutDecay) {
  SemanticAnchorPurification sap;
  const train::OptimizerGroups groups(*sap);
  ASSERT_EQ(groups.groups().size(), 2U);
  const auto& scales = groups.groups()[1];
  EXPECT_EQ(scales.name, "scales");
  EXPECT_EQ(scales.decay_mult, 0);
  EXPECT_EQ(scales.parameter_names, std::vector<std::string>{"scale.raw"});
}

TEST(Purification, RunsAlikeInTrainingWithoutDropoutAndInEvaluation) {
  Problem p = problem(kCases[0], torch::kFloat);
  const auto trained = p.run().purified;
  p.sap->eval();
  EXPECT_TRUE(torch::equal(trained, p.run().purified));
  Problem dropped = problem(kCases[0], torch::kFloat, 0.5);
  EXPECT_FALSE(torch::equal(dropped.run().purified, dropped.run().purified));
}

TEST(Purification, TakesAnyWaysAndShotsFromCallToCall) {
  SemanticAnchorPurification sap(PurificationOptions{.domain_width = 4, .intrinsic_width = 6});
  for (const auto& [ways, shots] : {std::pair{2, 1}, std::pair{7, 3}, std::pair{5, 5}}) {
    const auto labels = torch::arange(ways).repeat_interleave(shots);
    const auto out =
        sap->forward(torch::randn({ways * shots + 3, 4}), torch::randn({ways * shots + 3, 6}), labels, ways, shots);
    EXPECT_EQ(out.attention.size(1), ways);
  }
}

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(Purification, NamesTheClassThatIsMissingFromTheSupport) {
  SemanticAnchorPurification sap(PurificationOptions{.domain_width = 4, .intrinsic_width = 6});
  const auto f_dom = torch::randn({6, 4}), f_phy = torch::randn({6, 6});
  EXPECT_NE(refusal([&] {
              sap->forward(f_dom, f_phy, torch::tensor({0, 0, 2}), 3, 1);
            }).find("class 1 of 3 has none"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              sap->forward(f_dom, f_phy, torch::tensor({0, 1, 5}), 3, 1);
            }).find("must lie below 3"),
            std::string::npos);
  EXPECT_NE(refusal([&] {
              sap->forward(torch::randn({6, 5}), f_phy, torch::tensor({0, 1, 2}), 3, 1);
            }).find("f_dom"),
            std::string::npos);
}

TEST(Purification, TheScaleReturnsFromItsCapUnderTheProjector) {
  torch::manual_seed(2);
  SemanticAnchorPurification sap(PurificationOptions{.domain_width = 8, .intrinsic_width = 16, .dropout = 0});
  train::ScaleProjector projector(*sap);
  torch::optim::SGD optimizer(sap->parameters(), torch::optim::SGDOptions(0.5).momentum(0.9));
  {
    const torch::NoGradGuard no_grad;
    sap->scale->raw().fill_(std::log(100.0));
  }
  const auto labels = torch::arange(4).repeat_interleave(2);
  const auto f_dom = torch::randn({8, 8}), f_phy = torch::randn({8, 16});
  double value = 100;
  for (int step = 0; step < 60; ++step) {
    optimizer.zero_grad();
    // Flat attention is what this loss asks for: the scale must fall.
    const auto out = sap->forward(f_dom, f_phy, labels, 4, 2);
    (out.attention * (out.attention + 1e-8).log()).sum(1).mean().backward();
    projector.step(optimizer);
    value = sap->scale->value().item<double>();
    ASSERT_GE(value, 1);
    ASSERT_LE(value, 100);
  }
  EXPECT_LT(value, 60);
}

}  // namespace
}  // namespace camber::fewshot
