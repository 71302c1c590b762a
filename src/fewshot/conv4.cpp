#include <torch/nn/modules/container/functional.h>

#include "camber/fewshot/encoders.h"
#include "camber/fewshot/norm_pool_relu.h"

namespace camber::fewshot {
namespace {

// Images of one channel are laid out both ways at once; only strides that say so keep the convolutions channels-last,
// which saves a tenth of an episode.
torch::Tensor channels_last(const torch::Tensor& images) {
  if (images.size(1) != 1) return images.contiguous(torch::MemoryFormat::ChannelsLast);
  const std::int64_t height = images.size(2), width = images.size(3);
  return images.contiguous().as_strided(images.sizes(), {height * width, 1, width, 1});
}

}  // namespace

Conv4Impl::Conv4Impl(std::int64_t in_channels, std::int64_t channels) : in_channels_(in_channels), channels_(channels) {
  reset();
}

void Conv4Impl::reset() {
  convolutions_.clear();
  norms_.clear();
  for (int i = 0; i < 4; ++i) {
    const auto options = torch::nn::Conv2dOptions(i == 0 ? in_channels_ : channels_, channels_, 3).padding(1);
    convolutions_.emplace_back(register_module("convolution" + std::to_string(i), torch::nn::Conv2d(options)));
    norms_.emplace_back(register_module("norm" + std::to_string(i), torch::nn::BatchNorm2d(channels_)));
    const torch::NoGradGuard no_grad;
    convolutions_.back()->weight.set_data(convolutions_.back()->weight.contiguous(torch::MemoryFormat::ChannelsLast));
  }
}

torch::Tensor Conv4Impl::forward(const torch::Tensor& images) {
  TORCH_CHECK_VALUE(images.dim() == 4 && images.size(1) == in_channels_ && images.size(2) >= 16 && images.size(3) >= 16,
                    "[Conv4] images must be [B, ", in_channels_, ", 16 or more, 16 or more], got ", images.sizes());
  auto maps = channels_last(images);
  for (std::size_t i = 0; i < convolutions_.size(); ++i) maps = norm_pool_relu(convolutions_[i](maps), norms_[i]);
  return maps.flatten(1);
}

MlpEncoderImpl::MlpEncoderImpl(std::int64_t in_width, std::int64_t width) : in_width_(in_width), width_(width) {
  reset();
}

void MlpEncoderImpl::reset() {
  using torch::nn::LayerNorm, torch::nn::LayerNormOptions, torch::nn::Linear;
  layers_ =
      register_module("layers", torch::nn::Sequential(Linear(in_width_, width_), LayerNorm(LayerNormOptions({width_})),
                                                      torch::nn::Functional(torch::relu), Linear(width_, width_),
                                                      LayerNorm(LayerNormOptions({width_})),
                                                      torch::nn::Functional(torch::relu), Linear(width_, width_)));
}

torch::Tensor MlpEncoderImpl::forward(const torch::Tensor& examples) {
  TORCH_CHECK_VALUE(examples.dim() == 2 && examples.size(1) == in_width_, "[MlpEncoder] examples must be [B, ",
                    in_width_, "], got ", examples.sizes());
  return layers_->forward(examples);
}

EncoderImpl::EncoderImpl(std::vector<std::int64_t> shape, EncoderOptions encoder_options)
    : shape_(std::move(shape)), options_(encoder_options) {
  reset();
}

void EncoderImpl::reset() {
  const bool images = shape_.size() == 3;
  const bool wants_images = options_.kind == EncoderKind::kConv4 || options_.kind == EncoderKind::kSaResNet12;
  TORCH_CHECK_VALUE(images == wants_images,
                    "[encoder] kind must be conv4 or sa_resnet12 for images, and mlp or identity for tables; the "
                    "examples have ",
                    shape_.size(), " dimensions");
  switch (options_.kind) {
    case EncoderKind::kConv4:
      conv4_ = register_module("conv4", Conv4(shape_[0], options_.channels));
      width_ = options_.channels * (shape_[1] / 16) * (shape_[2] / 16);
      TORCH_CHECK_VALUE(width_ > 0, "[encoder] conv4 needs images of at least 16 x 16, got ", shape_[2], " x ",
                        shape_[1]);
      break;
    case EncoderKind::kSaResNet12:
      resnet_ = register_module("resnet", SaResNet12(shape_[0], options_));
      width_ = 10 * options_.channels;
      break;
    case EncoderKind::kMlp:
      mlp_ = register_module("mlp", MlpEncoder(shape_[0], options_.width));
      width_ = options_.width;
      break;
    case EncoderKind::kIdentity:
      width_ = shape_[0];
      break;
  }
}

torch::Tensor EncoderImpl::forward(const torch::Tensor& examples) {
  switch (options_.kind) {
    case EncoderKind::kConv4:
      return conv4_(examples);
    case EncoderKind::kSaResNet12:
      return resnet_(examples);
    case EncoderKind::kMlp:
      return mlp_(examples);
    case EncoderKind::kIdentity:
      return examples;
  }
  throw std::logic_error("[encoder] unknown kind");
}

}  // namespace camber::fewshot
