#pragma once
#include <string>
#include <vector>

#include <camber/health/sample.h>
#include <camber/ops/biased_attention.h>
#include <camber/train/reachable_range.h>
#include <camber/train/scale_projector.h>

#include <torch/types.h>

namespace camber::train {

/// Makes the health room's plain numbers from tensors, and keeps what they point to.
///
///   HealthAdapter adapter(step);
///   adapter.add_scales(projector, reaches);
///   adapter.add_attention("layer0", statistics, {"lidar", "camera", "camera"});
///   adapter.add_trust("lidar", trust.select(-1, 0), /*learned=*/true);
///   HealthReport report = monitor.observe(adapter.sample());
class HealthAdapter {
 public:
  explicit HealthAdapter(std::int64_t step) { sample_.step = step; }

  /// Every scale, element by element, with the gradients that are there now. `reaches` (TrainingLoop::reaches) stand in
  /// the projector's order and tell where the scales began, too; empty: not known, and they began at init.
  void add_scales(const ScaleProjector& projector, const std::vector<ReachableRange>& reaches = {});
  /// Row statistics [B, H, Q] of one attention; `segments` names its segments where they have a mass.
  void add_attention(const std::string& name, const ops::AttentionStatistics& statistics,
                     const std::vector<std::string>& segments = {});
  void add_bias(const std::string& name, const torch::Tensor& value);
  void add_trust(const std::string& name, const torch::Tensor& weight, bool learned);
  /// How far the sensors of each frame agree; NaN where it is not known.
  void add_agreement(const torch::Tensor& by_frame);

  health::HealthSample& sample() { return sample_; }

 private:
  std::span<const float> keep(const torch::Tensor& tensor);

  health::HealthSample sample_;
  std::vector<torch::Tensor> kept_;
};

}  // namespace camber::train
