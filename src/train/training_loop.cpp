#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <stdexcept>

#include <camber/config/names.h>
#include <camber/ops/deferred_check.h>
#include <camber/train/training_loop.h>

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include "train/step_agreement.h"

namespace camber::train {
namespace {

// One schedule a group: its own where one is named, else the run's.
std::vector<Schedule> schedules_of(const TrainingLoopOptions& options, const OptimizerGroups& groups) {
  std::vector<std::string> names;
  for (const ParameterGroup& group : groups.groups()) names.push_back(group.name);
  for (const GroupScheduleOptions& own : options.group_schedules) {
    if (std::find(names.begin(), names.end(), own.group) == names.end()) {
      throw std::invalid_argument("[train] group_schedules must name a group among " + config::join_names(names) +
                                  ", got '" + own.group + "'");
    }
  }
  std::vector<Schedule> schedules;
  for (const std::string& name : names) {
    const auto own = std::find_if(options.group_schedules.begin(), options.group_schedules.end(),
                                  [&name](const GroupScheduleOptions& entry) { return entry.group == name; });
    schedules.emplace_back(own == options.group_schedules.end() ? options.schedule : own->schedule, options.steps);
  }
  return schedules;
}

void set_momentum(torch::optim::OptimizerOptions& options, const OptimizerOptions& base, double factor) {
  const auto set_beta = [&](auto& typed) { typed.betas(std::make_tuple(base.beta1 * factor, base.beta2)); };
  switch (base.kind) {
    case OptimizerKind::kSgd:
      static_cast<torch::optim::SGDOptions&>(options).momentum(base.momentum * factor);
      return;
    case OptimizerKind::kAdam:
      return set_beta(static_cast<torch::optim::AdamOptions&>(options));
    case OptimizerKind::kAdamW:
      return set_beta(static_cast<torch::optim::AdamWOptions&>(options));
  }
}

double joint_norm(torch::optim::Optimizer& optimizer, double clip_norm) {
  constexpr double kNoClipping = std::numeric_limits<double>::max();
  return clip_grad_norm(optimizer, clip_norm > 0 ? clip_norm : kNoClipping);
}

std::vector<double> values_of(const NamedScale& entry) {
  torch::NoGradGuard no_grad;
  const torch::Tensor value =
      nn::BoundedScale(entry.scale)->value().to(torch::kCPU, torch::kDouble).reshape({-1}).contiguous();
  return {value.data_ptr<double>(), value.data_ptr<double>() + value.numel()};
}

// The terms as numbers of the host, and what a check counted, by one copy: a device is waited for once.
struct HostLosses {
  NamedLosses numbers;
  std::int64_t failures = 0, most_cameras = 0;
};

HostLosses on_host(const NamedLosses& losses, const ops::DeferredCheck* check = nullptr) {
  if (losses.empty()) throw std::invalid_argument("[train] the losses of a step must have at least one term, got none");
  torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> terms;
  terms.reserve(losses.size() + 2);
  for (const auto& [name, term] : losses) terms.push_back(term.detach().to(torch::kDouble).reshape({}));
  HostLosses host;
  std::vector<std::pair<std::int64_t*, std::int64_t>> counts;  // and where they stand
  const auto count = [&](const torch::Tensor& counted, std::int64_t* number) {
    if (!counted.defined()) return;
    counts.emplace_back(number, static_cast<std::int64_t>(terms.size()));
    terms.push_back(counted.to(torch::kDouble).reshape({}));
  };
  if (check != nullptr) count(check->failures(), &host.failures);
  if (check != nullptr) count(check->most_cameras(), &host.most_cameras);
  const torch::Tensor all = torch::stack(terms).cpu();
  for (std::size_t k = 0; k < losses.size(); ++k)
    host.numbers.emplace_back(losses[k].first, all[static_cast<std::int64_t>(k)]);
  for (const auto& [number, place] : counts) *number = all[place].to(torch::kLong).item<std::int64_t>();
  return host;
}

c10::Device device_of(const torch::nn::Module& model) {
  for (const torch::Tensor& parameter : model.parameters()) return parameter.device();
  return torch::kCPU;
}

}  // namespace

void TrainingLoopOptions::validate() const {
  optimizer.validate();
  freeze.validate();
  groups.validate();
  schedule.validate();
}

TrainingLoop::TrainingLoop(torch::nn::Module& model, TrainingLoopOptions options,
                           std::map<std::string, std::string> metadata,
                           std::shared_ptr<distributed::ProcessGroup> group)
    : model_(model),
      options_(std::move(options)),
      metadata_(std::move(metadata)),
      group_(std::move(group)),
      freezing_(model, options_.freeze),
      groups_(model, options_.groups),
      optimizer_(groups_.make_optimizer(options_.optimizer)),
      schedule_(options_.schedule, options_.steps),
      group_schedules_(schedules_of(options_, groups_)),
      projector_(model),
      guard_(model),
      batch_buffers_(model),
      step_guard_(options_.guard) {
  for (const NamedScale& entry : projector_.scales()) scale_starts_.push_back(values_of(entry));
  if (options_.average.enabled) average_ = std::make_unique<ExponentialAverage>(model, options_.average);
  if (!group_->is_alone()) reducer_ = std::make_unique<GradientReducer>(model.parameters(), group_);
}

void TrainingLoop::begin_together() {
  const std::vector<double> steps = group_->largest({static_cast<double>(step_), -static_cast<double>(step_)});
  if (steps[0] != -steps[1])
    throw std::runtime_error("[train] every rank must continue from the same checkpoint, got steps " +
                             std::to_string(static_cast<std::int64_t>(-steps[1])) + " to " +
                             std::to_string(static_cast<std::int64_t>(steps[0])) +
                             ": all of them need to see the folder of the run");
  take_state_of_first(model_, *group_);
}

bool TrainingLoop::run(const LossFunction& losses_of, const CheckpointFolder* checkpoints, const TrainingHooks& hooks) {
  model_.train();
  stop_requested_ = hooks.stop_requested;
  while (step_ < options_.steps) {
    if (reducer_ ? stop_agreed_ : is_asked_to_stop()) {
      save(checkpoints, hooks);
      return false;
    }
    const StepReport report = train_step(losses_of);
    if (hooks.after_step) hooks.after_step(report);
    if (report.stops) throw std::runtime_error("[train] " + report.finding->sentence);
    if (hooks.evaluate && due(options_.evaluate_every)) evaluate(checkpoints, hooks);
    if (due(options_.checkpoint_every) || due(options_.keep_every)) save(checkpoints, hooks);
  }
  return true;
}

StepReport TrainingLoop::train_step(const LossFunction& losses_of) {
  const auto begin = std::chrono::steady_clock::now();
  const double waited_before = group_->seconds_waited();
  StepReport report{.step = step_ + 1};
  freezing_.hold();
  projector_.apply_schedule(step_ / options_.steps_per_epoch, step_);
  set_learning_rates();
  report.learning_rate = options_.optimizer.learning_rate * schedule_.rate_factor(step_);
  guard_.begin_step();
  optimizer_->zero_grad();
  std::optional<health::BrokenTensor> broken = accumulate_gradients(losses_of, report);
  if (!broken) {
    unscale_gradients();
    report.gradient_norm = joint_norm(*optimizer_, options_.optimizer.clip_norm);
    report.overflowed = overflowed(report);
    if (!report.overflowed) broken = guard_.broken_gradient(report.gradient_norm);
  }
  ++step_;  // a skipped step counts: its batch is not met again
  finish_step(report, broken);
  report.seconds_waiting = group_->seconds_waited() - waited_before;
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

std::optional<health::BrokenTensor> TrainingLoop::accumulate_gradients(const LossFunction& losses_of,
                                                                       StepReport& report) {
  const double share = 1 / static_cast<double>(options_.accumulate);
  for (std::int64_t i = 0; i < options_.accumulate; ++i) {
    const auto [losses, numbers] = checked_losses(losses_of, step_ * options_.accumulate + i, report);
    if (auto broken = agree_on_losses(numbers, report)) return broken;
    torch::Tensor total;
    for (const auto& [name, term] : losses) total = total.defined() ? total + term : term;
    const bool last = i + 1 == options_.accumulate;
    if (reducer_ && last) reducer_->begin();
    const double factor = share * loss_factor();
    (factor == 1 ? total : total * factor).backward();
    if (reducer_ && last) reducer_->finish();
  }
  return std::nullopt;
}

// On another device the batch is computed under a check that is read together with the losses; where it fails, once
// more without it. Ranks would have to fail together: several of them wait for their devices instead.
TrainingLoop::CheckedLosses TrainingLoop::checked_losses(const LossFunction& losses_of, std::int64_t batch,
                                                         StepReport& report) {
  const c10::Device device = device_of(model_);
  const AutocastScope lower(device, options_.precision);
  if (!device.is_cpu() && group_->is_alone()) {
    batch_buffers_.keep();
    const ops::DeferredCheck check(cameras_);
    NamedLosses losses = losses_of(batch);
    HostLosses host = on_host(losses, &check);
    cameras_ = std::max(cameras_, host.most_cameras);  // so that a rig is met with too little room once
    if (host.failures == 0) return {std::move(losses), std::move(host.numbers)};
    batch_buffers_.restore();
    report.repeated = true;
  }
  NamedLosses losses = losses_of(batch);
  return {losses, on_host(losses).numbers};
}

std::optional<health::BrokenTensor> TrainingLoop::agree_on_losses(const NamedLosses& numbers, StepReport& report) {
  BatchReport own{.losses = {}, .broken = guard_.broken_loss(numbers), .stop = reducer_ && is_asked_to_stop()};
  for (const auto& [name, term] : numbers) own.losses.emplace_back(name, term.item<double>());
  const BatchReport all = agree(own, *group_);
  for (const auto& [name, sum] : all.losses) {
    const double value = 1 / static_cast<double>(options_.accumulate) * sum;
    report.loss += value;
    const auto known = std::find_if(report.losses.begin(), report.losses.end(),
                                    [&name = name](const auto& entry) { return entry.first == name; });
    if (known == report.losses.end())
      report.losses.emplace_back(name, value);
    else
      known->second += value;
  }
  stop_agreed_ = stop_agreed_ || all.stop;
  return all.broken;
}

double TrainingLoop::loss_factor() const {
  return options_.precision == TrainingPrecision::kHalf ? loss_scale_.factor() : 1;
}

void TrainingLoop::unscale_gradients() {
  if (loss_factor() == 1) return;
  torch::NoGradGuard no_grad;
  for (const auto& group : optimizer_->param_groups())
    for (const torch::Tensor& parameter : group.params())
      if (parameter.grad().defined()) parameter.grad().mul_(1 / loss_factor());
}

// Whether the gradients of half precision, and not the model, are to blame for a norm that is not finite.
bool TrainingLoop::overflowed(const StepReport& report) {
  if (options_.precision != TrainingPrecision::kHalf) return false;
  if (!std::isfinite(report.gradient_norm)) return loss_scale_.shrink();
  loss_scale_.step_was_sound();
  return false;
}

// Steps the optimiser, or takes the step back where something broke. An overflow of the loss scale is nothing broken.
void TrainingLoop::finish_step(StepReport& report, const std::optional<health::BrokenTensor>& broken) {
  if (report.overflowed) {
    report.skipped = true;
  } else {
    const health::StepGuard::Verdict verdict = step_guard_.check(step_, report.loss, broken);
    report.skipped = verdict.skip;
    report.stops = verdict.stop;
    report.finding = verdict.finding;
  }
  if (report.skipped) {
    guard_.take_back();
  } else {
    projector_.step(*optimizer_);
    if (average_) average_->update();
  }
}

void TrainingLoop::set_learning_rates() {
  for (std::size_t i = 0; i < group_schedules_.size(); ++i) {
    auto& options = optimizer_->param_groups()[i].options();
    options.set_lr(learning_rate(i, step_));
    set_momentum(options, options_.optimizer, group_schedules_[i].momentum_factor(step_));
  }
}

double TrainingLoop::learning_rate(std::size_t group, std::int64_t step) const {
  return options_.optimizer.learning_rate * group_schedules_[group].rate_factor(step) * groups_.groups()[group].lr_mult;
}

std::vector<ReachableRange> TrainingLoop::reaches() const {
  std::vector<ReachableRange> reaches;
  for (std::size_t i = 0; i < projector_.scales().size(); ++i) {
    const nn::BoundedScale& scale = projector_.scales()[i].scale;
    const auto holds_it = [&scale](const ParameterGroup& group) {
      return std::any_of(group.parameters.begin(), group.parameters.end(),
                         [&scale](const torch::Tensor& parameter) { return parameter.is_same(scale->raw()); });
    };
    const auto& groups = groups_.groups();
    const auto group = static_cast<std::size_t>(std::find_if(groups.begin(), groups.end(), holds_it) - groups.begin());
    const auto rate = [&](std::int64_t step) { return group < groups.size() ? learning_rate(group, step) : 0; };
    reaches.push_back(reachable_range(options_.optimizer, rate, options_.steps, scale->options, 1, scale_starts_[i]));
  }
  return reaches;
}

void TrainingLoop::evaluate(const CheckpointFolder* checkpoints, const TrainingHooks& hooks) {
  double score = 0;
  {
    std::optional<ExponentialAverage::Applied> applied;
    if (average_) applied.emplace(*average_);
    model_.eval();
    score = hooks.evaluate(step_);
    model_.train();
  }
  if (!std::isnan(score) && (!best_score_ || !(score <= *best_score_))) {  // one that is NaN is never the best
    best_score_ = score;
    if (checkpoints != nullptr) checkpoints->save_best(state(), info());
  }
}

}  // namespace camber::train
