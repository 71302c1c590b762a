#pragma once
#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>

#include "camber/nn/batch_norm.h"

namespace camber::detection {

/// A convolution without an offset, that keeps the size but for its stride, batch norm, ReLU:
/// [n, inputs, H, W] -> [n, outputs, H / stride, W / stride].
class ConvolutionBlockImpl : public torch::nn::Module {
 public:
  ConvolutionBlockImpl(std::int64_t inputs, std::int64_t size, std::int64_t stride,
                       const torch::nn::BatchNorm2dOptions& norm) {
    conv_ = register_module(
        "conv",
        torch::nn::Conv2d(
            torch::nn::Conv2dOptions(inputs, norm.num_features(), size).stride(stride).padding(size / 2).bias(false)));
    norm_ = register_module("norm", nn::BatchNorm2d(norm));
  }
  torch::Tensor forward(const torch::Tensor& input) { return norm_->forward(conv_->forward(input)).relu_(); }
  torch::nn::Conv2d& convolution() { return conv_; }

 private:
  torch::nn::Conv2d conv_{nullptr};
  nn::BatchNorm2d norm_{nullptr};
};
TORCH_MODULE(ConvolutionBlock);

}  // namespace camber::detection
