#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <camber/nn/bounded_scale_options.h>
#include <camber/train/optimizer_options.h>

namespace camber::train {

/// The learning rate at a step, counted from 0, before any group's multiplier.
using LearningRateSchedule = std::function<double(std::int64_t step)>;

/// How far a scale can move, in raw space and as values from low to high.
struct Reach {
  double raw_distance = 0;
  double low = 0;
  double high = 0;
};

/// What a training run can make of a scale.
///
/// `steady` bounds the movement while the gradient's magnitude does not grow from step to step, `extreme` bounds it for
/// any gradients at all. With lr_t the learning rate of step t = 1..steps, multiplier included:
///
///   sgd            sum lr_t * clip_norm * (1 - m^t) / (1 - m), m the momentum, Nesterov t + 1 instead of t: the
///   buffer
///                  is a sum of clipped gradients with weights m^k. Both bounds; reached by a constant gradient.
///                  Infinite without clipping.
///   adam, adamw    steady: sum lr_t. The mean of g is at most the root of the mean of g^2 under the same weights; the
///                  weights beta2^k look further back than beta1^k, to gradients that were no smaller (beta1 <= beta2).
///                  A constant gradient reaches it (eps aside).
///                  extreme: sum lr_t * k_t with k_t = (1 - beta1) / (1 - beta1^t) * sqrt((1 - beta2^t) / (1 - beta2)
///                  * sum_{k<t} (beta1^2 / beta2)^k), by Cauchy and Schwarz: at most 7.27 lr a step for 0.9 and 0.999,
///                  and only while the gradient grows by beta2 / beta1 a step.
///
/// Weight decay does not enter: scales have none. A raw distance becomes values through the constraint's own map (exp
/// in log space) and ends at the bounds, with a schedule of bounds at the widest ones.
struct ReachableRange {
  Reach steady;
  Reach extreme;
  double min = 0;  ///< the bounds that were asked for, the widest of a schedule
  double max = 0;
  double needed_raw_distance = 0;  ///< from the start to the farther bound (sigmoid: to within 1 % of the range of it)
  std::int64_t steps = 0;
  bool learnable = true;
  std::vector<double> start{};  ///< where the elements begin; one number: all of them there

  /// Whether steady movement can bring the scale to either bound.
  bool covers_bounds() const { return steady.raw_distance >= needed_raw_distance; }
};

///   auto range = reachable_range({.learning_rate = 1e-4}, [](auto) { return 1e-4; }, 4004, scale_options, 0.1);
///   range.steady.high  // 2.54: a scale that starts at 2.5 stays there
///
/// `start` holds the values that the elements begin with, of a run that goes on from other weights; empty: init. With
/// several, low is that of the lowest and high that of the highest.
ReachableRange reachable_range(const OptimizerOptions& optimizer, const LearningRateSchedule& schedule,
                               std::int64_t steps, const nn::BoundedScaleOptions& scale, double lr_mult = 1,
                               std::vector<double> start = {});

/// One sentence when the bounds lie outside what steady movement can reach, with the lr_mult factor that would do;
/// empty when they lie inside, or when the scale does not learn.
std::string reach_sentence(const ReachableRange& range, std::string_view scale_name);

}  // namespace camber::train
