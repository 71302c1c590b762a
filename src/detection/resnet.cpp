#include "detection/resnet.h"

#include <torch/nn/functional/pooling.h>
#include <torch/nn/functional/upsampling.h>

namespace camber::detection {
namespace {

constexpr std::int64_t kExpansion = 4;

torch::nn::Conv2d convolution(std::int64_t inputs, std::int64_t outputs, std::int64_t size, std::int64_t stride) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(inputs, outputs, size).stride(stride).padding(size / 2).bias(false));
}

// ResNet's block with the stride in its 3x3 convolution; names as in torchvision.
class BottleneckImpl : public torch::nn::Module {
 public:
  // `first` of its stage: others may look at its input too.
  BottleneckImpl(std::int64_t inputs, std::int64_t inner, std::int64_t stride, bool first) : first_(first) {
    conv1_ = register_module("conv1", convolution(inputs, inner, 1, 1));
    bn1_ = register_module("bn1", nn::BatchNorm2d(inner));
    conv2_ = register_module("conv2", convolution(inner, inner, 3, stride));
    bn2_ = register_module("bn2", nn::BatchNorm2d(inner));
    conv3_ = register_module("conv3", convolution(inner, kExpansion * inner, 1, 1));
    bn3_ = register_module("bn3", nn::BatchNorm2d(kExpansion * inner));
    if (stride != 1 || inputs != kExpansion * inner)
      downsample_ =
          register_module("downsample", torch::nn::Sequential(convolution(inputs, kExpansion * inner, 1, stride),
                                                              nn::BatchNorm2d(kExpansion * inner)));
  }

  torch::Tensor forward(const torch::Tensor& input) {
    const auto state = layer2_(*conv2_, *bn2_, layer1_(*conv1_, *bn1_, input));
    if (!downsample_) return layer3_(*conv3_, *bn3_, state, {.added = input, .overwrite_added = !first_});
    const auto shortcut = shortcut_(*downsample_[0]->as<torch::nn::Conv2d>(), *downsample_[1]->as<nn::BatchNorm2d>(),
                                    input, {Activation::kNone});
    return layer3_(*conv3_, *bn3_, state, {.added = shortcut, .overwrite_added = true});
  }

 private:
  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr}, conv3_{nullptr};
  nn::BatchNorm2d bn1_{nullptr}, bn2_{nullptr}, bn3_{nullptr};
  torch::nn::Sequential downsample_{nullptr};
  NormedConvolution layer1_, layer2_, layer3_, shortcut_;
  bool first_;
};
TORCH_MODULE(Bottleneck);

}  // namespace

void freeze_norms(torch::nn::Module& backbone) {
  for (const auto& module : backbone.modules(false))
    if (auto* norm = module->as<nn::BatchNorm2d>()) norm->eval();
}

ResNet50Impl::ResNet50Impl(std::int64_t stem, std::int64_t width) {
  conv1_ = register_module("conv1",
                           torch::nn::Conv2d(torch::nn::Conv2dOptions(3, stem, 7).stride(2).padding(3).bias(false)));
  bn1_ = register_module("bn1", nn::BatchNorm2d(stem));
  constexpr std::array<std::int64_t, 4> blocks = {3, 4, 6, 3};
  std::int64_t inputs = stem;
  for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
    const std::int64_t inner = width << stage;
    torch::nn::Sequential layer;
    for (std::int64_t i = 0; i < blocks[stage]; ++i) {
      layer->push_back(Bottleneck(inputs, inner, i == 0 && stage > 0 ? 2 : 1, i == 0));
      inputs = kExpansion * inner;
    }
    stages_[stage] = register_module("layer" + std::to_string(stage + 1), layer);
  }
}

void ResNet50Impl::train(bool on) {
  torch::nn::Module::train(on);
  freeze_norms(*this);
}

torch::Tensor ResNet50Impl::stem(const torch::Tensor& images) {
  const auto state = first_layer_(*conv1_, *bn1_, images);
  return torch::nn::functional::max_pool2d(state, torch::nn::functional::MaxPool2dFuncOptions(3).stride(2).padding(1));
}

std::array<torch::Tensor, 2> ResNet50Impl::forward(const torch::Tensor& images) {
  const auto state = stages_[1]->forward(stages_[0]->forward(stem(images)));
  const auto near = stages_[2]->forward(state);
  return {near, stages_[3]->forward<torch::Tensor>(near)};
}

torch::Tensor NeckLayers::join(const std::array<torch::Tensor, 2>& levels, torch::nn::Conv2dImpl& near,
                               torch::nn::Conv2dImpl& far, torch::nn::Conv2dImpl& out) {
  const auto finer = near_(near, levels[0]), coarser = far_(far, levels[1]);
  const auto raised =
      torch::nn::functional::interpolate(coarser, torch::nn::functional::InterpolateFuncOptions()
                                                      .size(std::vector<std::int64_t>{finer.size(2), finer.size(3)})
                                                      .mode(torch::kNearest));
  return out_(out, finer + raised);
}

}  // namespace camber::detection
