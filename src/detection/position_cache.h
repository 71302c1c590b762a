#pragma once
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include <torch/types.h>

#include "camber/nn/query_projection.h"

namespace camber::detection {

/// Embeddings of keys by calibration, for many threads.
class PositionCache {
 public:
  torch::Tensor get(const nn::SensorScene& scene, torch::Device device, const std::function<torch::Tensor()>& compute);
  void clear();

 private:
  static constexpr std::size_t kCalibrations = 16;
  std::mutex mutex_;
  std::map<std::string, torch::Tensor> known_;
};

}  // namespace camber::detection
