#include <camber/train/optimizer_groups.h>
#include <camber/train/recovery_run.h>
#include <camber/train/scale_projector.h>

#include <torch/optim/sgd.h>

namespace camber::train {

RecoveryResult recovery_run(const RecoveryRun& run) {
  nn::BoundedScale scale(run.scale);
  ScaleProjector projector(*scale);
  torch::optim::SGD optimizer(scale->parameters(), torch::optim::SGDOptions(run.learning_rate).momentum(run.momentum));
  const auto step_toward = [&](double target) {
    optimizer.zero_grad();
    torch::square(scale->value() - target).sum().backward();
    clip_grad_norm(optimizer, run.clip_norm);
    projector.step(optimizer);
    return scale->value().max().item<double>();
  };

  RecoveryResult result;
  for (std::int64_t step = 0; step < run.first_steps; ++step) result.value_at_switch = step_toward(run.first_target);
  result.raw_at_switch = scale->raw().max().item<double>();
  for (std::int64_t step = 1; step <= run.second_steps; ++step) {
    result.last_value = step_toward(run.second_target);
    if (!result.steps_back && result.last_value < run.back_below) result.steps_back = step;
  }
  return result;
}

RecoveryRun log_recovery(nn::Constraint constraint) {
  const auto space = constraint == nn::Constraint::kSigmoid ? nn::Space::kLinear : nn::Space::kLog;
  return {.scale = {.init = 25, .min = 1, .max = 100, .constraint = constraint, .space = space},
          .first_target = 300,
          .second_target = 20,
          .back_below = 25};
}

RecoveryRun linear_recovery(nn::Constraint constraint) {
  return {.scale = {.constraint = constraint}};
}

}  // namespace camber::train
