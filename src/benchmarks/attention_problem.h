#pragma once
#include <functional>
#include <map>
#include <string>

#include <ATen/core/Tensor.h>

#include "camber/benchmarks/attention.h"
#include "camber/geometry/camera.h"
#include "camber/nn/device.h"
#include "camber/ops/biased_attention.h"

namespace camber::benchmarks {

/// A camera at the LiDAR's position that looks along `heading` (radians) with an opening of 70 degrees, 16 pixels a
/// cell.
geometry::Camera camera_at(double heading, std::int64_t columns, std::int64_t rows);

/// The inputs of one problem, each made when first asked for and then shared by all that time it. Queries are points
/// drawn in the grid's range; six cameras of 70 degrees stand in a ring, so that one or two see a point.
class AttentionProblem {
 public:
  explicit AttentionProblem(AttentionBenchOptions options);

  /// Layout of a multi-head layer, [B, rows, heads, width], seen as [B, heads, rows, width].
  at::Tensor q(std::int64_t heads, at::ScalarType type = at::kFloat);
  at::Tensor k(std::int64_t heads, at::ScalarType type = at::kFloat);
  at::Tensor v(std::int64_t heads, at::ScalarType type = at::kFloat);
  /// The gradient that reaches the output, [B, heads, Q, width].
  at::Tensor gradient(std::int64_t heads);
  /// The same rows as [B, rows, C], and the gradient of an output [B, Q, C].
  at::Tensor rows(const char* which);

  /// Windows with their values and the maps as segments, without values.
  ops::StructuredBias windows();
  at::Tensor segment_value();
  /// The windows as [B, 1, Q, K], and a mask without structure of that shape.
  at::Tensor dense_bias();
  at::Tensor float_mask();
  /// bool [B, S]: the grid delivers, no camera does.
  at::Tensor cameras_absent();
  /// Weights of a multi-head layer: in_proj [3C, C] and out_proj [C, C] stacked.
  at::Tensor projection(std::int64_t part);

  std::int64_t batch() const { return options_.batch; }
  std::int64_t queries() const { return options_.queries; }
  std::int64_t keys() const { return options_.keys; }
  std::int64_t heads() const { return options_.heads; }
  std::int64_t channels() const { return options_.heads * options_.width; }
  torch::Device device() const { return device_; }
  std::int64_t window_entries();
  std::int64_t grid_keys() const;

 private:
  at::Tensor kept(const std::string& name, const std::function<at::Tensor()>& make);
  at::Tensor normal(const std::string& name, at::IntArrayRef shape, double deviation = 1);

  AttentionBenchOptions options_;
  torch::Device device_;
  std::map<std::string, at::Tensor> tensors_;
};

}  // namespace camber::benchmarks
