// How far a scale can move, checked against the real optimisers driven by the gradients that reach the bounds.
#include <cmath>
#include <stdexcept>

#include <camber/train/optimizer_groups.h>
#include <camber/train/reachable_range.h>
#include <gtest/gtest.h>

namespace camber::train {
namespace {

using nn::BoundedScaleOptions;
using nn::Constraint;
using nn::Space;

LearningRateSchedule constant(double rate) {
  return [rate](std::int64_t) { return rate; };
}

struct OneImpl : torch::nn::Module {
  OneImpl() { raw = register_parameter("raw", torch::zeros({}, torch::kDouble)); }
  torch::Tensor raw;
};
TORCH_MODULE(One);

// How far an optimiser really goes, driven by gradients g(t).
double travelled(OptimizerOptions options, const LearningRateSchedule& schedule, std::int64_t steps,
                 const std::function<double(std::int64_t)>& gradient) {
  options.weight_decay = 0;
  options.eps = 0;
  One one;
  const OptimizerGroups groups(*one);
  const auto optimizer = groups.make_optimizer(options);
  for (std::int64_t step = 0; step < steps; ++step) {
    for (auto& group : optimizer->param_groups()) group.options().set_lr(schedule(step));
    one->raw.mutable_grad() = torch::full({}, gradient(step), torch::kDouble);
    if (options.clip_norm > 0) {
      clip_grad_norm(*optimizer, options.clip_norm);
    }
    optimizer->step();
  }
  return std::abs(one->raw.item<double>());
}

const BoundedScaleOptions kFree{.init = 0, .min = -1e9, .max = 1e9, .constraint = Constraint::kNone};

double cosine(std::int64_t step) {
  return 1e-3 * 0.5 * (1 + std::cos(3.14159265 * static_cast<double>(step) / 300));
}

TEST(ReachableRange, AdamOneLearningRateAStepForSteadyGradients) {
  for (const OptimizerKind kind : {OptimizerKind::kAdam, OptimizerKind::kAdamW}) {
    const OptimizerOptions options{.kind = kind};
    const ReachableRange range = reachable_range(options, cosine, 300, kFree);
    const double steady = travelled(options, cosine, 300, [](auto) { return -0.37; });
    EXPECT_NEAR(steady, range.steady.raw_distance, 1e-9);
    for (const double shrink : {0.5, 0.9, 0.99, 0.999}) {
      const double shrinking =
          travelled(options, cosine, 300, [&](auto step) { return std::pow(shrink, static_cast<double>(step)); });
      EXPECT_LT(shrinking, range.steady.raw_distance * (1 + 1e-12)) << shrink;
    }
  }
}

TEST(ReachableRange, AdamsExtremeHoldsForGrowingGradientsAndIsReached) {
  const OptimizerOptions options{.kind = OptimizerKind::kAdam};
  const ReachableRange range = reachable_range(options, constant(1e-3), 500, kFree);
  double farthest = 0;
  for (const double growth : {1.01, 1.05, 0.999 / 0.9, 1.2, 2.0}) {
    const double distance = travelled(options, constant(1e-3), 500,
                                      [&](auto step) { return std::pow(growth, static_cast<double>(step)) * 1e-30; });
    EXPECT_LE(distance, range.extreme.raw_distance * (1 + 1e-12)) << growth;
    farthest = std::max(farthest, distance);
  }
  EXPECT_NEAR(farthest, range.extreme.raw_distance, 1e-9);
  EXPECT_GT(farthest, 3 * range.steady.raw_distance) << "the steady bound does not hold for growing gradients";
  // The largest single step, long after the start: 0.1 / sqrt(0.001) / sqrt(1 - 0.81 / 0.999).
  const double late = reachable_range(
                          options, [](auto step) { return step == 19999 ? 1.0 : 0.0; }, 20000, kFree)
                          .extreme.raw_distance;
  EXPECT_NEAR(late, 7.27, 0.005);
}

TEST(ReachableRange, AdamsExtremeHoldsForRandomGradients) {
  torch::manual_seed(7);
  for (int trial = 0; trial < 20; ++trial) {
    const OptimizerOptions options{
        .kind = OptimizerKind::kAdam, .beta1 = trial % 2 == 0 ? 0.9 : 0.5, .beta2 = trial % 3 == 0 ? 0.99 : 0.8};
    const torch::Tensor noise = torch::exp(8 * torch::randn({60}, torch::kDouble));
    const double distance =
        travelled(options, constant(1e-2), 60, [&](std::int64_t step) { return noise[step].item<double>(); });
    EXPECT_LE(distance, reachable_range(options, constant(1e-2), 60, kFree).extreme.raw_distance);
  }
}

TEST(ReachableRange, SgdWithClippingIsExact) {
  for (const bool nesterov : {false, true}) {
    for (const double momentum : {0.5, 0.9}) {
      const OptimizerOptions options{
          .kind = OptimizerKind::kSgd, .momentum = momentum, .nesterov = nesterov, .clip_norm = 0.7};
      const ReachableRange range = reachable_range(options, cosine, 250, kFree);
      EXPECT_NEAR(travelled(options, cosine, 250, [](auto) { return 1e4; }), range.steady.raw_distance, 1e-9);
      EXPECT_EQ(range.steady.raw_distance, range.extreme.raw_distance);
      EXPECT_LT(range.steady.raw_distance, 250 * 1e-3 * 0.7 / (1 - momentum));
    }
  }
}

TEST(ReachableRange, SgdWithoutClippingReachesTheBounds) {
  const ReachableRange range = reachable_range({.kind = OptimizerKind::kSgd}, constant(1e-6), 1, BoundedScaleOptions{});
  EXPECT_TRUE(std::isinf(range.steady.raw_distance));
  EXPECT_EQ(range.steady.low, 0.5);
  EXPECT_EQ(range.steady.high, 5.0);
  EXPECT_TRUE(range.covers_bounds());
  EXPECT_EQ(reach_sentence(range, "bias.scale"), "");
}

// The notes' setting: AdamW at 1e-4 with a multiplier of 0.1 for an epoch of 4,004 steps.
TEST(ReachableRange, TheNotesScaleCannotLearn) {
  const ReachableRange range = reachable_range({}, constant(1e-4), 4004, BoundedScaleOptions{}, 0.1);
  EXPECT_NEAR(range.steady.raw_distance, 0.04004, 1e-9);
  EXPECT_NEAR(range.steady.high, 2.54004, 1e-9);
  EXPECT_FALSE(range.covers_bounds());
  EXPECT_EQ(
      reach_sentence(range, "bias.scale"),
      "scale 'bias.scale': the bounds 0.5 to 5 lie outside what can be reached: 4004 steps lead at most to 2.45996 "
      "or 2.54004 (2.25271 or 2.74729 if the gradient kept growing); a learning rate 62.4376 times as large would "
      "reach both");
  const ReachableRange faster = reachable_range({}, constant(1e-4), 4004, BoundedScaleOptions{}, 6.3);
  EXPECT_TRUE(faster.covers_bounds());
}

TEST(ReachableRange, LogSpaceMultiplies) {
  const BoundedScaleOptions logit = nn::scale_preset("logit");
  const ReachableRange range = reachable_range({}, constant(1e-3), 1000, logit);
  EXPECT_NEAR(range.steady.low, 25 / std::exp(1.0), 1e-9);
  EXPECT_NEAR(range.steady.high, 25 * std::exp(1.0), 1e-9);
  EXPECT_NEAR(range.needed_raw_distance, std::log(25.0), 1e-12);
  const ReachableRange longer = reachable_range({}, constant(1e-3), 3220, logit);
  EXPECT_TRUE(longer.covers_bounds());
  EXPECT_EQ(longer.steady.low, 1);
  EXPECT_EQ(longer.steady.high, 100);
}

TEST(ReachableRange, EachConstraintEndsWhereItMust) {
  const auto of = [](Constraint constraint) {
    return reachable_range({}, constant(1e-2), 1000, BoundedScaleOptions{.constraint = constraint}).steady;
  };
  EXPECT_EQ(of(Constraint::kClamp).high, 5);
  EXPECT_EQ(of(Constraint::kProjected).low, 0.5);
  EXPECT_NEAR(of(Constraint::kNone).high, 12.5, 1e-9);
  EXPECT_NEAR(of(Constraint::kNone).low, -7.5, 1e-9);
  EXPECT_EQ(of(Constraint::kLogClamp).high, 5);
  EXPECT_LT(of(Constraint::kLogClamp).low, 1e-3);
  const Reach sigmoid = of(Constraint::kSigmoid);
  EXPECT_GT(sigmoid.high, 4.99);
  EXPECT_LT(sigmoid.high, 5);
  EXPECT_TRUE(reachable_range({}, constant(1e-2), 1000, BoundedScaleOptions{.constraint = Constraint::kSigmoid})
                  .covers_bounds());
}

TEST(ReachableRange, AScheduleCountsWithItsWidestBoundsAndItsPushes) {
  const BoundedScaleOptions options{.bounds_schedule = {{.from_step = 0, .min = 1, .max = 2.5},
                                                        {.from_step = 10, .min = 0.5, .max = 1.5},
                                                        {.from_step = 20, .min = 0.1, .max = 5}}};
  const ReachableRange range = reachable_range({}, constant(1e-2), 30, options);
  EXPECT_EQ(range.min, 0.1);
  EXPECT_EQ(range.max, 5);
  EXPECT_NEAR(range.steady.high, 2.8, 1e-9);
  EXPECT_NEAR(range.steady.low, 1.2, 1e-9) << "pushed down to 1.5, and 0.3 from there";
}

TEST(ReachableRange, AFixedScaleStaysAndSaysNothing) {
  const ReachableRange range = reachable_range({}, constant(1), 1000, nn::scale_preset("fixed"));
  EXPECT_EQ(range.extreme.low, 2.5);
  EXPECT_EQ(range.extreme.high, 2.5);
  EXPECT_EQ(reach_sentence(range, "bias.scale"), "");
}

TEST(ReachableRange, BadArgumentsAreRefused) {
  EXPECT_THROW(reachable_range({}, constant(1), -1, BoundedScaleOptions{}), std::invalid_argument);
  EXPECT_THROW(reachable_range({}, constant(1), 1, BoundedScaleOptions{.init = 9}), std::invalid_argument);
  EXPECT_THROW(reachable_range({.beta1 = 1}, constant(1), 1, BoundedScaleOptions{}), std::invalid_argument);
}

}  // namespace
}  // namespace camber::train
