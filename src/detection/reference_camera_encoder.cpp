#include <array>

#include <torch/nn/modules/conv.h>

#include "detection/encoders.h"
#include "detection/resnet.h"

namespace camber::detection {
namespace {

// A pyramid of two levels of which the finer one is used: no norm, no activation.
class NeckImpl : public torch::nn::Module {
 public:
  explicit NeckImpl(std::int64_t channels) {
    near_ = register_module("near", torch::nn::Conv2d(torch::nn::Conv2dOptions(1024, channels, 1)));
    far_ = register_module("far", torch::nn::Conv2d(torch::nn::Conv2dOptions(2048, channels, 1)));
    out_ = register_module("out", torch::nn::Conv2d(torch::nn::Conv2dOptions(channels, channels, 3).padding(1)));
  }
  torch::Tensor forward(const std::array<torch::Tensor, 2>& levels) {
    return layers_.join(levels, *near_, *far_, *out_);
  }

 private:
  torch::nn::Conv2d near_{nullptr}, far_{nullptr}, out_{nullptr};
  NeckLayers layers_;
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
    return encode_images(*this, normal, [&](const auto& part) { return neck_->forward(backbone_->forward(part)); });
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
