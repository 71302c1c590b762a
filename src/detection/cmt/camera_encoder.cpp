#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/conv.h>

#include "detection/cmt/vovnet.h"
#include "detection/encoders.h"
#include "detection/resnet.h"

namespace camber::detection {
namespace {

// Holds a convolution under the name that mmcv's ConvModule gives it.
class ConvModuleImpl : public torch::nn::Module {
 public:
  explicit ConvModuleImpl(const torch::nn::Conv2dOptions& options) {
    conv = register_module("conv", torch::nn::Conv2d(options));
  }
  torch::nn::Conv2d conv{nullptr};
};
TORCH_MODULE(ConvModule);

// CMT's CPFPN: level 1 of its output is looked at by nobody and has no convolution of its own.
class CpfpnImpl : public torch::nn::Module {
 public:
  CpfpnImpl(const std::array<std::int64_t, 2>& inputs, std::int64_t channels) {
    laterals_ = register_module("lateral_convs", torch::nn::ModuleList());
    for (const std::int64_t width : inputs)
      laterals_->push_back(ConvModule(torch::nn::Conv2dOptions(width, channels, 1)));
    outputs_ = register_module("fpn_convs", torch::nn::ModuleList());
    outputs_->push_back(ConvModule(torch::nn::Conv2dOptions(channels, channels, 3).padding(1)));
  }
  torch::Tensor forward(const std::array<torch::Tensor, 2>& levels) {
    return layers_.join(levels, *laterals_[0]->as<ConvModule>()->conv, *laterals_[1]->as<ConvModule>()->conv,
                        *outputs_[0]->as<ConvModule>()->conv);
  }

 private:
  torch::nn::ModuleList laterals_{nullptr}, outputs_{nullptr};
  NeckLayers layers_;
};
TORCH_MODULE(Cpfpn);

class CmtCameraEncoder : public CameraEncoderImpl {
 public:
  explicit CmtCameraEncoder(const DetectorOptions& options) {
    const auto& wanted = options.encoder.cmt;
    std::array<std::int64_t, 2> widths{16 * wanted.backbone_width, 32 * wanted.backbone_width};
    if (wanted.backbone == ImageBackbone::kVovNet99) {
      const cmt::VovNetShape shape;
      vovnet_ = register_module("img_backbone", cmt::VovNet(shape));
      widths = {shape.outputs[2], shape.outputs[3]};
    } else {
      resnet_ = register_module("img_backbone", ResNet50(wanted.stem_width, wanted.backbone_width));
    }
    neck_ = register_module("img_neck", Cpfpn(widths, options.encoder.camera_channels));
  }
  torch::Tensor forward(const torch::Tensor& images) override {
    const auto dense = images.contiguous(torch::MemoryFormat::ChannelsLast);
    return encode_images(*this, dense, [this](const torch::Tensor& part) {
      return neck_->forward(vovnet_ ? vovnet_->forward(part) : resnet_->forward(part));
    });
  }

 private:
  ResNet50 resnet_{nullptr};
  cmt::VovNet vovnet_{nullptr};
  Cpfpn neck_{nullptr};
};

}  // namespace

std::shared_ptr<CameraEncoderImpl> make_cmt_camera_encoder(const DetectorOptions& options) {
  return std::make_shared<CmtCameraEncoder>(options);
}

}  // namespace camber::detection
