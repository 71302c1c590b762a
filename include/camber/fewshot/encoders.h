#pragma once
#include <cstdint>
#include <vector>

#include <camber/fewshot/options.h>

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/instancenorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

namespace camber::fewshot {

/// Four blocks of (3x3 convolution, batch normalisation, ReLU, 2x2 maximum), then all numbers in a row: 28x28 images
/// and 32 channels give 32. Normalisation, maximum and ReLU are one operation (norm_pool_relu.h), and maps lie with
/// their channels last: together that more than doubles the speed of training at this size.
class Conv4Impl : public torch::nn::Cloneable<Conv4Impl> {
 public:
  Conv4Impl(std::int64_t in_channels, std::int64_t channels);
  void reset() override;
  /// [B, C, H, W] -> [B, channels * floor(H / 16) * floor(W / 16)]
  torch::Tensor forward(const torch::Tensor& images);

 private:
  std::int64_t in_channels_, channels_;
  std::vector<torch::nn::Conv2d> convolutions_;
  std::vector<torch::nn::BatchNorm2d> norms_;
};
TORCH_MODULE(Conv4);

/// Two hidden layers with layer normalisation and ReLU, for tables. [B, D] -> [B, width]
class MlpEncoderImpl : public torch::nn::Cloneable<MlpEncoderImpl> {
 public:
  MlpEncoderImpl(std::int64_t in_width, std::int64_t width);
  void reset() override;
  torch::Tensor forward(const torch::Tensor& examples);

 private:
  std::int64_t in_width_, width_;
  torch::nn::Sequential layers_{nullptr};
};
TORCH_MODULE(MlpEncoder);

/// One residual stage of SaResNet12: three 3x3 convolutions and a 1x1 shortcut, then a blurred halving. Early stages
/// have instance normalisation, late ones group normalisation over convolutions with standardised weights.
class SaResNetStageImpl : public torch::nn::Cloneable<SaResNetStageImpl> {
 public:
  SaResNetStageImpl(std::int64_t in_channels, std::int64_t channels, bool standardised);
  void reset() override;
  torch::Tensor forward(const torch::Tensor& maps);

 private:
  torch::Tensor convolve(std::size_t index, const torch::Tensor& maps);
  torch::Tensor normalise(std::size_t index, const torch::Tensor& maps);

  std::int64_t in_channels_, channels_;
  bool standardised_;
  std::vector<torch::nn::Conv2d> convolutions_;  // three of the main path, then the shortcut
  std::vector<torch::nn::InstanceNorm2d> instance_norms_;
  std::vector<torch::nn::GroupNorm> group_norms_;
};
TORCH_MODULE(SaResNetStage);

/// The intrinsic encoder of the host model: a fixed Sobel stem beside the colours, four residual stages of c, 2.5c, 5c
/// and 10c channels (64, 160, 320, 640), MixStyle after the first two and DropBlock after the last two in training,
/// then the mean over the map. [B, C, H, W] -> [B, 10c]
class SaResNet12Impl : public torch::nn::Cloneable<SaResNet12Impl> {
 public:
  SaResNet12Impl(std::int64_t in_channels, EncoderOptions encoder_options);
  void reset() override;
  torch::Tensor forward(const torch::Tensor& images);

 private:
  std::int64_t in_channels_;
  EncoderOptions options_;
  torch::nn::ModuleList stages_{nullptr};
  torch::Tensor sobel_;  // [2, 1, 3, 3]
};
TORCH_MODULE(SaResNet12);

/// The encoder that the options name, for examples of this shape.
class EncoderImpl : public torch::nn::Cloneable<EncoderImpl> {
 public:
  EncoderImpl(std::vector<std::int64_t> shape, EncoderOptions encoder_options);
  void reset() override;
  torch::Tensor forward(const torch::Tensor& examples);
  /// The width of the feature.
  std::int64_t width() const { return width_; }

 private:
  std::vector<std::int64_t> shape_;
  EncoderOptions options_;
  std::int64_t width_ = 0;
  Conv4 conv4_{nullptr};
  SaResNet12 resnet_{nullptr};
  MlpEncoder mlp_{nullptr};
};
TORCH_MODULE(Encoder);

/// Mixes the mean and deviation of every map with those of another image of the batch (MixStyle): weights from
/// Beta(0.1, 0.1), one an image, drawn from torch's generator.
torch::Tensor mix_styles(const torch::Tensor& maps);

/// Sets squares of `side` cells to zero so that about `share` of the map is lost, and scales the rest up.
torch::Tensor drop_blocks(const torch::Tensor& maps, double share, std::int64_t side);

}  // namespace camber::fewshot
