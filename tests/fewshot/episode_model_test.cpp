#include "camber/fewshot/episode_model.h"

#include <gtest/gtest.h>

#include <torch/nn/functional/loss.h>

namespace camber::fewshot {
namespace {

constexpr std::int64_t kWays = 3, kShots = 2, kQueries = 2, kRows = kWays * (kShots + kQueries);

EpisodeLabels labels() {
  return {.way = torch::cat(
              {torch::arange(kWays).repeat_interleave(kShots), torch::arange(kWays).repeat_interleave(kQueries)}),
          .classes = torch::arange(kRows) % 4,
          .domains = torch::arange(kRows) % 2,
          .n_way = kWays,
          .k_shot = kShots};
}

EpisodeModelOptions small() {
  EpisodeModelOptions options;
  options.encoder.channels = 8;
  options.domain_width = 12;
  options.purification.dropout = 0;
  return options;
}

EpisodeModel make(const EpisodeModelOptions& options, std::uint64_t seed = 1) {
  return EpisodeModel(options, std::vector<std::int64_t>{1, 28, 28}, 4, 2, seed);
}

torch::Tensor images() {
  torch::manual_seed(11);
  return torch::rand({kRows, 1, 28, 28});
}

torch::Tensor term(const EpisodeLosses& terms, const std::string& name) {
  for (const auto& [key, value] : terms)
    if (key == name) return value;
  return {};
}

TEST(PrototypeHead, IsTheSquaredDistanceToTheMeanOfTheSupport) {
  torch::manual_seed(1);
  const auto features = torch::randn({kRows, 5});
  const auto way = labels().way;
  PrototypeHead head(PrototypeHeadOptions{.normalize = false});
  const auto logits = head->forward(features, way, kWays, kShots);
  ASSERT_EQ(logits.sizes(), (std::vector<std::int64_t>{kWays * kQueries, kWays}));
  for (std::int64_t q = 0; q < logits.size(0); ++q)
    for (std::int64_t c = 0; c < kWays; ++c) {
      const auto prototype = (features[2 * c] + features[2 * c + 1]) / 2;
      EXPECT_NEAR(logits[q][c].item<double>(),
                  -(features[kWays * kShots + q] - prototype).square().sum().item<double>(), 1e-5);
    }
  PrototypeHead scaled(PrototypeHeadOptions{.normalize = false, .scaled = true});
  EXPECT_LT((scaled->forward(features, way, kWays, kShots) - 25 * logits).abs().max().item<double>(), 1e-3);
}

TEST(SupervisedContrast, EqualsItsDefinition) {
  torch::manual_seed(2);
  const auto rows = torch::randn({6, 4}, torch::kDouble);
  const std::vector<std::int64_t> label{0, 0, 1, 1, 1, 2};
  const auto unit = rows / rows.norm(2, 1, true);
  double sum = 0, anchors = 0;
  for (std::int64_t i = 0; i < 6; ++i) {
    double others = 0, partners = 0, wanted = 0;
    for (std::int64_t j = 0; j < 6; ++j)
      if (j != i) others += std::exp(unit[i].dot(unit[j]).item<double>() / 0.3);
    for (std::int64_t j = 0; j < 6; ++j)
      if (j != i && label[static_cast<std::size_t>(i)] == label[static_cast<std::size_t>(j)]) {
        wanted += unit[i].dot(unit[j]).item<double>() / 0.3 - std::log(others);
        partners += 1;
      }
    if (partners > 0) sum -= wanted / partners, anchors += 1;
  }
  EXPECT_EQ(anchors, 5);
  EXPECT_NEAR(supervised_contrast(rows, torch::tensor(label), 0.3).item<double>(), sum / anchors, 1e-10);
  EXPECT_EQ(supervised_contrast(rows, torch::arange(6), 0.3).item<double>(), 0);
}

TEST(TemperatureSchedule, HasThreePhases) {
  const TemperatureSchedule schedule{.start = 0.2, .end = 0.1, .hold = 0.2, .until = 0.7};
  EXPECT_EQ(schedule.at(0), 0.2);
  EXPECT_EQ(schedule.at(0.2), 0.2);
  EXPECT_NEAR(schedule.at(0.45), 0.15, 1e-12);
  EXPECT_EQ(schedule.at(0.7), 0.1);
  EXPECT_EQ(schedule.at(1), 0.1);
  EXPECT_THROW((TemperatureSchedule{.hold = 0.8, .until = 0.7}.validate()), std::invalid_argument);
}

TEST(GradientReversal, TurnsTheGradientRound) {
  auto x = torch::tensor({1.5, -2.0}, torch::requires_grad());
  const auto y = reverse_gradient(x, 0.5);
  EXPECT_TRUE(torch::equal(y, x));
  y.sum().backward();
  EXPECT_TRUE(torch::equal(x.grad(), torch::tensor({-0.5, -0.5})));
}

TEST(NullSpace, LeavesNothingOfTheClassMeans) {
  torch::manual_seed(3);
  const auto way = labels().way;
  const auto f = torch::randn({kRows, 8}) + 5 * torch::randn({kWays, 8}).index_select(0, way);
  const auto projected = project_to_null_space(f, way, kWays * kShots, kWays);
  const auto means = class_means(projected.narrow(0, 0, kWays * kShots), way.narrow(0, 0, kWays * kShots), kWays);
  EXPECT_LT((means - means.mean(0, true)).abs().max().item<double>(), 1e-4);
  EXPECT_GT(projected.std().item<double>(), 0.1) << "the rest stays";
}

TEST(ClassMeans, OracleRemovesThemExactlyAndTheMethodUsesNoQueryLabel) {
  torch::manual_seed(4);
  auto options = small();
  for (const Purifier purifier : {Purifier::kClassMean, Purifier::kClassMeanOracle}) {
    options.purifier = purifier;
    auto model = make(options);
    const auto features = model->encode(images());
    auto shuffled = labels();
    shuffled.way = shuffled.way.clone();
    shuffled.way.narrow(0, kWays * kShots, kWays * kQueries).copy_(torch::tensor({2, 2, 0, 0, 1, 1}));
    const auto first = model->forward(features, labels()).purified,
               second = model->forward(features, shuffled).purified;
    EXPECT_EQ(torch::equal(first, second), purifier == Purifier::kClassMean);
    if (purifier == Purifier::kClassMeanOracle) {
      const auto means = class_means(first, labels().way, kWays);
      EXPECT_LT((means - means.mean(0, true)).abs().max().item<double>(), 1e-5);
    }
  }
}

TEST(EpisodeModel, AddsTheFiveLossesWithTheirWeights) {
  auto model = make(small());
  const auto features = model->encode(images());
  const auto pass = model->forward(features, labels());
  const auto terms = model->losses(features, pass, labels(), 0);
  EXPECT_EQ(terms.size(), 5U);
  namespace F = torch::nn::functional;
  const auto answers = labels().way.narrow(0, kWays * kShots, kWays * kQueries);
  EXPECT_NEAR(term(terms, "classification").item<double>(), F::cross_entropy(pass.logits, answers).item<double>(),
              1e-6);
  EXPECT_NEAR(term(terms, "class_contrast").item<double>(),
              0.3 * supervised_contrast(features.intrinsic, labels().way, 0.2).item<double>(), 1e-6);
  EXPECT_NEAR(term(terms, "domain_contrast").item<double>(),
              0.15 * supervised_contrast(pass.purified, labels().domains, 0.2).item<double>(), 1e-6);
  EXPECT_NEAR(term(terms, "orthogonality").item<double>(), 0.1 * pass.orthogonality_loss.item<double>(), 1e-7);
  EXPECT_NEAR(term(terms, "domain").item<double>(),
              0.2 * F::cross_entropy(model->domain_classifier->forward(pass.purified), labels().domains).item<double>(),
              1e-6);
}

// The gradient of the classification loss in the purification's own parameters.
double path_to_accuracy(bool feed) {
  auto options = small();
  options.feed_classifier = feed;
  auto model = make(options);
  if (feed) {
    const torch::NoGradGuard no_grad;
    model->feed->weight.fill_(0.05);  // it starts at zero, where nothing flows yet
  }
  const auto features = model->encode(images());
  const auto pass = model->forward(features, labels());
  term(model->losses(features, pass, labels(), 0), "classification").backward();
  const auto gradient = model->sap->query->weight.grad();
  return gradient.defined() ? gradient.abs().max().item<double>() : 0;
}

TEST(EpisodeModel, PurificationReachesTheLogitsOnlyWhenItFeedsTheClassifier) {
  EXPECT_EQ(path_to_accuracy(false), 0);
  EXPECT_GT(path_to_accuracy(true), 0);
}

TEST(EpisodeModel, FeedingStartsFromTheSameLogits) {
  auto options = small();
  auto plain = make(options);
  options.feed_classifier = true;
  auto fed = make(options);
  plain->eval(), fed->eval();
  const auto x = images();
  EXPECT_TRUE(
      torch::equal(plain->forward(plain->encode(x), labels()).logits, fed->forward(fed->encode(x), labels()).logits));
}

TEST(EpisodeModel, AddingAPartChangesNoOthersFirstValues) {
  auto options = small();
  const auto with = make(options)->named_parameters();
  options.purifier = Purifier::kNone;
  const auto without = make(options)->named_parameters();
  EXPECT_LT(without.size(), with.size());
  for (const auto& entry : without) EXPECT_TRUE(torch::equal(entry.value(), with[entry.key()])) << entry.key();
  const auto other = make(options, 2)->named_parameters();
  EXPECT_FALSE(torch::equal(other["encoder.conv4.convolution0.weight"], without["encoder.conv4.convolution0.weight"]));
}

TEST(EpisodeModel, TheAdversaryPushesTheDomainEncoderAwayFromTheClass) {
  auto options = small();
  options.purifier = Purifier::kGradientReversal;
  auto model = make(options);
  const auto features = model->encode(images());
  const auto pass = model->forward(features, labels());
  const auto terms = model->losses(features, pass, labels(), 0);
  EXPECT_TRUE(torch::equal(pass.purified, features.domain));
  features.domain.retain_grad();
  term(terms, "adversary").backward();
  const auto pushed = features.domain.grad().clone();
  // The same loss without the reversal has the opposite gradient.
  const auto leaf = features.domain.detach().requires_grad_(true);
  (0.1 * torch::nn::functional::cross_entropy(model->adversary(leaf), labels().classes)).backward();
  EXPECT_LT((pushed + leaf.grad()).abs().max().item<double>(), 1e-7);
}

TEST(EpisodeModel, AnswersInEvaluationWithEveryPurifier) {
  auto options = small();
  for (const auto& [purifier, name] : config::enum_names<Purifier>) {
    options.purifier = purifier;
    auto model = make(options);
    model->eval();
    const auto pass = model->forward(model->encode(images()), labels());
    EXPECT_TRUE(pass.logits.isfinite().all().item<bool>()) << name;
    EXPECT_TRUE(pass.purified.isfinite().all().item<bool>()) << name;
  }
}

}  // namespace
}  // namespace camber::fewshot
