#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include "camber/nn/batch_norm.h"
#include "camber/ops/sparse_convolution.h"
#include "detection/normed_convolution.h"

namespace camber::detection::cmt {

/// Rows of features at the active sites of a grid.
struct SparseMap {
  torch::Tensor features{};     // [N, C]
  torch::Tensor coordinates{};  // int32 [N, 4]: (cloud, z, y, x)
  ops::GridShape shape{};
};

/// What each layer made, by its name in the original: conv_input, encoder_layer1.0 .. encoder_layer4.1, conv_out.
using SparseStages = std::vector<std::pair<std::string, SparseMap>>;

/// The weight of a sparse convolution, [outputs, kz, ky, kx, inputs] as spconv 2 stores it.
class SparseWeightImpl : public torch::nn::Module {
 public:
  SparseWeightImpl(std::int64_t inputs, std::int64_t outputs, const ops::GridShape& kernel);
  torch::Tensor weight{};
};
TORCH_MODULE(SparseWeight);

/// One sparse convolution without bias, with the norm over its active sites (eps 1e-3); "0" and "1" in the original.
class SparseUnitImpl : public torch::nn::Module {
 public:
  SparseUnitImpl(std::int64_t inputs, std::int64_t outputs, const ops::GridShape& kernel);
  torch::Tensor forward(const torch::Tensor& features, const ops::SparseIndices& indices);

 private:
  SparseWeight conv_{nullptr};
  nn::BatchNorm1d norm_{nullptr};
  FoldedNorm folded_;
};
TORCH_MODULE(SparseUnit);

struct SparseEncoderOptions {
  std::int64_t inputs = 5;
  std::vector<std::int64_t> channels{16, 32, 64, 128};
  std::int64_t outputs = 128;
  ops::GridShape shape{41, 1024, 1024};
  bool bfloat16 = false;  // all but the first layer, whose inputs are metres; in inference alone
};

/// mmdetection3d's SparseEncoder of basic blocks: a submanifold convolution, then four stages of two residual blocks
/// relu(norm(conv(relu(norm(conv x)))) + x) each, the first three followed by a convolution of stride 2, and one of
/// stride 2 along z alone. Parameters carry the original's names. Index pairs are built once for each of the eight
/// geometries.
class SparseEncoderImpl : public torch::nn::Module {
 public:
  explicit SparseEncoderImpl(SparseEncoderOptions options);
  /// features [N, inputs] at coordinates int32 [N, 4] of `clouds` clouds -> [clouds, outputs * heights, rows, columns],
  /// channel = c * heights + z. `stages`, where given, gets every layer's rows.
  torch::Tensor forward(const torch::Tensor& features, const torch::Tensor& coordinates, std::int64_t clouds,
                        SparseStages* stages = nullptr);
  /// The grid of the last layer: (heights, rows, columns).
  static ops::GridShape output_shape(const ops::GridShape& shape);

 private:
  SparseEncoderOptions options_;
  SparseUnit conv_input_{nullptr}, conv_out_{nullptr};
  std::vector<std::shared_ptr<torch::nn::Module>> blocks_{};  // two a stage
  std::vector<SparseUnit> downsamplings_{};
};
TORCH_MODULE(SparseEncoder);

/// Rows of a sparse map as a dense one, [clouds, C * z, y, x] with channel = c * z_size + z, zeros at inactive sites.
torch::Tensor to_dense(const SparseMap& map, std::int64_t clouds);

}  // namespace camber::detection::cmt
