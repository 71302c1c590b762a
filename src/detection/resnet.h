#pragma once
#include <array>
#include <cstdint>

#include <torch/nn/module.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/pimpl.h>

#include "camber/nn/batch_norm.h"
#include "detection/normed_convolution.h"

namespace camber::detection {

/// Sets the norms of a backbone to evaluation, whatever the rest does: they keep the statistics that they were given.
void freeze_norms(torch::nn::Module& backbone);

/// ResNet-50 to its last two stages, strides 16 and 32, with 16 and 32 times `width` channels; the stride of a block
/// lies in its 3x3 convolution. Parameters are named as torchvision's and mmdetection's. Norms are frozen.
class ResNet50Impl : public torch::nn::Module {
 public:
  explicit ResNet50Impl(std::int64_t stem = 64, std::int64_t width = 64);
  void train(bool on) override;
  /// Images [n, 3, H, W] -> [n, 16 width, H / 16, W / 16] and [n, 32 width, H / 32, W / 32].
  std::array<torch::Tensor, 2> forward(const torch::Tensor& images);
  /// The part before the stages: convolution, norm, ReLU, pooling.
  torch::Tensor stem(const torch::Tensor& images);

 private:
  torch::nn::Conv2d conv1_{nullptr};
  nn::BatchNorm2d bn1_{nullptr};
  NormedConvolution first_layer_;
  std::array<torch::nn::Sequential, 4> stages_{nullptr, nullptr, nullptr, nullptr};
};
TORCH_MODULE(ResNet50);

/// The neck of both camera encoders: out(near(first) + far(second), the latter raised to the first's size), without
/// norm or activation. Level 0 of CMT's CPFPN, which is all that the head looks at.
class NeckLayers {
 public:
  torch::Tensor join(const std::array<torch::Tensor, 2>& levels, torch::nn::Conv2dImpl& near,
                     torch::nn::Conv2dImpl& far, torch::nn::Conv2dImpl& out);

 private:
  NormedConvolution near_, far_, out_;
};

/// What `encode` makes of images [n, 3, H, W], joined. In inference they go one by one: the maps of a single image stay
/// in the cache, where those of six do not, and take a sixth of the memory.
template <class Encode>
torch::Tensor encode_images(const torch::nn::Module& encoder, const torch::Tensor& images, const Encode& encode) {
  if (!in_inference(encoder) || images.size(0) < 2) return encode(images);
  std::vector<torch::Tensor> maps;
  for (const auto& image : images.split(1)) maps.push_back(encode(image));
  return torch::cat(maps);
}

}  // namespace camber::detection
