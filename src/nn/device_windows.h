#pragma once
#include <vector>

#include "camber/nn/query_projection.h"

/// Projection and windows in plain tensor operations, for points of another device: nothing is asked of the host, whose
/// definitions (geometry/bev_grid.h, geometry/camera.h, geometry/key_layout.h) they follow in double.
namespace camber::nn {

/// project_queries for points of another device; `cell` stays there.
QueryProjection project_on_device(const torch::Tensor& points, const SensorScene& scene,
                                  const std::optional<torch::Tensor>& available);

/// Windows of fixed sizes round cells of another device, under an ops::DeferredCheck: queries that lie in more cameras
/// than it has room for count as its failures.
struct FixedSizes {
  std::int64_t grid = 0, camera = 0;
};
ops::WindowIndex windows_on_device(const QueryProjection& projection, FixedSizes sizes, const SensorScene& scene);

}  // namespace camber::nn
