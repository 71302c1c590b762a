#include <array>

#include <torch/nn/functional/pooling.h>
#include <torch/nn/functional/upsampling.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>

#include "detection/encoders.h"

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
  BottleneckImpl(std::int64_t inputs, std::int64_t inner, std::int64_t stride) {
    conv1_ = register_module("conv1", convolution(inputs, inner, 1, 1));
    bn1_ = register_module("bn1", torch::nn::BatchNorm2d(inner));
    conv2_ = register_module("conv2", convolution(inner, inner, 3, stride));
    bn2_ = register_module("bn2", torch::nn::BatchNorm2d(inner));
    conv3_ = register_module("conv3", convolution(inner, kExpansion * inner, 1, 1));
    bn3_ = register_module("bn3", torch::nn::BatchNorm2d(kExpansion * inner));
    if (stride != 1 || inputs != kExpansion * inner)
      downsample_ =
          register_module("downsample", torch::nn::Sequential(convolution(inputs, kExpansion * inner, 1, stride),
                                                              torch::nn::BatchNorm2d(kExpansion * inner)));
  }

  torch::Tensor forward(const torch::Tensor& input) {
    auto state = bn1_->forward(conv1_->forward(input)).relu_();
    state = bn2_->forward(conv2_->forward(state)).relu_();
    state = bn3_->forward(conv3_->forward(state));
    return (state + (downsample_ ? downsample_->forward(input) : input)).relu_();
  }

 private:
  torch::nn::Conv2d conv1_{nullptr}, conv2_{nullptr}, conv3_{nullptr};
  torch::nn::BatchNorm2d bn1_{nullptr}, bn2_{nullptr}, bn3_{nullptr};
  torch::nn::Sequential downsample_{nullptr};
};
TORCH_MODULE(Bottleneck);

// The last two stages of ResNet-50, strides 16 and 32.
class ResNet50Impl : public torch::nn::Module {
 public:
  ResNet50Impl() {
    conv1_ = register_module("conv1",
                             torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 64, 7).stride(2).padding(3).bias(false)));
    bn1_ = register_module("bn1", torch::nn::BatchNorm2d(64));
    constexpr std::array<std::int64_t, 4> blocks = {3, 4, 6, 3};
    std::int64_t inputs = 64;
    for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
      const std::int64_t inner = std::int64_t{64} << stage;
      torch::nn::Sequential layer;
      for (std::int64_t i = 0; i < blocks[stage]; ++i) {
        layer->push_back(Bottleneck(inputs, inner, i == 0 && stage > 0 ? 2 : 1));
        inputs = kExpansion * inner;
      }
      stages_[stage] = register_module("layer" + std::to_string(stage + 1), layer);
    }
  }

  // Norms keep the statistics that they were given.
  void train(bool on) override {
    torch::nn::Module::train(on);
    for (const auto& module : modules(false))
      if (auto* norm = module->as<torch::nn::BatchNorm2d>()) norm->eval();
  }

  std::array<torch::Tensor, 2> forward(const torch::Tensor& images) {
    auto state = bn1_->forward(conv1_->forward(images)).relu_();
    state =
        torch::nn::functional::max_pool2d(state, torch::nn::functional::MaxPool2dFuncOptions(3).stride(2).padding(1));
    state = stages_[1]->forward(stages_[0]->forward(state));
    const auto near = stages_[2]->forward(state);
    return {near, stages_[3]->forward<torch::Tensor>(near)};
  }

 private:
  torch::nn::Conv2d conv1_{nullptr};
  torch::nn::BatchNorm2d bn1_{nullptr};
  std::array<torch::nn::Sequential, 4> stages_{nullptr, nullptr, nullptr, nullptr};
};
TORCH_MODULE(ResNet50);

// A pyramid of two levels of which the finer one is used: no norm, no activation.
class NeckImpl : public torch::nn::Module {
 public:
  explicit NeckImpl(std::int64_t channels) {
    near_ = register_module("near", torch::nn::Conv2d(torch::nn::Conv2dOptions(1024, channels, 1)));
    far_ = register_module("far", torch::nn::Conv2d(torch::nn::Conv2dOptions(2048, channels, 1)));
    out_ = register_module("out", torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, channels, 3).padding(1)));
  }
  torch::Tensor forward(const std::array<torch::Tensor, 2>& levels) {
    const auto near = near_->forward(levels[0]), far = far_->forward(levels[1]);
    const auto raised =
        torch::nn::functional::interpolate(far, torch::nn::functional::InterpolateFuncOptions()
                                                    .size(std::vector<std::int64_t>{near.size(2), near.size(3)})
                                                    .mode(torch::kNearest));
    return out_->forward(near + raised);
  }

 private:
  torch::nn::Conv2d near_{nullptr}, far_{nullptr}, out_{nullptr};
};
TORCH_MODULE(Neck);

class ReferenceCameraEncoder : public CameraEncoderImpl {
 public:
  explicit ReferenceCameraEncoder(const DetectorOptions& options) {
    backbone_ = register_module("backbone", ResNet50());
    neck_ = register_module("neck", Neck(options.encoder.camera_channels));
    // Red, green, blue in 0..1, as torchvision's weights expect them.
    mean_ = register_buffer("mean", torch::tensor({0.485F, 0.456F, 0.406F}).view({1, 3, 1, 1}));
    deviation_ = register_buffer("deviation", torch::tensor({0.229F, 0.224F, 0.225F}).view({1, 3, 1, 1}));
  }
  torch::Tensor forward(const torch::Tensor& images) override {
    const auto normal = ((images - mean_) / deviation_).contiguous(torch::MemoryFormat::ChannelsLast);
    return neck_->forward(backbone_->forward(normal));
  }

 private:
  ResNet50 backbone_{nullptr};
  Neck neck_{nullptr};
  torch::Tensor mean_, deviation_;
};

}  // namespace

std::shared_ptr<CameraEncoderImpl> make_reference_camera_encoder(const DetectorOptions& options) {
  return std::make_shared<ReferenceCameraEncoder>(options);
}

}  // namespace camber::detection
