#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <camber/nn/attention_bias.h>
#include <camber/nn/bounded_scale.h>

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

namespace camber::train {

/// A scale and the name of its module in the model.
struct NamedScale {
  std::string name;
  nn::BoundedScale scale;
};

/// Finds every BoundedScale of a model and keeps the projected ones inside their bounds. LibTorch's optimisers have no
/// hooks, so one line takes the place of `optimizer.step()`:
///
///   camber::train::ScaleProjector projector(*model);
///   ...
///   loss.backward();
///   projector.step(optimizer);
///
/// Works with SGD (momentum, Nesterov), Adam and AdamW and throws std::invalid_argument for any other optimiser. Where
/// an element was projected, momentum that points outward is zeroed: SGD's momentum_buffer, Adam's and AdamW's exp_avg;
/// exp_avg_sq and the step count stay. State that does not exist yet is normal.
class ScaleProjector {
 public:
  /// Scales that are reached under two names are listed once. Scales added to the model later are not seen.
  explicit ScaleProjector(torch::nn::Module& model);

  /// optimizer.step(closure), then project(optimizer); returns what the closure returned.
  torch::Tensor step(torch::optim::Optimizer& optimizer, torch::optim::Optimizer::LossClosure closure = nullptr);

  /// Only the projection, for a step that was made elsewhere. Touches the scales that this optimiser holds. Weight
  /// decay on one of them is told once: it would pull a scale to 0, and one in log space to 1.
  void project(torch::optim::Optimizer& optimizer);

  /// Gives every scale its bounds, and every attention bias of the model its clip, for this epoch and step; true when
  /// any changed.
  bool apply_schedule(std::int64_t epoch, std::int64_t step);

  /// The sum of the scales' penalties, to add to the loss; undefined when no scale has an l2_weight.
  torch::Tensor penalty();

  const std::vector<NamedScale>& scales() const { return scales_; }

 private:
  std::vector<NamedScale> scales_;
  std::vector<std::shared_ptr<nn::AttentionBiasImpl>> biases_;
  bool warned_of_decay_ = false;
};

}  // namespace camber::train
