// Value and gradient of every constraint: inside, at and beyond the bounds, in float and by numeric Jacobian in double.
#include <cmath>

#include <camber/nn/bounded_scale.h>
#include <gtest/gtest.h>

#include <torch/autograd.h>

#include "support/warnings.h"

namespace camber::nn {
namespace {

const std::vector<Constraint> kAllConstraints = {Constraint::kClamp,     Constraint::kSigmoid,
                                                 Constraint::kLogClamp,  Constraint::kStraightThrough,
                                                 Constraint::kProjected, Constraint::kNone};

std::string name_of(Constraint constraint) {
  for (const auto& [known, name] : config::enum_names<Constraint>) {
    if (known == constraint) {
      return std::string(name);
    }
  }
  return "?";
}

void set_raw(BoundedScale& scale, double raw) {
  torch::NoGradGuard no_grad;
  scale->raw().detach().fill_(raw);
}

struct Point {
  double value;
  double gradient;
};

Point evaluate(BoundedScale& scale, double raw) {
  const proof::CollectedWarnings silence;  // raw is put where no projector would leave it, on purpose
  set_raw(scale, raw);
  scale->zero_grad();
  const torch::Tensor value = scale->value();
  value.sum().backward();
  return {value.reshape({-1})[0].item<double>(), scale->raw().grad().reshape({-1})[0].item<double>()};
}

// Distance in units of the last place of a float.
double ulps(double got, double expected) {
  const auto reference = static_cast<float>(expected);
  return std::abs(got - expected) / (std::nextafter(reference, INFINITY) - reference);
}

// How far the first float value may lie from init: half a unit of its last place, and what the rounding of raw adds.
double allowed_error(const BoundedScaleOptions& options) {
  if (options.constraint == Constraint::kSigmoid && options.space == Space::kLinear) {
    return std::ldexp(options.init + 0.23 * (options.max - options.min), -24);
  }
  return std::ldexp(options.init * (1 + std::abs(std::log(options.init))), -24);
}

TEST(BoundedScale, FirstValueIsInitForEveryConstraint) {
  for (const Constraint constraint : kAllConstraints) {
    for (const double init : {0.50001, 0.7, 1.0, 2.5, 3.3333333, 4.9, 25.0, 99.0}) {
      for (const double max : {5.0, 100.0}) {
        if (init < max) {
          const BoundedScaleOptions options{.init = init, .max = max, .constraint = constraint};
          const auto got = BoundedScale(options)->value().item<double>();
          if (constraint == Constraint::kSigmoid || options.in_log_space()) {
            EXPECT_LE(std::abs(got - init), allowed_error(options)) << name_of(constraint) << " " << init;
          } else {
            EXPECT_EQ(got, static_cast<float>(init)) << name_of(constraint) << " " << init;
          }
        }
      }
    }
  }
}

TEST(BoundedScale, FirstValueIsInitForEveryPreset) {
  for (const auto& [name, options] : BoundedScaleOptions::presets()) {
    const auto got = BoundedScale(options)->value().item<double>();
    EXPECT_LE(ulps(got, options.init), name == "logit" ? 1 : 0) << name;
  }
}

TEST(BoundedScale, SigmoidStartsAtInitAndNotAtTheMiddle) {
  BoundedScale scale(BoundedScaleOptions{.constraint = Constraint::kSigmoid});
  EXPECT_EQ(scale->value().item<float>(), 2.5F);
  EXPECT_NEAR(scale->raw().item<double>(), std::log((2.5 - 0.5) / (5.0 - 2.5)), 1e-7);
  EXPECT_EQ(evaluate(scale, 0.0).value, 2.75);
}

TEST(BoundedScale, ClampGradientIsOneToTheBoundsAndZeroBeyond) {
  BoundedScale scale(BoundedScaleOptions{.constraint = Constraint::kClamp});
  for (const auto& [raw, value, gradient] : std::vector<std::array<double, 3>>{{2.5, 2.5, 1},
                                                                               {0.5, 0.5, 1},
                                                                               {5.0, 5.0, 1},
                                                                               {0.49999997, 0.5, 0},
                                                                               {5.0000005, 5.0, 0},
                                                                               {7, 5.0, 0},
                                                                               {-3, 0.5, 0}}) {
    const Point point = evaluate(scale, raw);
    EXPECT_EQ(point.value, value) << raw;
    EXPECT_EQ(point.gradient, gradient) << raw;
  }
}

TEST(BoundedScale, StraightThroughAndProjectedAreAliveEverywhere) {
  for (const Constraint constraint : {Constraint::kStraightThrough, Constraint::kProjected}) {
    BoundedScale scale(BoundedScaleOptions{.constraint = constraint});
    for (const double raw : {-3.0, 0.5, 2.5, 5.0, 7.0}) {
      const Point point = evaluate(scale, raw);
      EXPECT_EQ(point.value, std::clamp(raw, 0.5, 5.0)) << name_of(constraint);
      EXPECT_EQ(point.gradient, 1) << name_of(constraint) << " " << raw;
    }
  }
}

TEST(BoundedScale, LogClampHasNoLowerBoundAndIsAliveAtTheUpper) {
  BoundedScale scale(BoundedScaleOptions{.init = 25, .min = 1, .max = 100, .constraint = Constraint::kLogClamp});
  const float ln_max = std::log(100.0F);
  EXPECT_EQ(evaluate(scale, ln_max).value, 100);
  EXPECT_NEAR(evaluate(scale, ln_max).gradient, 100, 1e-4);
  EXPECT_EQ(evaluate(scale, std::nextafter(ln_max, 10.0F)).value, 100);
  EXPECT_EQ(evaluate(scale, std::nextafter(ln_max, 10.0F)).gradient, 0);
  EXPECT_EQ(evaluate(scale, 9).value, 100);
  EXPECT_EQ(evaluate(scale, 9).gradient, 0);
  EXPECT_NEAR(evaluate(scale, -1).value, std::exp(-1.0), 1e-7);
  EXPECT_NEAR(evaluate(scale, -1).gradient, std::exp(-1.0), 1e-7);
}

TEST(BoundedScale, NoneIsFreeAndOnlyThePullHoldsIt) {
  BoundedScale scale(BoundedScaleOptions{.constraint = Constraint::kNone, .l2_weight = 0.01});
  EXPECT_EQ(evaluate(scale, 45).value, 45);
  EXPECT_EQ(evaluate(scale, 45).gradient, 1);
  EXPECT_NEAR(scale->penalty().item<double>(), 0.01 * 42.5 * 42.5, 1e-5);
  BoundedScale in_log(BoundedScaleOptions{.constraint = Constraint::kNone, .space = Space::kLog});
  EXPECT_NEAR(evaluate(in_log, 3).value, std::exp(3.0), 1e-5);
  EXPECT_NEAR(evaluate(in_log, 3).gradient, std::exp(3.0), 1e-5);
}

// expf(logf(100)) is 100.000008: a clamp after exp would report more than the cap or kill the gradient at it.
TEST(BoundedScale, LogSpaceNeverExceedsMaxAndIsAliveAtIt) {
  ASSERT_GT(std::exp(std::log(100.0F)), 100.0F);
  for (const Constraint constraint :
       {Constraint::kClamp, Constraint::kLogClamp, Constraint::kStraightThrough, Constraint::kProjected}) {
    for (const double max : {3.0, 10.0, 30.0, 50.0, 80.0, 100.0, 200.0, 1e4}) {
      BoundedScale scale(
          BoundedScaleOptions{.init = 2, .min = 0.3, .max = max, .constraint = constraint, .space = Space::kLog});
      const auto raw_max = static_cast<float>(std::log(max));
      EXPECT_EQ(evaluate(scale, raw_max).value, static_cast<float>(max)) << name_of(constraint) << " " << max;
      EXPECT_NEAR(evaluate(scale, raw_max).gradient / max, 1, 1e-6) << name_of(constraint) << " " << max;
      for (float raw = raw_max - 1e-5F; raw < raw_max + 1e-5F; raw = std::nextafter(raw, 20.0F)) {
        EXPECT_LE(evaluate(scale, raw).value, static_cast<float>(max)) << name_of(constraint) << " " << max;
      }
      if (constraint != Constraint::kLogClamp) {
        const auto raw_min = static_cast<float>(std::log(0.3));
        EXPECT_EQ(evaluate(scale, raw_min).value, 0.3F) << name_of(constraint);
        EXPECT_NEAR(evaluate(scale, raw_min).gradient, 0.3, 1e-6) << name_of(constraint);
      }
    }
  }
}

TEST(BoundedScale, StraightThroughInLogSpaceStaysFiniteFarOut) {
  BoundedScale scale(BoundedScaleOptions{
      .init = 25, .min = 1, .max = 100, .constraint = Constraint::kStraightThrough, .space = Space::kLog});
  EXPECT_EQ(evaluate(scale, 1e4).value, 100);
  EXPECT_NEAR(evaluate(scale, 1e4).gradient, 100, 1e-4);
  EXPECT_EQ(evaluate(scale, -1e4).value, 1);
  EXPECT_NEAR(evaluate(scale, -1e4).gradient, 1, 1e-6);
}

TEST(BoundedScale, SigmoidStaysInsideAndNearlyDiesWhenWoundUp) {
  for (const Space space : {Space::kLinear, Space::kLog}) {
    BoundedScale scale(BoundedScaleOptions{.constraint = Constraint::kSigmoid, .space = space});
    for (const double raw : {-200.0, -20.0, 20.0, 200.0}) {
      const Point point = evaluate(scale, raw);
      EXPECT_GE(point.value, 0.5);
      EXPECT_LE(point.value, 5.0);
      EXPECT_LT(point.gradient, 1e-7);
    }
    EXPECT_GT(evaluate(scale, 7.1).gradient, 0);
    EXPECT_LT(evaluate(scale, 7.1).gradient, 0.02 * evaluate(scale, 0.0).gradient);
  }
}

struct JacobianCase {
  Constraint constraint;
  Space space;
  std::vector<double> raws;  // where value and gradient agree by definition, kinks left out
};

TEST(BoundedScale, GradientIsTheNumericJacobian) {
  const std::vector<double> anywhere = {-2.0, -0.4, 0.3, 0.9, 1.5, 3.0, 6.0};
  const std::vector<double> inside_linear = {0.51, 0.9, 2.5, 4.99};
  const std::vector<double> inside_log = {-0.69, 0.1, 0.9, 1.6};
  const std::vector<JacobianCase> cases = {{Constraint::kClamp, Space::kLinear, anywhere},
                                           {Constraint::kClamp, Space::kLog, anywhere},
                                           {Constraint::kSigmoid, Space::kLinear, anywhere},
                                           {Constraint::kSigmoid, Space::kLog, anywhere},
                                           {Constraint::kLogClamp, Space::kLinear, anywhere},
                                           {Constraint::kNone, Space::kLinear, anywhere},
                                           {Constraint::kNone, Space::kLog, anywhere},
                                           {Constraint::kStraightThrough, Space::kLinear, inside_linear},
                                           {Constraint::kStraightThrough, Space::kLog, inside_log},
                                           {Constraint::kProjected, Space::kLinear, inside_linear},
                                           {Constraint::kProjected, Space::kLog, inside_log}};
  for (const JacobianCase& test : cases) {
    BoundedScale scale(BoundedScaleOptions{.constraint = test.constraint, .space = test.space});
    scale->to(torch::kDouble);
    for (const double raw : test.raws) {
      const double h = 1e-6;
      const double numeric = (evaluate(scale, raw + h).value - evaluate(scale, raw - h).value) / (2 * h);
      EXPECT_NEAR(evaluate(scale, raw).gradient, numeric, 1e-8 * std::max(1.0, std::abs(numeric)))
          << name_of(test.constraint) << " space " << static_cast<int>(test.space) << " raw " << raw;
    }
  }
}

TEST(BoundedScale, SecondDerivativeIsThatOfTheMap) {
  for (const Constraint constraint : {Constraint::kSigmoid, Constraint::kLogClamp, Constraint::kProjected}) {
    BoundedScale scale(BoundedScaleOptions{.constraint = constraint, .space = Space::kLog});
    scale->to(torch::kDouble);
    const double raw = 0.3;
    const double h = 1e-6;
    const double numeric = (evaluate(scale, raw + h).gradient - evaluate(scale, raw - h).gradient) / (2 * h);
    set_raw(scale, raw);
    const auto first = torch::autograd::grad({scale->value()}, {scale->raw()}, {}, true, true)[0];
    const auto second = torch::autograd::grad({first}, {scale->raw()})[0];
    EXPECT_NEAR(second.item<double>(), numeric, 1e-7) << name_of(constraint);
  }
}

TEST(BoundedScale, PenaltyIsThePullAndDifferentiable) {
  BoundedScale one(BoundedScaleOptions{.l2_weight = 0.01});
  EXPECT_EQ(one->penalty().item<double>(), 0);
  set_raw(one, 4.5);
  EXPECT_NEAR(one->penalty().item<double>(), 0.01 * 4, 1e-8);
  one->penalty().backward();
  EXPECT_NEAR(one->raw().grad().item<double>(), 0.01 * 2 * 2, 1e-8);

  BoundedScale heads(BoundedScaleOptions{.l2_weight = 2, .l2_center = {1, 2, 3}, .shape = {3}});
  EXPECT_NEAR(heads->penalty().item<double>(), 2 * (1.5 * 1.5 + 0.5 * 0.5 + 0.5 * 0.5), 1e-6);
  BoundedScale grid(BoundedScaleOptions{.l2_weight = 1, .l2_center = {2}, .shape = {2, 3}});
  EXPECT_NEAR(grid->penalty().item<double>(), 6 * 0.25, 1e-6);
}

TEST(BoundedScale, ShapesAreOnePerModalityLayerOrHead) {
  EXPECT_EQ(BoundedScale()->value().dim(), 0);
  BoundedScale scale(BoundedScaleOptions{.shape = {6, 8}});
  EXPECT_EQ(scale->value().sizes(), (std::vector<std::int64_t>{6, 8}));
  EXPECT_EQ(scale->parameters().size(), 1U);
  EXPECT_TRUE(torch::equal(scale->value(), torch::full({6, 8}, 2.5F)));
}

TEST(BoundedScale, HalfPrecisionIsBoundedToo) {
  BoundedScale scale(BoundedScaleOptions{
      .init = 25, .min = 1, .max = 100, .constraint = Constraint::kProjected, .space = Space::kLog});
  scale->to(torch::kBFloat16);
  EXPECT_EQ(scale->value().scalar_type(), torch::kBFloat16);
  set_raw(scale, 9);
  scale->project();
  EXPECT_EQ(scale->value().item<double>(), 100);
}

}  // namespace
}  // namespace camber::nn
