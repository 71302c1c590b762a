#include <array>
#include <cmath>

#include "camber/nn/bounded_scale.h"
#include "camber/train/optimizer_groups.h"
#include "camber/train/recovery_run.h"
#include "camber/train/scale_projector.h"
#include "verification/checklist.h"

namespace camber::verification {
namespace {

using nn::BoundedScale;
using nn::BoundedScaleOptions;
using nn::Constraint;

constexpr std::array kConstraints = {Constraint::kClamp,           Constraint::kSigmoid,   Constraint::kLogClamp,
                                     Constraint::kStraightThrough, Constraint::kProjected, Constraint::kNone};

std::string name_of(Constraint constraint) {
  for (const auto& [value, name] : config::enum_names<Constraint>)
    if (value == constraint) return std::string(name);
  return "?";
}

struct ValueAndGradient {
  double value, gradient;
};

// The scale and its derivative with raw put to `raw`.
ValueAndGradient at_raw(Constraint constraint, double raw) {
  BoundedScale scale(BoundedScaleOptions{.constraint = constraint});
  scale->to(torch::kDouble);
  {
    const torch::NoGradGuard guard;
    scale->raw().fill_(raw);
  }
  const auto value = scale->value();
  value.backward();
  return {value.item<double>(), scale->raw().grad().item<double>()};
}

// Value and gradient inside, at the upper bound 5 and beyond, against the formulas.
Seen inside_at_and_beyond(Constraint constraint) {
  const bool log_space = constraint == Constraint::kLogClamp;
  const auto raw = [&](double value) { return log_space ? std::log(value) : value; };
  const auto inside = at_raw(constraint, raw(3)), at = at_raw(constraint, raw(5)), beyond = at_raw(constraint, raw(7));
  const bool dead_beyond = constraint == Constraint::kClamp || log_space;
  const double slope = log_space ? 5.0 : 1.0;
  double worst = std::max(std::abs(inside.value - 3), std::abs(at.value - 5));
  worst = std::max(worst, std::abs(beyond.value - (constraint == Constraint::kNone ? 7 : 5)));
  worst = std::max(worst, std::abs(inside.gradient - (log_space ? 3.0 : 1.0)));
  worst = std::max(worst, std::abs(at.gradient - slope));
  worst = std::max(worst, std::abs(beyond.gradient - (dead_beyond ? 0 : 1)));
  return {"gradient " + number(inside.gradient) + " inside, " + number(at.gradient) + " at, " +
              number(beyond.gradient) + " beyond; error " + number(worst),
          worst < 1e-12};
}

Seen sigmoid_formula() {
  double worst = 0;
  for (const double raw : {-2.0, 0.0, 3.0}) {
    const double s = 1 / (1 + std::exp(-raw));
    const auto seen = at_raw(Constraint::kSigmoid, raw);
    worst = std::max({worst, std::abs(seen.value - (0.5 + 4.5 * s)), std::abs(seen.gradient - 4.5 * s * (1 - s))});
  }
  return at_most(worst, 1e-12, "error of value and gradient");
}

Seen first_value() {
  double worst = 0;
  for (const auto constraint : kConstraints)
    worst = std::max(
        worst, std::abs(BoundedScale(BoundedScaleOptions{.constraint = constraint})->value().item<double>() - 2.5));
  return at_most(worst, 1e-6, "away from init, all six");
}

// Steps back as listed: `within` for those that return, never for the others.
Seen recovery(const train::RecoveryRun& run, double low, double high) {
  const auto result = train::recovery_run(run);
  const double steps = result.steps_back ? static_cast<double>(*result.steps_back) : INFINITY;
  const std::string seen = result.steps_back ? number(steps) + " steps" : "not within 600 steps";
  if (std::isinf(low)) return {seen + " (never, as listed)", std::isinf(steps)};
  return {seen + " (" + number(low) + " to " + number(high) + ")", steps >= low && steps <= high};
}

struct OneScale : torch::nn::Module {
  BoundedScale scale{nullptr};
  explicit OneScale(const BoundedScaleOptions& options) { scale = register_module("scale", BoundedScale(options)); }
};

train::OptimizerOptions optimizer_options(train::OptimizerKind kind) {
  return {.kind = kind, .learning_rate = 0.5, .weight_decay = 0.3};
}

constexpr std::array kOptimizers = {std::pair{train::OptimizerKind::kSgd, "sgd"},
                                    std::pair{train::OptimizerKind::kAdam, "adam"},
                                    std::pair{train::OptimizerKind::kAdamW, "adamw"}};

Seen decay_leaves_scales_alone() {
  double moved = 0;
  for (const auto& [kind, name] : kOptimizers) {
    OneScale model(BoundedScaleOptions{.init = 25, .min = 1, .max = 100, .space = nn::Space::kLog});
    const auto optimizer = train::OptimizerGroups(model).make_optimizer(optimizer_options(kind));
    const auto before = model.scale->value().item<double>();
    for (int i = 0; i < 20; ++i) {
      optimizer->zero_grad();
      (model.scale->value() * 0).backward();
      optimizer->step();
    }
    moved = std::max(moved, std::abs(model.scale->value().item<double>() - before));
  }
  return equal(moved, 0, "moved by decay in 20 steps");
}

// Pushes a scale against its bound, then asks for the momentum that still points outward.
Seen momentum_reset(train::OptimizerKind kind) {
  OneScale model(BoundedScaleOptions{.init = 4.9});
  const auto optimizer = train::OptimizerGroups(model).make_optimizer(optimizer_options(kind));
  train::ScaleProjector projector(model);
  for (int i = 0; i < 3; ++i) {
    optimizer->zero_grad();
    (-model.scale->value()).backward();
    projector.step(*optimizer);
  }
  const auto value = model.scale->value().item<double>();
  optimizer->zero_grad();
  model.scale->value().backward();  // one gentle step back must move it at once
  projector.step(*optimizer);
  const auto after = model.scale->value().item<double>();
  return {"held at " + number(value) + ", one step back gives " + number(after), value == 5 && after < 5};
}

}  // namespace

void check_scale(Checklist& list) {
  list.section("scale");
  for (const auto constraint : kConstraints) {
    const std::string name = name_of(constraint);
    if (constraint == Constraint::kSigmoid)
      list.check("sigmoid: value and gradient follow the formula", sigmoid_formula);
    else
      list.check(name + ": value and gradient inside, at and beyond the bound",
                 [constraint] { return inside_at_and_beyond(constraint); });
  }
  list.check("init is the first value for every constraint", first_value);
  list.check("the value at a log cap of 100 is 100 and its gradient lives", [] {
    BoundedScale scale(BoundedScaleOptions{.init = 100, .min = 1, .max = 100, .space = nn::Space::kLog});
    const auto value = scale->value();
    value.backward();
    const auto gradient = scale->raw().grad().item<double>();
    return Seen{"value " + number(value.item<double>()) + ", gradient " + number(gradient),
                value.item<double>() <= 100 && gradient > 0};
  });
  for (const auto constraint : kConstraints) {
    // projected and (in log space) none come back in tens of steps, straight_through in about 310, the rest never.
    const bool returns = constraint == Constraint::kProjected || constraint == Constraint::kNone;
    const bool late = constraint == Constraint::kStraightThrough;
    const double low = returns ? 1 : late ? 300 : INFINITY, high = returns ? 40 : 320;
    list.check("recovery, log 25 in 1..100: " + name_of(constraint),
               [=] { return recovery(train::log_recovery(constraint), low, high); });
    // In the linear run `none` has to come back from 15 at 0.1 a step.
    const double linear_high = constraint == Constraint::kNone ? 140 : high;
    list.check("recovery, linear 2.5 in 0.5..5: " + name_of(constraint),
               [=] { return recovery(train::linear_recovery(constraint), low, linear_high); });
  }
  list.check("decay never touches a scale (sgd, adam, adamw)", decay_leaves_scales_alone);
  for (const auto& [kind, name] : kOptimizers)
    list.check(std::string("momentum that points outward is reset: ") + name,
               [kind = kind] { return momentum_reset(kind); });
}

}  // namespace camber::verification
