#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>

#include "detection/convolution_block.h"
#include "detection/encoders.h"
#include "detection/pillars.h"

namespace camber::detection {
namespace {

void put_channels_last(torch::nn::Conv2d& conv) {
  conv->weight.set_data(conv->weight.data().to(torch::MemoryFormat::ChannelsLast));
}

ConvolutionBlock small_block(std::int64_t inputs, std::int64_t outputs, std::int64_t stride, std::int64_t size = 3) {
  ConvolutionBlock result(inputs, size, stride, torch::nn::BatchNorm2dOptions(outputs));
  put_channels_last(result->convolution());
  return result;
}

torch::nn::Conv2d pointwise(std::int64_t inputs, std::int64_t outputs) {
  torch::nn::Conv2d conv(torch::nn::Conv2dOptions(inputs, outputs, 1));
  put_channels_last(conv);
  return conv;
}

class SmallLidarEncoder : public PillarLidarEncoderImpl {
 public:
  explicit SmallLidarEncoder(const DetectorOptions& options) : PillarLidarEncoderImpl(options.space) {
    const std::int64_t narrow = options.encoder.pillar_width, wide = options.encoder.bev_channels;
    pillars_ = register_module("pillars", PillarEncoder(options.space, narrow));
    blocks_ = register_module(
        "blocks", torch::nn::Sequential(small_block(narrow + 1, narrow, 1), small_block(narrow, wide, 2),
                                        small_block(wide, wide, 1), small_block(wide, wide, 1), pointwise(wide, wide)));
  }
  torch::Tensor forward(const GroupedPoints& pillars, std::int64_t clouds) override {
    return blocks_->forward(pillars_->forward(pillars, clouds));
  }

 private:
  PillarEncoder pillars_{nullptr};
  torch::nn::Sequential blocks_{nullptr};
};

class SmallCameraEncoder : public CameraEncoderImpl {
 public:
  explicit SmallCameraEncoder(const DetectorOptions& options) {
    const std::int64_t wide = options.encoder.camera_channels;
    blocks_ = register_module(
        "blocks", torch::nn::Sequential(small_block(3, 24, 2, 5), small_block(24, 32, 2), small_block(32, 32, 1),
                                        small_block(32, wide, 2), small_block(wide, wide, 1), pointwise(wide, wide)));
  }
  torch::Tensor forward(const torch::Tensor& images) override {
    return blocks_->forward((images - 0.5).contiguous(torch::MemoryFormat::ChannelsLast));
  }

 private:
  torch::nn::Sequential blocks_{nullptr};
};

}  // namespace

std::shared_ptr<LidarEncoderImpl> make_small_lidar_encoder(const DetectorOptions& options) {
  return std::make_shared<SmallLidarEncoder>(options);
}

std::shared_ptr<CameraEncoderImpl> make_small_camera_encoder(const DetectorOptions& options) {
  return std::make_shared<SmallCameraEncoder>(options);
}

}  // namespace camber::detection
