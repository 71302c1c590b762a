#include "detection/cmt/sparse_encoder.h"

#include <utility>

#include <torch/nn/functional/batchnorm.h>

namespace camber::detection::cmt {
namespace {

constexpr double kEpsilon = 1e-3, kMomentum = 0.01;

const ops::SparseKernel kSubmanifold{.size = {3, 3, 3}, .submanifold = true};
// The third one, from 11 heights to 5, has no padding along z.
const std::array<ops::SparseKernel, 3> kDownsampling{
    ops::SparseKernel{.size = {3, 3, 3}, .stride = {2, 2, 2}, .padding = {1, 1, 1}},
    ops::SparseKernel{.size = {3, 3, 3}, .stride = {2, 2, 2}, .padding = {1, 1, 1}},
    ops::SparseKernel{.size = {3, 3, 3}, .stride = {2, 2, 2}, .padding = {0, 1, 1}}};
const ops::SparseKernel kOutput{.size = {3, 1, 1}, .stride = {2, 1, 1}, .padding = {0, 0, 0}};

nn::BatchNorm1d site_norm(std::int64_t channels) {
  return nn::BatchNorm1d(torch::nn::BatchNorm1dOptions(channels).eps(kEpsilon).momentum(kMomentum));
}

// Over the active sites; fewer than two have no variance, and are measured by the running statistics.
torch::Tensor normalise(nn::BatchNorm1d& norm, const torch::Tensor& rows) {
  if (rows.size(0) > 1 || norm->shares_statistics() || !norm->is_training()) return norm->forward(rows);
  return torch::batch_norm(rows, norm->weight, norm->bias, norm->running_mean, norm->running_var, /*training=*/false,
                           kMomentum, kEpsilon, /*cudnn_enabled=*/false);
}

// relu(norm(convolution) + added); in inference with the norm folded into the weight.
torch::Tensor sparse_layer(SparseWeightImpl& conv, nn::BatchNorm1d& norm, FoldedNorm& folded,
                           const torch::Tensor& features, const ops::SparseIndices& indices,
                           const torch::Tensor& added = {}) {
  if (in_inference(conv) && in_inference(*norm)) {
    const auto layer = folded.get(conv.weight, {}, NormTensors::of(*norm), 0, features.scalar_type());
    auto result = ops::sparse_convolution(features, layer.weight, indices).add_(layer.bias);
    if (added.defined()) result += added;
    return result.relu_();
  }
  const auto rows = normalise(norm, ops::sparse_convolution(features, conv.weight, indices));
  return torch::relu(added.defined() ? rows + added : rows);
}

class SparseBlockImpl : public torch::nn::Module {
 public:
  explicit SparseBlockImpl(std::int64_t channels) {
    conv1_ = register_module("conv1", SparseWeight(channels, channels, kSubmanifold.size));
    bn1_ = register_module("bn1", site_norm(channels));
    conv2_ = register_module("conv2", SparseWeight(channels, channels, kSubmanifold.size));
    bn2_ = register_module("bn2", site_norm(channels));
  }
  torch::Tensor forward(const torch::Tensor& features, const ops::SparseIndices& indices) {
    const auto inner = sparse_layer(*conv1_, bn1_, folded1_, features, indices);
    return sparse_layer(*conv2_, bn2_, folded2_, inner, indices, features);
  }

