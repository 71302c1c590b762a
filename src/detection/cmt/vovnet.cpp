#include "detection/cmt/vovnet.h"

#include <deque>
#include <string>
#include <vector>

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/pooling.h>

#include "camber/nn/batch_norm.h"
#include "detection/resnet.h"

namespace camber::detection::cmt {
namespace {

// "<name>/conv", "<name>/norm", "<name>/relu".
void add_convolution(torch::nn::Sequential& to, const std::string& name, std::int64_t inputs, std::int64_t outputs,
                     std::int64_t size, std::int64_t stride) {
  to->push_back(
      name + "/conv",
      torch::nn::Conv2d(torch::nn::Conv2dOptions(inputs, outputs, size).stride(stride).padding(size / 2).bias(false)));
  to->push_back(name + "/norm", nn::BatchNorm2d(outputs));
  to->push_back(name + "/relu", torch::nn::ReLU(torch::nn::ReLUOptions(/*inplace=*/true)));
}

torch::nn::Sequential convolution_named(const std::string& name, std::int64_t inputs, std::int64_t outputs,
                                        std::int64_t size) {
  torch::nn::Sequential result;
  add_convolution(result, name, inputs, outputs, size, 1);
  return result;
}

// Layer i of a container of "<name>/conv", "<name>/norm", "<name>/relu".
torch::Tensor layer_of(const torch::nn::SequentialImpl& layers, std::size_t i, NormedConvolution& layer,
                       const torch::Tensor& input) {
  return layer(*layers[3 * i]->as<torch::nn::Conv2d>(), *layers[3 * i + 1]->as<nn::BatchNorm2d>(), input);
}

class SqueezeExcitationImpl : public torch::nn::Module {
 public:
  explicit SqueezeExcitationImpl(std::int64_t channels) {
    fc_ = register_module("fc", torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, channels, 1)));
  }
  torch::Tensor forward(const torch::Tensor& input) {
    return input * torch::hardsigmoid(layer_(*fc_, input.mean({2, 3}, /*keepdim=*/true)));
  }

 private:
  torch::nn::Conv2d fc_{nullptr};
  NormedConvolution layer_;
};
TORCH_MODULE(SqueezeExcitation);

class AggregationBlockImpl : public torch::nn::Module {
 public:
  AggregationBlockImpl(const std::string& name, std::int64_t inputs, std::int64_t inner, std::int64_t outputs,
                       std::int64_t convolutions, bool residual)
      : residual_(residual) {
    layers_ = register_module("layers", torch::nn::ModuleList());
    std::int64_t channels = inputs;
    for (std::int64_t i = 0; i < convolutions; ++i) {
      layers_->push_back(convolution_named(name + "_" + std::to_string(i), channels, inner, 3));
      channels = inner;
    }
    normed_.resize(layers_->size());
    concat_ = register_module("concat", convolution_named(name + "_concat", inputs + convolutions * inner, outputs, 1));
    ese_ = register_module("ese", SqueezeExcitation(outputs));
  }
  torch::Tensor forward(const torch::Tensor& input) {
    std::vector<torch::Tensor> all{input};
    for (std::size_t i = 0; i < normed_.size(); ++i)
      all.push_back(layer_of(*layers_[i]->as<torch::nn::Sequential>(), 0, normed_[i], all.back()));
    const auto joined = ese_->forward(layer_of(*concat_, 0, concat_layer_, torch::cat(all, 1)));
    return residual_ ? joined + input : joined;
  }

 private:
  bool residual_;
  torch::nn::ModuleList layers_{nullptr};
  torch::nn::Sequential concat_{nullptr};
  SqueezeExcitation ese_{nullptr};
  std::deque<NormedConvolution> normed_;
  NormedConvolution concat_layer_;
};
TORCH_MODULE(AggregationBlock);

}  // namespace

VovNetImpl::VovNetImpl(const VovNetShape& shape) {
  torch::nn::Sequential stem;
  add_convolution(stem, "stem_1", 3, shape.stem[0], 3, 2);
  add_convolution(stem, "stem_2", shape.stem[0], shape.stem[1], 3, 1);
  add_convolution(stem, "stem_3", shape.stem[1], shape.stem[2], 3, 2);
  stem_ = register_module("stem", stem);
  std::int64_t channels = shape.stem[2];
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const std::string number = std::to_string(i + 2);  // the original counts the stem as stage 1
    torch::nn::Sequential stage;
    if (i > 0)
      stage->push_back("Pooling", torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(3).stride(2).ceil_mode(true)));
    for (std::int64_t block = 0; block < shape.blocks[i]; ++block) {
      const std::string name = "OSA" + number + "_" + std::to_string(block + 1);
      stage->push_back(std::string(name), AggregationBlock(name, channels, shape.inner[i], shape.outputs[i],
                                                           shape.convolutions, block > 0));
      channels = shape.outputs[i];
    }
    stages_[i] = register_module("stage" + number, stage);
  }
}

void VovNetImpl::train(bool on) {
  torch::nn::Module::train(on);
  freeze_norms(*this);
}

std::array<torch::Tensor, 2> VovNetImpl::forward(const torch::Tensor& images) {
  auto state = images;
  for (std::size_t i = 0; i < stem_layers_.size(); ++i) state = layer_of(*stem_, i, stem_layers_[i], state);
  state = stages_[1]->forward(stages_[0]->forward(state));
  const auto near = stages_[2]->forward(state);
  return {near, stages_[3]->forward<torch::Tensor>(near)};
}

}  // namespace camber::detection::cmt
