#include "detection/cmt/bev_backbone.h"

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>

#include "camber/nn/batch_norm.h"

namespace camber::detection::cmt {
namespace {

void add_norm(torch::nn::Sequential& to, std::int64_t channels) {
  to->push_back(nn::BatchNorm2d(torch::nn::BatchNorm2dOptions(channels).eps(1e-3).momentum(0.01)));
  to->push_back(torch::nn::ReLU(torch::nn::ReLUOptions(/*inplace=*/true)));
}

void add_layer(torch::nn::Sequential& to, std::int64_t inputs, std::int64_t outputs, std::int64_t size,
               std::int64_t stride) {
  to->push_back(
      torch::nn::Conv2d(torch::nn::Conv2dOptions(inputs, outputs, size).stride(stride).padding(size / 2).bias(false)));
  add_norm(to, outputs);
}

}  // namespace

SecondImpl::SecondImpl(std::int64_t inputs, const std::array<std::int64_t, 2>& channels, std::int64_t layers) {
  blocks_ = register_module("blocks", torch::nn::ModuleList());
  for (std::size_t stage = 0; stage < channels.size(); ++stage) {
    torch::nn::Sequential block;
    add_layer(block, stage == 0 ? inputs : channels[0], channels[stage], 3, stage == 0 ? 1 : 2);
    for (std::int64_t i = 0; i < layers; ++i) add_layer(block, channels[stage], channels[stage], 3, 1);
    layers_[stage].resize(block->size() / 3);  // convolution, norm, activation
    blocks_->push_back(block);
  }
}

std::array<torch::Tensor, 2> SecondImpl::forward(const torch::Tensor& map) {
  const auto run = [this](std::size_t stage, torch::Tensor state) {
    const auto& block = *blocks_[stage]->as<torch::nn::Sequential>();
    for (std::size_t i = 0; i < layers_[stage].size(); ++i)
      state =
          layers_[stage][i](*block[3 * i]->as<torch::nn::Conv2d>(), *block[3 * i + 1]->as<nn::BatchNorm2d>(), state);
    return state;
  };
  const auto near = run(0, map);
  return {near, run(1, near)};
}

SecondFpnImpl::SecondFpnImpl(const std::array<std::int64_t, 2>& inputs, std::int64_t outputs) {
  deblocks_ = register_module("deblocks", torch::nn::ModuleList());
  torch::nn::Sequential near, far;
  add_layer(near, inputs[0], outputs, 1, 1);
  far->push_back(
      torch::nn::ConvTranspose2d(torch::nn::ConvTranspose2dOptions(inputs[1], outputs, 2).stride(2).bias(false)));
  add_norm(far, outputs);
  deblocks_->push_back(near);
  deblocks_->push_back(far);
}

torch::Tensor SecondFpnImpl::forward(const std::array<torch::Tensor, 2>& levels) {
  const auto& near = *deblocks_[0]->as<torch::nn::Sequential>();
  const auto& far = *deblocks_[1]->as<torch::nn::Sequential>();
  return torch::cat({near_(*near[0]->as<torch::nn::Conv2d>(), *near[1]->as<nn::BatchNorm2d>(), levels[0]),
                     far_(*far[0]->as<torch::nn::ConvTranspose2d>(), *far[1]->as<nn::BatchNorm2d>(), levels[1])},
                    1);
}

}  // namespace camber::detection::cmt
