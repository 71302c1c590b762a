#pragma once
#include <array>
#include <cstdint>

#include <torch/nn/module.h>
#include <torch/types.h>

namespace camber::detection {

/// What one decoder layer says of each query.
struct TaskOutputs {
  torch::Tensor logits{};  // [B, Q, classes]
  torch::Tensor raw{};     // [B, Q, 10]: centre 2, height 1, size 3, heading 2, velocity 2, before references are added
};

/// CMT's separate heads: for every decoder layer and each of six tasks (centre, height, size, heading, velocity,
/// classes) a net of its own, W_2 relu(norm(W_1 x)) + b, the norm over the inner width with eps 1e-6. With a kernel k
/// above 1, W_1 and W_2 see the k queries round each one, in the order of the queries, zeros beyond the first and the
/// last: convolutions over the queries, as in CMT's LiDAR model.
class TaskHeadsImpl : public torch::nn::Module {
 public:
  TaskHeadsImpl(std::int64_t layers, std::int64_t width, std::int64_t inner, std::int64_t classes,
                std::int64_t kernel = 1);
  TaskOutputs forward(const torch::Tensor& state, std::int64_t layer);
  /// Sets the first bias of the class scores.
  void set_class_bias(double value);

 private:
  static constexpr std::int64_t kTasks = 6;
  std::int64_t inner_, kernel_;
  torch::Tensor hidden_{}, norm_weight_{}, norm_bias_{};  // [L, 6 * inner, k * C], [L, 6, inner] twice
  std::array<torch::Tensor, kTasks> weight_, bias_;       // [L, outputs, k * inner], [L, outputs]
};

}  // namespace camber::detection