 private:
  SparseWeight conv1_{nullptr}, conv2_{nullptr};
  nn::BatchNorm1d bn1_{nullptr}, bn2_{nullptr};
  FoldedNorm folded1_, folded2_;
};

ops::GridShape shape_after(const ops::GridShape& shape, const ops::SparseKernel& kernel) {
  ops::GridShape result{};
  for (std::size_t axis = 0; axis < 3; ++axis)
    result[axis] = (shape[axis] + 2 * kernel.padding[axis] - kernel.size[axis]) / kernel.stride[axis] + 1;
  return result;
}

// A container of others, which gives them their names.
class GroupImpl : public torch::nn::Module {};

}  // namespace

SparseWeightImpl::SparseWeightImpl(std::int64_t inputs, std::int64_t outputs, const ops::GridShape& kernel) {
  weight = register_parameter("weight", torch::zeros({outputs, kernel[0], kernel[1], kernel[2], inputs}));
}

SparseUnitImpl::SparseUnitImpl(std::int64_t inputs, std::int64_t outputs, const ops::GridShape& kernel) {
  conv_ = register_module("0", SparseWeight(inputs, outputs, kernel));
  norm_ = register_module("1", site_norm(outputs));
}

torch::Tensor SparseUnitImpl::forward(const torch::Tensor& features, const ops::SparseIndices& indices) {
  return sparse_layer(*conv_, norm_, folded_, features, indices);
}

SparseEncoderImpl::SparseEncoderImpl(SparseEncoderOptions options) : options_(std::move(options)) {
  const auto& widths = options_.channels;
  conv_input_ = register_module("conv_input", SparseUnit(options_.inputs, widths[0], kSubmanifold.size));
  const auto layers = register_module("encoder_layers", std::make_shared<GroupImpl>());
  for (std::size_t stage = 0; stage < widths.size(); ++stage) {
    const auto layer =
        layers->register_module("encoder_layer" + std::to_string(stage + 1), std::make_shared<GroupImpl>());
    for (const char* name : {"0", "1"})
      blocks_.push_back(layer->register_module(name, std::make_shared<SparseBlockImpl>(widths[stage])));
    if (stage + 1 < widths.size())
      downsamplings_.emplace_back(
          layer->register_module("2", SparseUnit(widths[stage], widths[stage + 1], kDownsampling[stage].size)));
  }
  conv_out_ = register_module("conv_out", SparseUnit(widths.back(), options_.outputs, kOutput.size));
}

ops::GridShape SparseEncoderImpl::output_shape(const ops::GridShape& shape) {
  auto result = shape;
  for (const auto& kernel : kDownsampling) result = shape_after(result, kernel);
  return shape_after(result, kOutput);
}

torch::Tensor SparseEncoderImpl::forward(const torch::Tensor& features, const torch::Tensor& coordinates,
                                         std::int64_t clouds, SparseStages* stages) {
  SparseMap map{features, coordinates, options_.shape};
  const auto record = [&](const std::string& name) {
    if (stages != nullptr) stages->emplace_back(name, map);
  };
  const auto move_to = [&](SparseUnit& unit, const ops::SparseKernel& kernel) {
    const auto indices = ops::build_sparse_indices(map.coordinates, map.shape, clouds, kernel);
    map = {unit->forward(map.features, indices), indices.coordinates, indices.spatial_shape};
  };
  for (std::size_t stage = 0; stage < options_.channels.size(); ++stage) {
    const std::string name = "encoder_layer" + std::to_string(stage + 1) + ".";
    const auto indices = ops::build_sparse_indices(map.coordinates, map.shape, clouds, kSubmanifold);
    if (stage == 0) {
      map.features = conv_input_->forward(map.features, indices);
      if (options_.bfloat16) map.features = map.features.to(torch::kBFloat16);
      record("conv_input");
    }
    for (const std::size_t block : {std::size_t{0}, std::size_t{1}}) {
      map.features =
          std::static_pointer_cast<SparseBlockImpl>(blocks_[2 * stage + block])->forward(map.features, indices);
      record(name + std::to_string(block));
    }
    if (stage + 1 == options_.channels.size()) break;
    move_to(downsamplings_[stage], kDownsampling[stage]);
    record(name + "2");
  }
  move_to(conv_out_, kOutput);
  record("conv_out");
  return to_dense(map, clouds);
}

torch::Tensor to_dense(const SparseMap& map, std::int64_t clouds) {
  const auto [heights, rows, columns] = map.shape;
  const auto at = map.coordinates.to(torch::kLong);
  const auto linear =
      ((at.select(1, 0) * heights + at.select(1, 1)) * rows + at.select(1, 2)) * columns + at.select(1, 3);
  const std::int64_t channels = map.features.size(1);
  return torch::zeros({clouds * heights * rows * columns, channels}, map.features.options().requires_grad(false))
      .index_copy(0, linear, map.features)
      .view({clouds, heights, rows, columns, channels})
      .permute({0, 4, 1, 2, 3})
      .flatten(1, 2);
}

}  // namespace camber::detection::cmt
