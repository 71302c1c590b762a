#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include <camber/nn/bounded_scale_options.h>

namespace camber::train {

/// An experiment that shows what a constraint does to learning. One scale is drawn by the loss (scale - target)^2 to a
/// target far beyond its bound, and then, winding up over, to one inside. How soon does it come back?
struct RecoveryRun {
  nn::BoundedScaleOptions scale{};
  double first_target = 15;
  double second_target = 1;
  double back_below = 2.5;
  std::int64_t first_steps = 300;
  std::int64_t second_steps = 600;
  double learning_rate = 0.01;
  double momentum = 0.9;
  double clip_norm = 1;
};

/// What was seen.
struct RecoveryResult {
  double value_at_switch = 0;              ///< the scale after the first target's steps
  double raw_at_switch = 0;                ///< its raw value then: how far it wound up
  double last_value = 0;                   ///< the scale after all steps
  std::optional<std::int64_t> steps_back;  ///< steps of the second target until scale < back_below; empty for never
};

/// Runs it in float with SGD, gradient clipping and the projector.
///
///   recovery_run(log_recovery(nn::Constraint::kProjected)).steps_back  // tens of steps
RecoveryResult recovery_run(const RecoveryRun& run);

/// A scale that starts at 25 in 1..100 with targets 300, then 20, back below 25; raw = ln scale, but sigmoid maps its
/// raw value linearly to 1..100.
RecoveryRun log_recovery(nn::Constraint constraint);

/// A scale that starts at 2.5 in 0.5..5 with targets 15, then 1, back below 2.5; raw = scale (log_clamp: its
/// logarithm).
RecoveryRun linear_recovery(nn::Constraint constraint);

}  // namespace camber::train
