#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <camber/config/field.h>

#include <torch/nn/module.h>
#include <torch/types.h>

namespace camber::train {

/// Terms of a loss by name, in the order in which they were computed; the loss is their sum.
using NamedLosses = std::vector<std::pair<std::string, torch::Tensor>>;

struct GradientGuardOptions {
  std::int64_t stop_after = 10;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("stop_after", stop_after, "steps in a row that are not finite before the run stops",
            config::Range{.min = 1});
  }
  friend bool operator==(const GradientGuardOptions&, const GradientGuardOptions&) = default;
};

/// Keeps NaN and infinity out of the weights. A step whose loss or gradient is not finite is to be skipped: the guard
/// counts it, names the first tensor that broke, puts back the buffers that the forward pass touched (running
/// statistics would keep the NaN), and after `stop_after` such steps in a row says that the run must stop.
///
///   GradientGuard guard(*model, {.stop_after = 10});
///   guard.begin_step();
///   ... forward, guard.broken_loss(losses), backward, guard.broken_gradient(norm) ...
///   if (broken) guard.skip(*broken); else guard.accept();
///
/// First means: a parameter that is already broken, then the first term of the loss, then the gradient that the
/// backward pass reached first (the last of the broken ones in the order of the model's parameters).
class GradientGuard {
 public:
  GradientGuard(torch::nn::Module& model, GradientGuardOptions options = {});

  /// Remembers the buffers.
  void begin_step();
  /// A sentence's part when a term is not finite: "loss term 'focal' is nan".
  std::optional<std::string> broken_loss(const NamedLosses& losses) const;
  /// The same for the gradients; looks at them one by one only when their joint norm is not finite.
  std::optional<std::string> broken_gradient(double norm) const;

  /// The step was sound.
  void accept() { in_a_row_ = 0; }
  /// The step is skipped. Throws std::runtime_error with a diagnosis after `stop_after` in a row.
  void skip(const std::string& what, std::int64_t step);

  std::int64_t skipped() const { return skipped_; }
  std::int64_t in_a_row() const { return in_a_row_; }
  void set_counts(std::int64_t skipped, std::int64_t in_a_row) { skipped_ = skipped, in_a_row_ = in_a_row; }

 private:
  std::optional<std::string> broken_parameter() const;

  GradientGuardOptions options_;
  std::vector<std::pair<std::string, torch::Tensor>> parameters_;
  std::vector<std::pair<torch::Tensor, torch::Tensor>> buffers_;  // (the model's, as it was before the step)
  std::int64_t skipped_ = 0;
  std::int64_t in_a_row_ = 0;
};

}  // namespace camber::train
