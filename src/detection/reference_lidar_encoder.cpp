#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>

#include "detection/convolution_block.h"
#include "detection/encoders.h"
#include "detection/pillars.h"

namespace camber::detection {
namespace {

constexpr std::int64_t kFirst = 128, kSecond = 256, kJoined = 256, kConvolutions = 5;

torch::nn::BatchNorm2dOptions norm_options(std::int64_t channels) {
  return torch::nn::BatchNorm2dOptions(channels).eps(1e-3).momentum(0.01);
}

ConvolutionBlock reference_convolution(std::int64_t inputs, std::int64_t outputs, std::int64_t size,
                                       std::int64_t stride) {
  return ConvolutionBlock(inputs, size, stride, norm_options(outputs));
}

// One convolution with a stride, then five without.
torch::nn::Sequential block(std::int64_t inputs, std::int64_t outputs) {
  torch::nn::Sequential result;
  result->push_back(reference_convolution(inputs, outputs, 3, 2));
  for (std::int64_t i = 0; i < kConvolutions; ++i) result->push_back(reference_convolution(outputs, outputs, 3, 1));
  return result;
}

class ReferenceLidarEncoder : public PillarLidarEncoderImpl {
 public:
  explicit ReferenceLidarEncoder(const DetectorOptions& options) : PillarLidarEncoderImpl(options.space) {
    TORCH_CHECK_VALUE(options.encoder.bev_channels == 2 * kJoined,
                      "[Detector] encoder.bev_channels must be 512 for the reference encoder, got ",
                      options.encoder.bev_channels);
    pillars_ = register_module("pillars", PillarEncoder(options.space, options.encoder.pillar_width));
    first_ = register_module("first", block(options.encoder.pillar_width + 1, kFirst));
    second_ = register_module("second", block(kFirst, kSecond));
    join_first_ = register_module("join_first", reference_convolution(kFirst, kJoined, 1, 1));
    join_second_ = register_module(
        "join_second",
        torch::nn::ConvTranspose2d(torch::nn::ConvTranspose2dOptions(kSecond, kJoined, 2).stride(2).bias(false)));
    join_norm_ = register_module("join_norm", nn::BatchNorm2d(norm_options(kJoined)));
  }

  torch::Tensor forward(const GroupedPoints& pillars, std::int64_t clouds) override {
    const auto near = first_->forward(pillars_->forward(pillars, clouds));
    const auto far = second_->forward(near);
    const auto raised = join_norm_->forward(join_second_->forward(far)).relu_();
    return torch::cat({join_first_->forward(near), raised}, 1);
  }

 private:
  PillarEncoder pillars_{nullptr};
  torch::nn::Sequential first_{nullptr}, second_{nullptr};
  ConvolutionBlock join_first_{nullptr};
  torch::nn::ConvTranspose2d join_second_{nullptr};
  nn::BatchNorm2d join_norm_{nullptr};
};

}  // namespace

std::shared_ptr<LidarEncoderImpl> make_reference_lidar_encoder(const DetectorOptions& options) {
  return std::make_shared<ReferenceLidarEncoder>(options);
}

}  // namespace camber::detection
