#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include <torch/types.h>

#include "camber/geometry/key_layout.h"
#include "camber/nn/attention_bias_options.h"
#include "camber/ops/windows.h"

namespace camber::nn {

/// What a batch looks with: one grid, and for every batch element its cameras (the same maps, their own calibration).
/// Maps are numbered as key segments: 0 is the grid, 1 + i camera i; without a grid i is camera i.
struct SensorScene {
  geometry::BevGrid grid = geometry::BevGrid::reference();
  std::vector<std::vector<geometry::Camera>> cameras{};  // [B][V]
  bool has_grid = true;                                  // false: keys lie in the cameras alone, as in PETR

  geometry::KeyLayout layout() const;
  std::int64_t num_grids() const { return has_grid ? 1 : 0; }
  std::int64_t num_maps() const {
    return num_grids() + (cameras.empty() ? 0 : static_cast<std::int64_t>(cameras[0].size()));
  }
  /// Refuses a scene without maps, and elements whose cameras differ in number or in the size of their maps.
  void validate(std::int64_t batch) const;
};

/// Where queries fall on the maps.
struct QueryProjection {
  torch::Tensor cell;  // int64 [B, Q, M, 2]: (column, row), -1 where the map does not hold the point
  torch::Tensor seen;  // bool [B, Q, M]; both on the device of the points
};

/// Projects points [B, Q, 3] (metres, LiDAR frame) onto the grid and into every camera that sees them. Maps that
/// `available` [B, M] calls absent hold no point. No gradient flows through cell indices. Points of another device are
/// projected there.
QueryProjection project_queries(const torch::Tensor& points, const SensorScene& scene,
                                const std::optional<torch::Tensor>& available = std::nullopt);

/// The sizes of windows, int32 [B, Q, M]: fixed, or the smallest odd number that covers the diagonal of the projected
/// box [B, Q, 7] = (cx, cy, cz, length, width, height, yaw), within 3 .. 31.
torch::Tensor fixed_window_sizes(const QueryProjection& projection, std::int64_t bev_window, std::int64_t camera_window,
                                 std::int64_t num_grids = 1);
torch::Tensor object_window_sizes(const torch::Tensor& boxes, const SensorScene& scene);

/// Windows of the given sizes round the placed queries. One that covers more than a quarter of its map is warned of.
/// They are built on the host, which waits for cells of another device, and handed over to `device`.
ops::WindowIndex windows_at(const QueryProjection& projection, const torch::Tensor& sizes, const SensorScene& scene,
                            torch::Device device = torch::kCPU);
/// Windows of fixed sizes. Under an ops::DeferredCheck those of another device are built there, without waiting.
ops::WindowIndex fixed_windows_at(const QueryProjection& projection, std::int64_t bev_window,
                                  std::int64_t camera_window, const SensorScene& scene,
                                  torch::Device device = torch::kCPU);

}  // namespace camber::nn
