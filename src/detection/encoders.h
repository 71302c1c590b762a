#pragma once
#include <cstdint>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "camber/detection/detector_options.h"
#include "detection/pillars.h"

namespace camber::detection {

/// From points to a bird's-eye map.
class LidarEncoderImpl : public torch::nn::Module {
 public:
  ~LidarEncoderImpl() override = default;
  /// The points of the clouds `elements` [E] (of which point_offsets [B + 1] tells them apart), in their cells.
  virtual GroupedPoints group(const torch::Tensor& points, const torch::Tensor& point_offsets,
                              const torch::Tensor& elements) const = 0;
  /// Those of E clouds -> [E, bev_channels, rows, columns] on the grid of the keys.
  virtual torch::Tensor forward(const GroupedPoints& points, std::int64_t clouds) = 0;
};

/// One that starts from pillars.
class PillarLidarEncoderImpl : public LidarEncoderImpl {
 public:
  explicit PillarLidarEncoderImpl(const SpaceOptions& space, double split_lag = 0)
      : space_(space), split_lag_(split_lag) {}
  GroupedPoints group(const torch::Tensor& points, const torch::Tensor& point_offsets,
                      const torch::Tensor& elements) const final {
    return pillar_points(points, point_offsets, elements, space_, split_lag_);
  }

 private:
  SpaceOptions space_;
  double split_lag_;
};

/// From images [n, 3, H, W] as DetectorBatch holds them to maps [n, camera_channels, H / stride, W / stride].
class CameraEncoderImpl : public torch::nn::Module {
 public:
  ~CameraEncoderImpl() override = default;
  virtual torch::Tensor forward(const torch::Tensor& images) = 0;
};

std::shared_ptr<LidarEncoderImpl> make_small_lidar_encoder(const DetectorOptions& options);
std::shared_ptr<CameraEncoderImpl> make_small_camera_encoder(const DetectorOptions& options);
/// Pillars, a SECOND-like backbone of two blocks, and a pyramid that joins them: 512 channels.
std::shared_ptr<LidarEncoderImpl> make_reference_lidar_encoder(const DetectorOptions& options);
/// ResNet-50 (parameters named as torchvision's, norms frozen) and a pyramid neck at stride 16.
std::shared_ptr<CameraEncoderImpl> make_reference_camera_encoder(const DetectorOptions& options);

/// CMT's own encoders (camber/detection/cmt_encoder_options.h). Below "lidar_encoder." and "camera_encoder." their
/// parameters carry the original's names.
std::shared_ptr<LidarEncoderImpl> make_cmt_lidar_encoder(const DetectorOptions& options);
std::shared_ptr<CameraEncoderImpl> make_cmt_camera_encoder(const DetectorOptions& options);

}  // namespace camber::detection
