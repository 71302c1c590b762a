#pragma once
#include <cstdint>

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

namespace camber::fewshot {

/// The domain feature of an image from the statistics of its style, without a learned filter: brightness goes through
/// a fixed bank of fourteen 7x7 filters (Scharr x and y, Laplacian, three differences of Gaussians, eight Gabors) of
/// which only the gains learn; r = sqrt(response^2 + eps), group-normalised; mean and log deviation of each at three
/// scales (84 numbers) and the upper triangle of a Gram matrix of a fixed random projection to 16 (136 numbers); then
/// layer norm, two layers and tanh. No batch statistics anywhere.
///
///   StyleDomainEncoder encoder(64);
///   torch::Tensor f_dom = encoder(images);  // [B, C, H, W] -> [B, 64]
class StyleDomainEncoderImpl : public torch::nn::Cloneable<StyleDomainEncoderImpl> {
 public:
  explicit StyleDomainEncoderImpl(std::int64_t width = 64);
  void reset() override;
  torch::Tensor forward(const torch::Tensor& images);

 private:
  torch::Tensor statistics(const torch::Tensor& responses) const;

  std::int64_t width_;
  torch::Tensor bank_;        // [14, 1, 7, 7]
  torch::Tensor projection_;  // [14, 16]
  torch::Tensor triangle_;    // indices into the 16 x 16 Gram matrix
  torch::Tensor gain_;        // [14]
  torch::nn::GroupNorm norm_{nullptr};
  torch::nn::Sequential head_{nullptr};
};
TORCH_MODULE(StyleDomainEncoder);

/// The fixed filters: [14, 1, 7, 7], each of zero mean and unit norm.
torch::Tensor style_filter_bank();

}  // namespace camber::fewshot
