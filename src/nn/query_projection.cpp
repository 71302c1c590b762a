#include "camber/nn/query_projection.h"

#include <algorithm>
#include <cmath>

#include "camber/geometry/box.h"
#include "camber/ops/deferred_check.h"
#include "nn/device_windows.h"

namespace camber::nn {
namespace {

constexpr std::int32_t kSmallestObjectWindow = 3, kLargestObjectWindow = 31;

// The smallest odd number of cells that covers a length given in cells; the smallest window for a length that is NaN.
std::int32_t odd_cover(double cells) {
  if (std::isnan(cells)) return kSmallestObjectWindow;
  const double bounded = std::min(std::max(cells, 1.0), static_cast<double>(kLargestObjectWindow));
  auto size = static_cast<std::int32_t>(std::ceil(bounded));
  if (size % 2 == 0) ++size;
  return std::clamp(size, kSmallestObjectWindow, kLargestObjectWindow);
}

// Diagonal, in cells, of the rectangle round the corners that lie before the camera; 0 when none does.
double projected_diagonal(const geometry::Camera& camera, const geometry::Box& box) {
  double low_u = 1e30, high_u = -1e30, low_v = 1e30, high_v = -1e30;
  for (const auto& corner : box.corners()) {
    const auto p = camera.project(corner);
    if (p.depth <= geometry::kMinimumDepth) continue;
    low_u = std::min(low_u, p.u);
    high_u = std::max(high_u, p.u);
    low_v = std::min(low_v, p.v);
    high_v = std::max(high_v, p.v);
  }
  if (high_u < low_u) return 0;
  return std::hypot((high_u - low_u) / camera.stride_x(), (high_v - low_v) / camera.stride_y());
}

torch::Tensor to_host(const torch::Tensor& tensor) {
  return tensor.detach().to(torch::kCPU, torch::kDouble).contiguous();
}

}  // namespace

geometry::KeyLayout SensorScene::layout() const {
  const std::vector<geometry::Camera> first = cameras.empty() ? std::vector<geometry::Camera>{} : cameras[0];
  return has_grid ? geometry::KeyLayout::of(grid, first) : geometry::KeyLayout::of(first);
}

void SensorScene::validate(std::int64_t batch) const {
  TORCH_CHECK_VALUE(num_maps() > 0, "[SensorScene] a scene must have a grid or cameras, got neither");
  TORCH_CHECK_VALUE(cameras.empty() || static_cast<std::int64_t>(cameras.size()) == batch,
                    "[SensorScene] cameras must be given for every batch element (", batch, "), got ", cameras.size());
  for (const auto& element : cameras) {
    TORCH_CHECK_VALUE(element.size() == cameras[0].size(),
                      "[SensorScene] every batch element must have the same number of cameras, got ", cameras[0].size(),
                      " and ", element.size());
    for (std::size_t i = 0; i < element.size(); ++i) {
      element[i].validate();
      TORCH_CHECK_VALUE(element[i].rows == cameras[0][i].rows && element[i].columns == cameras[0][i].columns,
                        "[SensorScene] camera ", i, " must have the same map in every batch element");
    }
  }
}

QueryProjection project_queries(const torch::Tensor& points, const SensorScene& scene,
                                const std::optional<torch::Tensor>& available) {
  TORCH_CHECK_VALUE(points.dim() == 3 && points.size(2) == 3, "[project_queries] points must be [B, Q, 3], got ",
                    points.sizes());
  const std::int64_t batch = points.size(0), queries = points.size(1), maps = scene.num_maps(),
                     grids = scene.num_grids();
  scene.validate(batch);
  TORCH_CHECK_VALUE(!available || (available->dim() == 2 && available->size(0) == batch && available->size(1) == maps &&
                                   available->scalar_type() == torch::kBool),
                    "[project_queries] available must be bool [B, M] = [", batch, ", ", maps, "]");
  if (!points.is_cpu()) return project_on_device(points, scene, available);
  const auto host = to_host(points);
  const auto present = available ? available->to(torch::kCPU).contiguous() : torch::ones({batch, maps}, torch::kBool);
  const auto* p = host.const_data_ptr<double>();
  const auto* live = present.const_data_ptr<bool>();
  QueryProjection projection{.cell = torch::full({batch, queries, maps, 2}, -1, torch::kLong),
                             .seen = torch::zeros({batch, queries, maps}, torch::kBool)};
  auto* cell = projection.cell.data_ptr<std::int64_t>();
  auto* seen = projection.seen.data_ptr<bool>();
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t q = 0; q < queries; ++q, p += 3) {
      for (std::int64_t m = 0; m < maps; ++m, cell += 2, ++seen) {
        if (!live[b * maps + m]) continue;
        const auto at = m < grids
                            ? scene.grid.cell_at(p[0], p[1])
                            : scene.cameras[static_cast<std::size_t>(b)][static_cast<std::size_t>(m - grids)].cell_at(
                                  {p[0], p[1], p[2]});
        if (!at) continue;
        cell[0] = at->column;
        cell[1] = at->row;
        *seen = true;
      }
    }
  }
  return projection;
}

