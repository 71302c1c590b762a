#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <camber/distributed/process_group.h>
#include <camber/ops/deferred_check.h>
#include <camber/train/checkpoint.h>
#include <camber/train/exponential_average.h>
#include <camber/train/freezing.h>
#include <camber/train/gradient_guard.h>
#include <camber/train/gradient_reducer.h>
#include <camber/train/mixed_precision.h>
#include <camber/train/optimizer_groups.h>
#include <camber/train/reachable_range.h>
#include <camber/train/scale_projector.h>
#include <camber/train/schedule.h>

namespace camber::train {

struct TrainingLoopOptions {
  std::int64_t steps = 1000;
  std::int64_t accumulate = 1;
  std::int64_t steps_per_epoch = 1000;
  TrainingPrecision precision = TrainingPrecision::kFloat;
  OptimizerOptions optimizer{};
  FreezingOptions freeze{};
  OptimizerGroupsOptions groups{};
  ScheduleOptions schedule{};
  std::vector<GroupScheduleOptions> group_schedules{};
  ExponentialAverageOptions average{};
  health::GuardOptions guard{};
  std::int64_t checkpoint_every = 200;
  std::int64_t keep_every = 0;
  std::int64_t evaluate_every = 0;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("steps", steps, "optimiser steps of the whole run", config::Range{.min = 1, .max = 1e9});
    visitor("accumulate", accumulate, "batches whose gradients are summed for one step", config::Range{.min = 1});
    visitor("steps_per_epoch", steps_per_epoch, "steps that count as an epoch for schedules of bounds",
            config::Range{.min = 1});
    visitor("precision", precision,
            "products of the forward pass: float, bfloat16 or half (with a loss scale); all else is float");
    visitor("optimizer", optimizer, "the optimiser");
    visitor("freeze", freeze, "parameters that stay as they are, by name");
    visitor("groups", groups, "multipliers by parameter name");
    visitor("schedule", schedule, "the learning rate over the run");
    visitor("group_schedules", group_schedules, "schedules of single groups in its place");
    visitor("average", average, "running average of the weights");
    visitor("guard", guard, "what to do about steps that are not finite");
    visitor("checkpoint_every", checkpoint_every, "steps between checkpoints (last, and best after an evaluation)",
            config::Range{.min = 1});
    visitor("keep_every", keep_every, "steps between checkpoints that are kept for good; 0: none",
            config::Range{.min = 0});
    visitor("evaluate_every", evaluate_every, "steps between evaluations; 0: none", config::Range{.min = 0});
  }
  void validate() const;
};

/// What one step did.
struct StepReport {
  std::int64_t step = 0;                                 ///< steps done, this one included
  double loss = 0;                                       ///< the sum of the terms, mean over the accumulated batches
  std::vector<std::pair<std::string, double>> losses{};  ///< its terms
  double learning_rate = 0;                              ///< before the groups' multipliers
  double gradient_norm = 0;                              ///< of all groups, before clipping
  bool skipped = false;
  bool overflowed = false;                   ///< skipped for the loss scale of half precision, which was halved
  bool repeated = false;                     ///< the forward pass ran twice: an ops::DeferredCheck failed
  bool stops = false;                        ///< the run cannot go on
  std::optional<health::Finding> finding{};  ///< of a skipped step: the first tensor that broke, in a sentence
  double seconds = 0;
  double seconds_waiting = 0;  ///< of these for other ranks
};

/// What the owner of a run does around the steps; every member may be empty.
struct TrainingHooks {
  /// After every step; the gradients (clipped) are still there.
  std::function<void(const StepReport&)> after_step{};
  /// A score of the model as it is now, higher is better, every `evaluate_every` steps and at the end; the average is
  /// instead of the weights where there is one, and the model is in evaluation mode. NaN is never the best.
  std::function<double(std::int64_t step)> evaluate{};
  /// Just before a checkpoint is written: flush the files that belong to it.
  std::function<void(std::int64_t step)> before_checkpoint{};
  /// Asked before every step; true ends the run with a checkpoint.
  std::function<bool()> stop_requested{};
};

/// A training run: a module, optimiser groups, and a function from a step to named losses.
///
///   TrainingLoop loop(*model, {.steps = 1400, .optimizer = {.learning_rate = 2e-3}});
///   CheckpointFolder checkpoints("runs/a/checkpoints");
///   loop.resume(checkpoints);
///   loop.run([&](std::int64_t batch) -> NamedLosses { return model->losses(load(batch)); }, &checkpoints, hooks);
///
/// The function gets the number of the batch, step * accumulate + i, and must draw everything that is random from
/// streams named by it: then a run that was killed and resumed has the bits of an unbroken one. For a model on another
/// device than the CPU it may be called twice in a row with one number (ops::DeferredCheck). The pull of bounded
/// scales to their centre (ScaleProjector::penalty) is one of the function's terms where it is wanted.
///
/// With a group of processes every rank runs the same loop: the function returns the terms of the rank's share of the
/// batch, whose sum over the ranks is the loss; gradients are added up, and everything else (norm, clipping, guard,
/// step, average, whether to stop) is the same on all ranks. Only rank 0 is given checkpoints.
class TrainingLoop {
 public:
  using LossFunction = std::function<NamedLosses(std::int64_t batch)>;

