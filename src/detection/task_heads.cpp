#include "detection/task_heads.h"

namespace camber::detection {
namespace {

constexpr double kEpsilon = 1e-6;
constexpr std::array<const char*, 6> kNames = {"centre", "height", "size", "heading", "velocity", "classes"};

// [B, Q, C] -> [B, Q, kernel * C]: beside each query its neighbours in the order of the queries, zeros beyond the ends.
torch::Tensor with_neighbours(const torch::Tensor& queries, std::int64_t kernel) {
  if (kernel == 1) return queries;
  const auto padded = torch::constant_pad_nd(queries, {0, 0, kernel / 2, kernel / 2});
  std::vector<torch::Tensor> taps;
  taps.reserve(static_cast<std::size_t>(kernel));
  for (std::int64_t tap = 0; tap < kernel; ++tap) taps.push_back(padded.narrow(1, tap, queries.size(1)));
  return torch::cat(taps, -1);
}

}  // namespace

TaskHeadsImpl::TaskHeadsImpl(std::int64_t layers, std::int64_t width, std::int64_t inner, std::int64_t classes,
                             std::int64_t kernel)
    : inner_(inner), kernel_(kernel) {
  hidden_ = register_parameter("hidden", torch::zeros({layers, kTasks * inner, kernel * width}));
  norm_weight_ = register_parameter("norm_weight", torch::ones({layers, kTasks, inner}));
  norm_bias_ = register_parameter("norm_bias", torch::zeros({layers, kTasks, inner}));
  const std::array<std::int64_t, kTasks> outputs = {2, 1, 3, 2, 2, classes};
  for (std::size_t t = 0; t < outputs.size(); ++t) {
    weight_[t] =
        register_parameter(std::string(kNames[t]) + "_weight", torch::zeros({layers, outputs[t], kernel * inner}));
    bias_[t] = register_parameter(std::string(kNames[t]) + "_bias", torch::zeros({layers, outputs[t]}));
  }
}

TaskOutputs TaskHeadsImpl::forward(const torch::Tensor& state, std::int64_t layer) {
  const auto inner = torch::matmul(with_neighbours(state, kernel_), hidden_.select(0, layer).t())
                         .view({state.size(0), state.size(1), kTasks, inner_});
  const auto normed = torch::layer_norm(inner, {inner_}, {}, {}, kEpsilon);
  const auto active = torch::relu(torch::addcmul(norm_bias_.select(0, layer), normed, norm_weight_.select(0, layer)));
  std::vector<torch::Tensor> outputs;
  for (std::int64_t t = 0; t < kTasks; ++t) {
    const auto at = static_cast<std::size_t>(t);
    outputs.push_back(torch::linear(with_neighbours(active.select(2, t), kernel_), weight_[at].select(0, layer),
                                    bias_[at].select(0, layer)));
  }
  // Boxes and losses are computed in the type of the weights, whatever autocast makes of products.
  const auto type = hidden_.scalar_type();
  const auto logits = outputs.back().to(type);
  outputs.pop_back();
  return {logits, torch::cat(outputs, -1).to(type)};
}

void TaskHeadsImpl::set_class_bias(double value) {
  const torch::NoGradGuard guard;
  bias_.back().fill_(value);
}

}  // namespace camber::detection
