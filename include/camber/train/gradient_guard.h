#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <camber/health/guard.h>

#include <torch/nn/module.h>
#include <torch/types.h>

namespace camber::train {

/// Terms of a loss by name, in the order in which they were computed; the loss is their sum.
using NamedLosses = std::vector<std::pair<std::string, torch::Tensor>>;

/// The buffers of a model as they were: a forward pass moves running statistics.
class KeptBuffers {
 public:
  explicit KeptBuffers(const torch::nn::Module& model);
  void keep();
  void restore();

 private:
  std::vector<std::pair<torch::Tensor, torch::Tensor>> buffers_;  // (the model's, as it was)
};

/// Keeps NaN and infinity out of a model: finds the first tensor that broke, and takes a skipped step back. (Which
/// steps are skipped and when a run stops is health::StepGuard's matter.)
///
///   GradientGuard guard(*model);
///   guard.begin_step();
///   ... forward, guard.broken_loss(losses), backward, guard.broken_gradient(norm) ...
///   if (broken) guard.take_back();
///
/// First means: a parameter that is already broken, then the first term of the loss, then the gradient that the
/// backward pass reached first (the last of the broken ones in the order of the model's parameters).
class GradientGuard {
 public:
  explicit GradientGuard(torch::nn::Module& model);

  /// Remembers the buffers.
  void begin_step();
  std::optional<health::BrokenTensor> broken_loss(const NamedLosses& losses) const;
  /// Looks at the gradients one by one only when their joint norm is not finite.
  std::optional<health::BrokenTensor> broken_gradient(double norm) const;
  /// Puts back the buffers that the forward pass touched: running statistics would keep a NaN for ever.
  void take_back();

 private:
  std::optional<health::BrokenTensor> broken_parameter() const;

  std::vector<std::pair<std::string, torch::Tensor>> parameters_;
  KeptBuffers buffers_;  // as they were before the step
};

}  // namespace camber::train
