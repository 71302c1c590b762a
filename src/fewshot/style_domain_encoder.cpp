#include "camber/fewshot/style_domain_encoder.h"

#include <cmath>
#include <numbers>
#include <vector>

#include <torch/nn/functional/padding.h>
#include <torch/nn/modules/container/functional.h>
#include <torch/nn/modules/linear.h>

#include "camber/random/stream.h"

namespace camber::fewshot {
namespace {

namespace F = torch::nn::functional;

constexpr std::int64_t kSide = 7, kFilters = 14, kProjected = 16;
constexpr int kScales = 3;

template <class Value>
torch::Tensor filter(const Value& value) {
  auto cells = torch::empty({kSide, kSide}, torch::kDouble);
  auto access = cells.accessor<double, 2>();
  for (std::int64_t y = 0; y < kSide; ++y)
    for (std::int64_t x = 0; x < kSide; ++x)
      access[y][x] = value(static_cast<double>(x - 3), static_cast<double>(y - 3));
  cells -= cells.mean();
  return (cells / cells.norm()).to(torch::kFloat);
}

double gaussian(double x, double y, double deviation) {
  return std::exp(-(x * x + y * y) / (2 * deviation * deviation)) / (deviation * deviation);
}

// Scharr's 3x3 derivative, smoothed to the bank's size: weights 3, 10, 3 across, -1, 0, 1 along.
double scharr(double along, double across) {
  if (std::abs(along) > 1 || std::abs(across) > 1) return 0;
  return along * (across == 0 ? 10 : 3);
}

double gabor(double x, double y, double angle, double wavelength) {
  const double along = x * std::cos(angle) + y * std::sin(angle), across = -x * std::sin(angle) + y * std::cos(angle);
  const double deviation = 0.56 * wavelength;
  return std::exp(-(along * along + 0.25 * across * across) / (2 * deviation * deviation)) *
         std::cos(2 * std::numbers::pi * along / wavelength);
}

}  // namespace

torch::Tensor style_filter_bank() {
  std::vector<torch::Tensor> filters;
  filters.push_back(filter([](double x, double y) { return scharr(x, y); }));
  filters.push_back(filter([](double x, double y) { return scharr(y, x); }));
  filters.push_back(filter([](double x, double y) {
    return x == 0 && y == 0 ? -4.0 : std::abs(x) + std::abs(y) == 1 ? 1.0 : 0.0;
  }));
  for (const double deviation : {0.8, 1.2, 1.8})
    filters.push_back(filter(
        [deviation](double x, double y) { return gaussian(x, y, deviation) - gaussian(x, y, 1.6 * deviation); }));
  for (const double wavelength : {3.0, 5.0})
    for (int turn = 0; turn < 4; ++turn)
      filters.push_back(filter(
          [wavelength, turn](double x, double y) { return gabor(x, y, turn * std::numbers::pi / 4, wavelength); }));
  return torch::stack(filters).unsqueeze(1);
}

StyleDomainEncoderImpl::StyleDomainEncoderImpl(std::int64_t width) : width_(width) {
  reset();
}

void StyleDomainEncoderImpl::reset() {
  bank_ = register_buffer("bank", style_filter_bank());
  auto projection = torch::empty({kFilters, kProjected});
  random::Stream stream(0, "style_domain_encoder.projection");
  for (std::int64_t i = 0; i < projection.numel(); ++i)
    projection.data_ptr<float>()[i] = static_cast<float>(stream.normal() / std::sqrt(static_cast<double>(kFilters)));
  projection_ = register_buffer("projection", projection);
  std::vector<std::int64_t> triangle;
  for (std::int64_t i = 0; i < kProjected; ++i)
    for (std::int64_t j = i; j < kProjected; ++j) triangle.push_back(i * kProjected + j);
  triangle_ = register_buffer("triangle", torch::tensor(triangle));
  gain_ = register_parameter("gain", torch::ones({kFilters}));
  norm_ = register_module("norm", torch::nn::GroupNorm(torch::nn::GroupNormOptions(2, kFilters)));
  const std::int64_t numbers = kFilters * 2 * kScales + static_cast<std::int64_t>(triangle.size()), hidden = 2 * width_;
  head_ = register_module("head",
                          torch::nn::Sequential(torch::nn::LayerNorm(torch::nn::LayerNormOptions({numbers})),
                                                torch::nn::Linear(numbers, hidden), torch::nn::Functional(torch::relu),
                                                torch::nn::Linear(hidden, width_), torch::nn::Functional(torch::tanh)));
}

torch::Tensor StyleDomainEncoderImpl::statistics(const torch::Tensor& responses) const {
  std::vector<torch::Tensor> parts;
  auto maps = responses;
  for (int scale = 0; scale < kScales; ++scale) {
    parts.push_back(maps.mean({2, 3}));
    parts.push_back(0.5 * (maps.var({2, 3}, /*unbiased=*/false) + 1e-5).log());
    if (scale + 1 < kScales) maps = torch::avg_pool2d(maps, 2);
  }
  const auto cells = responses.flatten(2).transpose(1, 2).matmul(projection_);  // [B, H W, 16]
  const auto gram = cells.transpose(1, 2).matmul(cells) / static_cast<double>(cells.size(1));
  parts.push_back(gram.flatten(1).index_select(1, triangle_));
  return torch::cat(parts, 1);
}

torch::Tensor StyleDomainEncoderImpl::forward(const torch::Tensor& images) {
  TORCH_CHECK_VALUE(images.dim() == 4 && images.size(2) >= 8 && images.size(3) >= 8,
                    "[StyleDomainEncoder] images must be [B, C, 8 or more, 8 or more], got ", images.sizes());
  const auto grey = images.contiguous().mean(1, /*keepdim=*/true);
  const auto padded = F::pad(grey, F::PadFuncOptions({3, 3, 3, 3}).mode(torch::kReflect));
  const auto responses = torch::conv2d(padded, bank_) * gain_.view({1, kFilters, 1, 1});
  return head_->forward(statistics(norm_((responses.square() + 1e-4).sqrt())));
}

}  // namespace camber::fewshot
