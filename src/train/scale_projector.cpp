#include <algorithm>
#include <stdexcept>
#include <typeinfo>
#include <unordered_map>

#include <camber/train/scale_projector.h>

#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/sgd.h>

#include "train/adam_step.h"

namespace camber::train {
namespace {

enum class Kind { kSgd, kAdam, kAdamW };

Kind kind_of(const torch::optim::Optimizer& optimizer) {
  if (dynamic_cast<const torch::optim::SGD*>(&optimizer) != nullptr) return Kind::kSgd;
  if (dynamic_cast<const torch::optim::Adam*>(&optimizer) != nullptr) return Kind::kAdam;
  if (dynamic_cast<const torch::optim::AdamW*>(&optimizer) != nullptr) return Kind::kAdamW;
  throw std::invalid_argument("[scale_projector] optimizer must be torch::optim::SGD, Adam or AdamW, got " +
                              c10::demangle(typeid(optimizer).name()));
}

double decay_of(const torch::optim::OptimizerParamGroup& group, Kind kind) {
  switch (kind) {
    case Kind::kSgd:
      return static_cast<const torch::optim::SGDOptions&>(group.options()).weight_decay();
    case Kind::kAdam:
      return static_cast<const torch::optim::AdamOptions&>(group.options()).weight_decay();
    case Kind::kAdamW:
      return static_cast<const torch::optim::AdamWOptions&>(group.options()).weight_decay();
  }
  throw std::logic_error("[scale_projector] unknown kind");
}

// The running mean of the gradient, undefined while there is none: before the first step, or SGD without momentum.
torch::Tensor momentum_of(torch::optim::Optimizer& optimizer, Kind kind, const torch::Tensor& parameter) {
  const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
  if (found == optimizer.state().end()) return {};
  switch (kind) {
    case Kind::kSgd:
      return static_cast<torch::optim::SGDParamState&>(*found->second).momentum_buffer();
    case Kind::kAdam:
      return static_cast<torch::optim::AdamParamState&>(*found->second).exp_avg();
    case Kind::kAdamW:
      return static_cast<torch::optim::AdamWParamState&>(*found->second).exp_avg();
  }
  throw std::logic_error("[scale_projector] unknown kind");
}

}  // namespace

ScaleProjector::ScaleProjector(torch::nn::Module& model) {
  const auto add = [this](const std::string& name, std::shared_ptr<nn::BoundedScaleImpl> scale) {
    const bool known = std::any_of(
        scales_.begin(), scales_.end(), [&scale](const NamedScale& other) { return other.scale.ptr() == scale; });
    if (scale && !known) scales_.push_back({name, nn::BoundedScale(std::move(scale))});
  };
  const auto add_clip = [this](std::shared_ptr<nn::AttentionBiasImpl> bias) {
    if (bias) {
      biases_.push_back(std::move(bias));
    }
  };
  // A model on the stack cannot be shared, and only a scale or a bias itself must be.
  if (dynamic_cast<nn::BoundedScaleImpl*>(&model) != nullptr)
    add("", std::dynamic_pointer_cast<nn::BoundedScaleImpl>(model.shared_from_this()));
  else if (dynamic_cast<nn::AttentionBiasImpl*>(&model) != nullptr)
    add_clip(std::dynamic_pointer_cast<nn::AttentionBiasImpl>(model.shared_from_this()));
  for (const auto& module : model.named_modules("", /*include_self=*/false)) {
    add(module.key(), std::dynamic_pointer_cast<nn::BoundedScaleImpl>(module.value()));
    add_clip(std::dynamic_pointer_cast<nn::AttentionBiasImpl>(module.value()));
  }
}

torch::Tensor ScaleProjector::step(torch::optim::Optimizer& optimizer, torch::optim::Optimizer::LossClosure closure) {
  kind_of(optimizer);  // an unknown optimiser is refused before it has moved anything
  torch::Tensor loss;
  if (closure || !step_adam(optimizer)) loss = optimizer.step(std::move(closure));
  project(optimizer);
  return loss;
}

void ScaleProjector::project(torch::optim::Optimizer& optimizer) {
  torch::NoGradGuard no_grad;
  const Kind kind = kind_of(optimizer);
  std::unordered_map<const void*, double> decay_by_parameter;
  for (const auto& group : optimizer.param_groups())
    for (const torch::Tensor& parameter : group.params())
      decay_by_parameter[parameter.unsafeGetTensorImpl()] = decay_of(group, kind);
  for (NamedScale& entry : scales_) {
    const torch::Tensor& raw = entry.scale->raw();
    const auto held = decay_by_parameter.find(raw.unsafeGetTensorImpl());
    if (held == decay_by_parameter.end()) continue;
    if (held->second != 0 && !warned_of_decay_) {
      TORCH_WARN("[scale_projector] weight decay of scale '", entry.name, "' must be 0, got ", held->second,
                 ": build the optimiser with OptimizerGroups, or give its scales a group without decay");
      warned_of_decay_ = true;
    }
    const nn::ScaleProjection moved = entry.scale->project();
    const torch::Tensor momentum = momentum_of(optimizer, kind, raw);
    if (momentum.defined()) {
      // A step goes against the momentum: below zero it pushes the raw value up.
      momentum.masked_fill_(torch::logical_and(moved.above, momentum < 0), 0);
      momentum.masked_fill_(torch::logical_and(moved.below, momentum > 0), 0);
    }
  }
}

bool ScaleProjector::apply_schedule(std::int64_t epoch, std::int64_t step) {
  bool changed = false;
  for (NamedScale& entry : scales_) changed = entry.scale->apply_schedule(epoch, step) || changed;
  for (const auto& bias : biases_) changed = bias->apply_clip_schedule(epoch) || changed;
  return changed;
}

torch::Tensor ScaleProjector::penalty() {
  torch::Tensor sum;
  for (NamedScale& entry : scales_) {
    if (entry.scale->options.l2_weight > 0) {
      const torch::Tensor penalty = entry.scale->penalty();
      sum = sum.defined() ? sum + penalty : penalty;
    }
  }
  return sum;
}

}  // namespace camber::train
