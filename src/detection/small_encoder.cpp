#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>

#include "camber/detection/box_coding.h"
#include "detection/convolution_block.h"
#include "detection/encoders.h"
#include "detection/pillars.h"

namespace camber::detection {
namespace {

constexpr std::int64_t kMotionWidth = 48;

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
  explicit SmallLidarEncoder(const DetectorOptions& options)
      : PillarLidarEncoderImpl(options.space, options.encoder.split_lag) {
    const std::int64_t narrow = options.encoder.pillar_width, wide = options.encoder.bev_channels;
    const std::int64_t maps = options.encoder.split_lag > 0 ? 2 : 1;
    pillars_ = register_module("pillars", PillarEncoder(options.space, narrow, maps));
    blocks_ = register_module(
        "blocks", torch::nn::Sequential(small_block(maps * (narrow + 1), narrow, 1), small_block(narrow, wide, 2),
                                        small_block(wide, wide, 1), small_block(wide, wide, 1), pointwise(wide, wide)));
    // Apart from the rest: what tells motions apart is another thing than what tells objects apart, and on shared
    // convolutions each was learned at the other's cost.
    if (options.head.dense_motion)
      motion_ = register_module("motion", torch::nn::Sequential(small_block(maps * (narrow + 1), narrow, 2),
                                                                small_block(narrow, kMotionWidth, 1),
                                                                small_block(kMotionWidth, kMotionWidth, 1),
                                                                pointwise(kMotionWidth, kCodeSize - kHeadingIndex)));
  }
  torch::Tensor forward(const GroupedPoints& pillars, std::int64_t clouds) override {
    const auto map = pillars_->forward(pillars, clouds);
    const auto content = blocks_->forward(map);
    return motion_.is_empty() ? content : torch::cat({content, motion_->forward(map)}, 1);
  }

 private:
  PillarEncoder pillars_{nullptr};
  torch::nn::Sequential blocks_{nullptr}, motion_{nullptr};
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
