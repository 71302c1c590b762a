#pragma once
#include <cstdint>
#include <string>

#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

#include "camber/detection/detector_options.h"
#include "camber/nn/query_projection.h"

namespace camber::detection {

/// CMT's sines: positions [..., 2] = (x, y) in 0..1 -> [..., 2 N] with p = 2 pi pos, divisor_i = 2 floor(i / 2) / N +
/// 1, sin(p / divisor) at even and cos at odd indices; y's N numbers come first.
torch::Tensor pos2embed(const torch::Tensor& positions, std::int64_t count);

/// ln(x / (1 - x)) with both clamped to at least 1e-5.
torch::Tensor inverse_sigmoid(const torch::Tensor& value);

/// Positions of keys and queries as vectors that queries and keys compare.
class KeyPositionsImpl : public torch::nn::Module {
 public:
  ~KeyPositionsImpl() override = default;
  /// The starts that names alone do not tell; `prefix` is this module's name in the model.
  virtual void initialise(std::uint64_t /*seed*/, const std::string& /*prefix*/) {}
  /// [1 or B, K, C]: the grid's keys, then all cameras'.
  virtual torch::Tensor keys(const nn::SensorScene& scene, std::int64_t batch) = 0;
  /// Points [B, Q, 3] in metres -> [B, Q, C], differentiable in the points.
  virtual torch::Tensor queries(const torch::Tensor& points, const nn::SensorScene& scene) = 0;
};

/// CMT's: grid keys bev_embedding(pos2embed(cell centre as a share of the grid)); camera keys rv_embedding(points along
/// the ray through the cell's corner, over the space); a query gets the first of its position plus the second of the
/// pixels where cameras see it, summed over the cameras.
class CmtPositionsImpl : public KeyPositionsImpl {
 public:
  explicit CmtPositionsImpl(const DetectorOptions& options);
  torch::Tensor keys(const nn::SensorScene& scene, std::int64_t batch) override;
  torch::Tensor queries(const torch::Tensor& points, const nn::SensorScene& scene) override;

 private:
  torch::Tensor bev(const torch::Tensor& positions);
  /// Pixels [..., 3] = (u, v, w), w = 1 or nearly, of cameras with image_to_lidar [..., 4, 4] -> [..., C].
  torch::Tensor along_rays(const torch::Tensor& pixels, const torch::Tensor& image_to_lidar);

  SpaceOptions space_;
  std::int64_t width_, depths_;
  torch::nn::Linear bev_first_{nullptr}, bev_second_{nullptr}, rv_first_{nullptr}, rv_second_{nullptr};
};

/// Split channels: with S(x, y) the sines and cosines of x and y over geometric periods and R(ray) those of multiples
/// of azimuth and elevation, grid keys are (E_g S, 0), camera keys (0, E_r R) of the ray through the cell's centre,
/// queries (E_g S, E_r R) of the ray from the cameras that see them (from the origin where none does). E_g and E_r are
/// linear without bias, orthogonal times 2 at the start, so that a query looks at its own position before anything is
/// learned.
class SplitPositionsImpl : public KeyPositionsImpl {
 public:
  explicit SplitPositionsImpl(const DetectorOptions& options);
  void initialise(std::uint64_t seed, const std::string& prefix) override;
  torch::Tensor keys(const nn::SensorScene& scene, std::int64_t batch) override;
  torch::Tensor queries(const torch::Tensor& points, const nn::SensorScene& scene) override;

 private:
  torch::Tensor grid_part(const torch::Tensor& xy);
  torch::Tensor ray_part(const torch::Tensor& directions);

  SpaceOptions space_;
  std::int64_t half_;
  torch::Tensor frequencies_, azimuth_multiples_, elevation_multiples_;
  torch::nn::Linear grid_embedding_{nullptr}, ray_embedding_{nullptr};
};

}  // namespace camber::detection
