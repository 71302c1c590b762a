#include "train/adam_step.h"

#include <cmath>
#include <typeinfo>
#include <vector>

#include <camber/kernels/adam.h>

#include <ATen/Parallel.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>

namespace camber::train {
namespace {

// Numbers that a task takes: a few microseconds.
constexpr std::int64_t kTask = 16384;

struct Piece {
  kernels::AdamStep step{};
  kernels::AdamNumbers numbers{};
};

bool suits(const torch::Tensor& parameter) {
  const torch::Tensor& gradient = parameter.grad();
  return parameter.is_cpu() && parameter.scalar_type() == torch::kFloat && parameter.is_non_overlapping_and_dense() &&
         (!gradient.defined() ||
          (gradient.is_cpu() && gradient.layout() == torch::kStrided && gradient.scalar_type() == torch::kFloat));
}

template <class Options>
bool suits(torch::optim::Optimizer& optimizer) {
  for (auto& group : optimizer.param_groups()) {
    if (static_cast<const Options&>(group.options()).amsgrad()) return false;
    for (const torch::Tensor& parameter : group.params())
      if (!suits(parameter)) return false;
  }
  return true;
}

template <class State>
State& state_of(torch::optim::Optimizer& optimizer, const torch::Tensor& parameter) {
  auto& known = optimizer.state()[parameter.unsafeGetTensorImpl()];
  if (!known) {
    auto fresh = std::make_unique<State>();
    fresh->step(0);
    fresh->exp_avg(torch::zeros_like(parameter));
    fresh->exp_avg_sq(torch::zeros_like(parameter));
    known = std::move(fresh);
  }
  return static_cast<State&>(*known);
}

// Bias corrections in double and then rounded, as torch does.
template <class Options>
kernels::AdamStep step_of(const Options& options, std::int64_t count, bool decoupled) {
  const auto [beta1, beta2] = options.betas();
  const auto steps = static_cast<double>(count);
  const double first = 1 - std::pow(beta1, steps), second = 1 - std::pow(beta2, steps);
  kernels::AdamStep step{.beta1 = static_cast<float>(beta1),
                         .rest1 = static_cast<float>(1 - beta1),
                         .beta2 = static_cast<float>(beta2),
                         .rest2 = static_cast<float>(1 - beta2),
                         .root = static_cast<float>(std::sqrt(second)),
                         .epsilon = static_cast<float>(options.eps()),
                         .factor = static_cast<float>(-(options.lr() / first))};
  if (decoupled)
    step.shrink = static_cast<float>(1 - options.lr() * options.weight_decay());
  else
    step.decay = static_cast<float>(options.weight_decay());
  return step;
}

torch::Tensor like(const torch::Tensor& values, const torch::Tensor& parameter) {
  return values.strides() == parameter.strides() ? values : torch::empty_like(parameter).copy_(values);
}

template <class Options, class State>
void step_all(torch::optim::Optimizer& optimizer, bool decoupled) {
  std::vector<Piece> pieces;
  std::vector<torch::Tensor> held;  // gradients that lay otherwise than their parameters
  for (auto& group : optimizer.param_groups()) {
    const auto& options = static_cast<const Options&>(group.options());
    for (torch::Tensor& parameter : group.params()) {
      if (!parameter.grad().defined()) continue;
      auto& state = state_of<State>(optimizer, parameter);
      state.step(state.step() + 1);
      state.exp_avg(like(state.exp_avg(), parameter));
      state.exp_avg_sq(like(state.exp_avg_sq(), parameter));
      held.push_back(like(parameter.grad(), parameter));
      // Who keeps something made of a tensor looks at its version: written by its address, it must be told.
      for (const torch::Tensor& written : {parameter, state.exp_avg(), state.exp_avg_sq()})
        written.unsafeGetTensorImpl()->bump_version();
      const kernels::AdamStep step = step_of(options, state.step(), decoupled);
      for (std::int64_t from = 0; from < parameter.numel(); from += kTask)
        pieces.push_back({step,
                          {.parameter = parameter.data_ptr<float>() + from,
                           .gradient = held.back().const_data_ptr<float>() + from,
                           .mean = state.exp_avg().template data_ptr<float>() + from,
                           .square = state.exp_avg_sq().template data_ptr<float>() + from,
                           .count = std::min(kTask, parameter.numel() - from)}});
    }
  }
  const kernels::Isa isa = kernels::chosen_isa();
  at::parallel_for(0, std::ssize(pieces), 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto piece = pieces.begin() + begin; piece != pieces.begin() + end; ++piece)
      kernels::adam_step(piece->step, piece->numbers, isa);
  });
}

}  // namespace

bool step_adam(torch::optim::Optimizer& optimizer) {
  using namespace torch::optim;
  const torch::NoGradGuard no_grad;
  // Exactly these: a class of their own may step otherwise.
  if (typeid(optimizer) == typeid(AdamW) && suits<AdamWOptions>(optimizer)) {
    step_all<AdamWOptions, AdamWParamState>(optimizer, true);
    return true;
  }
  if (typeid(optimizer) == typeid(Adam) && suits<AdamOptions>(optimizer)) {
    step_all<AdamOptions, AdamParamState>(optimizer, false);
    return true;
  }
  return false;
}

}  // namespace camber::train
