#pragma once
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "camber/detection/detector.h"
#include "detection/cmt_head.h"
#include "detection/encoders.h"

namespace camber::detection {

/// Embeddings of keys by calibration, for many threads.
class PositionCache {
 public:
  torch::Tensor get(const nn::SensorScene& scene, const std::function<torch::Tensor()>& compute);
  void clear();

 private:
  static constexpr std::size_t kCalibrations = 16;
  std::mutex mutex_;
  std::map<std::string, torch::Tensor> known_;
};

/// The modules of a detector.
struct DetectorImpl::Parts {
  std::shared_ptr<LidarEncoderImpl> lidar_encoder;  // null: features come from outside
  std::shared_ptr<CameraEncoderImpl> camera_encoder;
  CmtHead head{nullptr};
  std::unique_ptr<PositionCache> positions = std::make_unique<PositionCache>();
  std::int64_t channels = 0;  // of the camera maps
  SpaceOptions space{};

  /// The points of the clouds that are available, in their pillars.
  PillarPoints voxelise(const DetectorBatch& batch) const;
  /// Encodes what is available; the maps of absent sensors are zeros that no query sees.
  KeyMaps encode(const DetectorBatch& batch, const PillarPoints& pillars) const;
  /// Maps that other encoders made; refuses shapes that are not the options'.
  static KeyMaps given(const DetectorBatch& batch, const EncoderOptions& options);
};

}  // namespace camber::detection
