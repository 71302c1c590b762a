#pragma once
#include <array>
#include <cstdint>

#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include "detection/normed_convolution.h"

namespace camber::detection::cmt {

/// Widths of a VoVNet with effective squeeze and excitation; the defaults are V-99-eSE.
struct VovNetShape {
  std::array<std::int64_t, 3> stem{64, 64, 128};
  std::array<std::int64_t, 4> inner{128, 160, 192, 224};     // of a stage's 3x3 convolutions
  std::array<std::int64_t, 4> outputs{256, 512, 768, 1024};  // of its blocks
  std::array<std::int64_t, 4> blocks{1, 3, 9, 3};
  std::int64_t convolutions = 5;  // of a block
};

/// A block (one-shot aggregation): x_0 the input, x_i = relu(norm(conv3x3(x_{i-1}))), then over all of them joined
/// y = relu(norm(conv1x1(x_0 .. x_n))), and y * hard_sigmoid(W mean(y) + b), to which blocks after a stage's first add
/// their input. Stages after the first begin with a 3x3 pooling of stride 2 that rounds sizes up. Parameters carry the
/// original's names ("stage3.OSA3_2.layers.0.OSA3_2_0/conv.weight"). Norms are frozen.
class VovNetImpl : public torch::nn::Module {
 public:
  explicit VovNetImpl(const VovNetShape& shape = {});
  void train(bool on) override;
  /// Images [n, 3, H, W] -> the last two stages, [n, outputs[2], H / 16, W / 16] and [n, outputs[3], H / 32, W / 32].
  std::array<torch::Tensor, 2> forward(const torch::Tensor& images);

 private:
  torch::nn::Sequential stem_{nullptr};
  std::array<NormedConvolution, 3> stem_layers_;
  std::array<torch::nn::Sequential, 4> stages_{nullptr, nullptr, nullptr, nullptr};
};
TORCH_MODULE(VovNet);

}  // namespace camber::detection::cmt
