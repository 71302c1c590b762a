#pragma once
#include <array>
#include <cstdint>
#include <deque>

#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include "detection/normed_convolution.h"

namespace camber::detection::cmt {

/// SECOND: two stages of 1 + `layers` times relu(norm(conv3x3)), strides 1 and 2, norms with eps 1e-3. Parameters carry
/// mmdetection3d's names.
class SecondImpl : public torch::nn::Module {
 public:
  SecondImpl(std::int64_t inputs, const std::array<std::int64_t, 2>& channels, std::int64_t layers);
  /// [n, inputs, H, W] -> [n, channels[0], H, W] and [n, channels[1], H / 2, W / 2].
  std::array<torch::Tensor, 2> forward(const torch::Tensor& map);

 private:
  torch::nn::ModuleList blocks_{nullptr};
  std::array<std::deque<NormedConvolution>, 2> layers_;
};
TORCH_MODULE(Second);

/// SECONDFPN: relu(norm(conv1x1)) of the first level beside relu(norm(deconv2x2)) of the second, in that order.
class SecondFpnImpl : public torch::nn::Module {
 public:
  SecondFpnImpl(const std::array<std::int64_t, 2>& inputs, std::int64_t outputs);
  /// -> [n, 2 outputs, H, W].
  torch::Tensor forward(const std::array<torch::Tensor, 2>& levels);

 private:
  torch::nn::ModuleList deblocks_{nullptr};
  NormedConvolution near_, far_;
};
TORCH_MODULE(SecondFpn);

}  // namespace camber::detection::cmt