ops::WindowIndex fixed_windows_at(const QueryProjection& projection, std::int64_t bev_window,
                                  std::int64_t camera_window, const SensorScene& scene, torch::Device device) {
  if (ops::DeferredCheck::current(projection.cell.device()) != nullptr)
    return windows_on_device(projection, {.grid = bev_window, .camera = camera_window}, scene);
  return windows_at(projection, fixed_window_sizes(projection, bev_window, camera_window, scene.num_grids()), scene,
                    device);
}

torch::Tensor fixed_window_sizes(const QueryProjection& projection, std::int64_t bev_window, std::int64_t camera_window,
                                 std::int64_t num_grids) {
  auto sizes = torch::full(projection.seen.sizes(), camera_window, torch::kInt);
  sizes.slice(2, 0, num_grids).fill_(bev_window);
  return sizes;
}

torch::Tensor object_window_sizes(const torch::Tensor& boxes, const SensorScene& scene) {
  TORCH_CHECK_VALUE(boxes.dim() == 3 && boxes.size(2) == 7, "[object_window_sizes] boxes must be [B, Q, 7], got ",
                    boxes.sizes());
  const auto host = to_host(boxes);
  const auto* v = host.const_data_ptr<double>();
  const std::int64_t batch = boxes.size(0), queries = boxes.size(1), maps = scene.num_maps();
  scene.validate(batch);
  auto sizes = torch::empty({batch, queries, maps}, torch::kInt);
  auto* out = sizes.data_ptr<std::int32_t>();
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t q = 0; q < queries; ++q, v += 7) {
      const geometry::Box box{.center = {v[0], v[1], v[2]}, .length = v[3], .width = v[4], .height = v[5], .yaw = v[6]};
      if (scene.has_grid) *out++ = odd_cover(std::hypot(box.length, box.width) / scene.grid.cell());
      if (scene.cameras.empty()) continue;
      for (const auto& camera : scene.cameras[static_cast<std::size_t>(b)])
        *out++ = odd_cover(projected_diagonal(camera, box));
    }
  }
  return sizes;
}

ops::WindowIndex windows_at(const QueryProjection& projection, const torch::Tensor& sizes, const SensorScene& scene,
                            torch::Device device) {
  const auto layout = scene.layout();
  const auto shape = torch::empty({static_cast<std::int64_t>(layout.maps.size()), 2}, torch::kLong);
  auto* data = shape.data_ptr<std::int64_t>();
  for (const auto& map : layout.maps) {
    *data++ = map.columns;
    *data++ = map.rows;
  }
  auto index = ops::build_windows(projection.cell.cpu(), sizes, shape);
  for (torch::Tensor* part : {&index.row_offsets, &index.key_index, &index.map_index, &index.squared_distance})
    *part = part->to(device);
  return index;
}

}  // namespace camber::nn
