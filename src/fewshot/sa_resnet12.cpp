#include <array>

#include <torch/nn/functional/activation.h>
#include <torch/nn/functional/conv.h>
#include <torch/nn/functional/padding.h>

#include "camber/fewshot/encoders.h"

namespace camber::fewshot {
namespace {

namespace F = torch::nn::functional;

constexpr std::int64_t kGroups = 8;
constexpr double kSlope = 0.1;  // of the leaky ReLU

std::array<std::int64_t, 4> stage_channels(std::int64_t first) {
  return {first, first * 5 / 2, first * 5, first * 10};
}

// Weights of zero mean and unit deviation for every output channel.
torch::Tensor standardised(const torch::Tensor& weight) {
  const auto centred = weight - weight.mean({1, 2, 3}, /*keepdim=*/true);
  return centred / (centred.square().mean({1, 2, 3}, /*keepdim=*/true) + 1e-5).sqrt() /
         std::sqrt(static_cast<double>(weight[0].numel()));
}

// Halves a map after a 3x3 binomial blur, so that a shift of one pixel does not change what is kept.
torch::Tensor blurred_half(const torch::Tensor& maps) {
  const auto line = torch::tensor({0.25, 0.5, 0.25}, maps.options().requires_grad(false));
  const auto kernel = torch::outer(line, line).expand({maps.size(1), 1, 3, 3});
  const auto padded = F::pad(maps, F::PadFuncOptions({1, 1, 1, 1}).mode(torch::kReplicate));
  return F::conv2d(padded, kernel, F::Conv2dFuncOptions().stride(2).groups(maps.size(1)));
}

}  // namespace

torch::Tensor mix_styles(const torch::Tensor& maps) {
  const auto mean = maps.mean({2, 3}, true).detach();
  const auto deviation = (maps.var({2, 3}, /*unbiased=*/false, /*keepdim=*/true) + 1e-6).sqrt().detach();
  // Beta(a, a) from two gamma draws.
  const auto gamma = torch::_standard_gamma(torch::full({2, maps.size(0), 1, 1, 1}, 0.1, maps.options()));
  const auto weight = (gamma[0] + 1e-12) / (gamma[0] + gamma[1] + 2e-12);
  const auto other = torch::randperm(maps.size(0), torch::kLong).to(maps.device());
  const auto mixed_mean = weight * mean + (1 - weight) * mean.index_select(0, other);
  const auto mixed_deviation = weight * deviation + (1 - weight) * deviation.index_select(0, other);
  return (maps - mean) / deviation * mixed_deviation + mixed_mean;
}

torch::Tensor drop_blocks(const torch::Tensor& maps, double share, std::int64_t side) {
  const std::int64_t height = maps.size(2), width = maps.size(3);
  side = std::min({side, height, width}) | 1;
  if (side > std::min(height, width)) side -= 2;
  if (share <= 0 || side < 1) return maps;
  const double seeds = share / static_cast<double>(side * side);
  const auto centres = (torch::rand({maps.size(0), 1, height, width}, maps.options()) < seeds).to(maps.scalar_type());
  const auto kept = 1 - torch::max_pool2d(centres, side, 1, side / 2);
  return maps * kept * (static_cast<double>(kept.numel()) / kept.sum().clamp_min(1));
}

SaResNetStageImpl::SaResNetStageImpl(std::int64_t in_channels, std::int64_t channels, bool with_standard_weights)
    : in_channels_(in_channels), channels_(channels), standardised_(with_standard_weights) {
  reset();
}

void SaResNetStageImpl::reset() {
  convolutions_.clear();
  instance_norms_.clear();
  group_norms_.clear();
  for (int i = 0; i < 4; ++i) {
    const bool shortcut = i == 3;
    const auto options =
        torch::nn::Conv2dOptions(i == 0 || shortcut ? in_channels_ : channels_, channels_, shortcut ? 1 : 3)
            .padding(shortcut ? 0 : 1)
            .bias(false);
    convolutions_.emplace_back(register_module("convolution" + std::to_string(i), torch::nn::Conv2d(options)));
    const std::string name = "norm" + std::to_string(i);
    if (standardised_)
      group_norms_.emplace_back(register_module(
          name, torch::nn::GroupNorm(torch::nn::GroupNormOptions(channels_ % kGroups == 0 ? kGroups : 1, channels_))));
    else
      instance_norms_.emplace_back(
          register_module(name, torch::nn::InstanceNorm2d(torch::nn::InstanceNorm2dOptions(channels_).affine(true))));
  }
}

torch::Tensor SaResNetStageImpl::convolve(std::size_t index, const torch::Tensor& maps) {
  const auto& layer = convolutions_[index];
  const auto weight = standardised_ ? standardised(layer->weight) : layer->weight;
  return torch::conv2d(maps, weight, {}, 1, index == 3 ? 0 : 1);
}

torch::Tensor SaResNetStageImpl::normalise(std::size_t index, const torch::Tensor& maps) {
  return standardised_ ? group_norms_[index](maps) : instance_norms_[index](maps);
}

torch::Tensor SaResNetStageImpl::forward(const torch::Tensor& maps) {
  auto path = maps;
  for (std::size_t i = 0; i < 3; ++i) {
    path = normalise(i, convolve(i, path));
    if (i < 2) path = torch::leaky_relu(path, kSlope);
  }
  return blurred_half(torch::leaky_relu(path + normalise(3, convolve(3, maps)), kSlope));
}

SaResNet12Impl::SaResNet12Impl(std::int64_t in_channels, EncoderOptions encoder_options)
    : in_channels_(in_channels), options_(encoder_options) {
  reset();
}

void SaResNet12Impl::reset() {
  const auto across = torch::tensor({{-1.0F, 0.0F, 1.0F}, {-2.0F, 0.0F, 2.0F}, {-1.0F, 0.0F, 1.0F}}) / 8;
  sobel_ = register_buffer("sobel", torch::stack({across, across.t()}).unsqueeze(1));
  stages_ = register_module("stages", torch::nn::ModuleList());
  std::int64_t before = in_channels_ + 1;
  std::size_t index = 0;
  for (const std::int64_t channels : stage_channels(options_.channels)) {
    stages_->push_back(SaResNetStage(before, channels, /*standardised=*/index >= 2));
    before = channels;
    ++index;
  }
}

torch::Tensor SaResNet12Impl::forward(const torch::Tensor& images) {
  TORCH_CHECK_VALUE(images.dim() == 4 && images.size(1) == in_channels_ && images.size(2) >= 16 && images.size(3) >= 16,
                    "[SaResNet12] images must be [B, ", in_channels_, ", 16 or more, 16 or more], got ",
                    images.sizes());
  const auto grey = images.mean(1, /*keepdim=*/true);
  const auto slopes = torch::conv2d(F::pad(grey, F::PadFuncOptions({1, 1, 1, 1}).mode(torch::kReplicate)), sobel_);
  auto maps = torch::cat({images, (slopes.square().sum(1, /*keepdim=*/true) + 1e-6).sqrt()}, 1);
  for (std::size_t i = 0; i < stages_->size(); ++i) {
    maps = stages_->ptr<SaResNetStageImpl>(i)->forward(maps);
    if (!is_training()) continue;
    const bool mixes = i < 2 && options_.mix_style > 0;
    if (mixes && torch::rand({1}).item<double>() < options_.mix_style) maps = mix_styles(maps);
    if (i >= 2) maps = drop_blocks(maps, options_.drop_block, 5);
  }
  return maps.mean({2, 3});
}

}  // namespace camber::fewshot