  /// `metadata` goes into every checkpoint: the configuration.
  TrainingLoop(torch::nn::Module& model, TrainingLoopOptions options, std::map<std::string, std::string> metadata = {},
               std::shared_ptr<distributed::ProcessGroup> group = distributed::alone());

  /// Continues from the newest sound checkpoint; nothing when there is none.
  std::optional<CheckpointFolder::Resumed> resume(const CheckpointFolder& checkpoints);

  /// Steps until the end; true when all were made, false when a stop was asked for. Throws std::runtime_error with the
  /// guard's sentence after too many broken steps in a row; the last sound checkpoint stays.
  bool run(const LossFunction& losses_of, const CheckpointFolder* checkpoints = nullptr,
           const TrainingHooks& hooks = {});

  /// One step: learning rate, forward and backward of every batch, guard, clip, optimiser, projection, average.
  StepReport train_step(const LossFunction& losses_of);

  std::int64_t step() const { return step_; }
  const TrainingLoopOptions& options() const { return options_; }
  const OptimizerGroups& groups() const { return groups_; }
  const Freezing& freezing() const { return freezing_; }
  const Schedule& schedule() const { return schedule_; }
  ScaleProjector& projector() { return projector_; }
  /// The factor of the loss in half precision.
  const LossScale& loss_scale() const { return loss_scale_; }
  const health::StepGuard& guard() const { return step_guard_; }
  std::optional<double> best_score() const { return best_score_; }
  /// How far each scale of the projector can move in the whole run, from where it began and with its group's schedule.
  std::vector<ReachableRange> reaches() const;
  /// nullptr without one.
  ExponentialAverage* average() { return average_.get(); }
  const std::shared_ptr<distributed::ProcessGroup>& group() const { return group_; }
  /// After the ranks have resumed, or not: all begin at the same step with the weights of rank 0.
  void begin_together();
  TrainingState state();
  CheckpointInfo info() const;

 private:
  void set_learning_rates();
  double learning_rate(std::size_t group, std::int64_t step) const;
  void restore_scales(const CheckpointInfo& info);
  std::optional<health::BrokenTensor> accumulate_gradients(const LossFunction& losses_of, StepReport& report);
  /// Terms with their graphs, and their numbers on the host.
  struct CheckedLosses {
    NamedLosses losses, numbers;
  };
  CheckedLosses checked_losses(const LossFunction& losses_of, std::int64_t batch, StepReport& report);
  double loss_factor() const;
  void unscale_gradients();
  bool overflowed(const StepReport& report);
  void finish_step(StepReport& report, const std::optional<health::BrokenTensor>& broken);
  std::optional<health::BrokenTensor> agree_on_losses(const NamedLosses& numbers, StepReport& report);
  bool is_asked_to_stop() const { return stop_requested_ && stop_requested_(); }
  void evaluate(const CheckpointFolder* checkpoints, const TrainingHooks& hooks);
  void save(const CheckpointFolder* checkpoints, const TrainingHooks& hooks);
  bool due(std::int64_t every) const { return every > 0 && (step_ % every == 0 || step_ == options_.steps); }

  torch::nn::Module& model_;
  TrainingLoopOptions options_;
  std::map<std::string, std::string> metadata_;
  std::shared_ptr<distributed::ProcessGroup> group_;
  Freezing freezing_;  // before the groups, which leave out what is frozen
  OptimizerGroups groups_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  Schedule schedule_;
  std::vector<Schedule> group_schedules_;  // one a group
  ScaleProjector projector_;
  std::vector<std::vector<double>> scale_starts_;  // of each scale, element by element, at step 0
  GradientGuard guard_;
  KeptBuffers batch_buffers_;  // as they were before the batch at hand, on another device than the CPU
  std::int64_t cameras_ = ops::DeferredCheck::kUsualCameras;  // room of the next one
  LossScale loss_scale_;
  health::StepGuard step_guard_;
  std::unique_ptr<ExponentialAverage> average_;
  std::unique_ptr<GradientReducer> reducer_;  // with other ranks
  std::function<bool()> stop_requested_;
  bool stop_agreed_ = false;  // with other ranks: somebody was asked to, all of them know
  std::int64_t step_ = 0;
  std::int64_t saved_step_ = -1;
  std::optional<double> best_score_;
};

}  // namespace camber::train
