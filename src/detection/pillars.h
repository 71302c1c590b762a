#pragma once
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include "camber/detection/cmt_head.h"
#include "camber/detection/detector_options.h"

namespace camber::detection {

/// Numbers that describe a point to the pillars: position in the cell (2), height twice (the second four times as
/// steep), intensity, position in the space (2), time lag.
inline constexpr std::int64_t kPointFeatures = 8;

/// points [N, 5] with their pillar. point_offsets [B + 1] tells whose they are; `elements` [E] which batch elements
/// take part, renumbered 0 .. E - 1. With split_lag > 0 a pillar is two cells, the second for points older than that.
GroupedPoints pillar_points(const torch::Tensor& points, const torch::Tensor& point_offsets,
                            const torch::Tensor& elements, const SpaceOptions& space, double split_lag = 0);

/// The largest of each channel over the points of a cell, 0 in cells without any (values must not be negative), and
/// ln(1 + number of points) as a last channel: values [n, C], cell [n] -> [cells, C + 1]. The gradient goes to the
/// first of the largest.
torch::Tensor scatter_max(const torch::Tensor& values, const torch::Tensor& cell, std::int64_t cells);

/// Points to an image of pillars [E, width + 1, rows, columns], channels last in memory; with two maps twice the
/// channels, those of the earlier sweeps last.
class PillarEncoderImpl : public torch::nn::Module {
 public:
  PillarEncoderImpl(const SpaceOptions& space, std::int64_t width, std::int64_t maps = 1);
  torch::Tensor forward(const GroupedPoints& pillars, std::int64_t clouds);

 private:
  SpaceOptions space_;
  std::int64_t width_, maps_;
  torch::nn::Linear linear_{nullptr};
};
TORCH_MODULE(PillarEncoder);

}  // namespace camber::detection
