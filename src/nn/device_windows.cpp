#include "nn/device_windows.h"

#include "camber/ops/deferred_check.h"

namespace camber::nn {
namespace {

torch::Tensor table(const std::vector<double>& values, const torch::Tensor& like) {
  return torch::tensor(values, torch::kDouble).to(like.device());
}

// (column, row) and whether the grid holds the point; the upper border belongs to the last cell.
std::pair<torch::Tensor, torch::Tensor> cells_of_grid(const torch::Tensor& points, const geometry::BevGrid& grid) {
  const auto low = table({grid.x_min(), grid.y_min()}, points), high = table({grid.x_max(), grid.y_max()}, points);
  const auto last = table({static_cast<double>(grid.columns() - 1), static_cast<double>(grid.rows() - 1)}, points);
  const auto plane = points.narrow(-1, 0, 2);
  const auto inside = plane.ge(low).logical_and(plane.le(high)).all(-1);
  return {torch::minimum(((plane - low) / grid.cell()).floor(), last), inside};
}

// The cameras' numbers, one row each of [B, V, numbers]: the matrix, sizes of image and map.
torch::Tensor camera_table(const SensorScene& scene, const torch::Tensor& like) {
  constexpr std::int64_t kNumbers = 12 + 4;
  std::vector<double> values;
  for (const auto& cameras : scene.cameras)
    for (const geometry::Camera& camera : cameras) {
      values.insert(values.end(), camera.lidar_to_image.begin(), camera.lidar_to_image.begin() + 12);
      for (const std::int64_t size : {camera.width, camera.height, camera.columns, camera.rows})
        values.push_back(static_cast<double>(size));
    }
  return table(values, like).view({static_cast<std::int64_t>(scene.cameras.size()), -1, kNumbers});
}

// [B, Q, V, 2] and [B, Q, V]. Sums are taken in the order of Camera::project.
std::pair<torch::Tensor, torch::Tensor> cells_of_cameras(const torch::Tensor& points, const SensorScene& scene) {
  const auto numbers = camera_table(scene, points).unsqueeze(1);  // [B, 1, V, 16]
  const auto at = [&](std::int64_t i) { return numbers.select(-1, i); };
  const auto p = [&](std::int64_t axis) { return points.select(-1, axis).unsqueeze(-1); };  // [B, Q, 1]
  const auto row = [&](std::int64_t r) {
    return at(4 * r) * p(0) + at(4 * r + 1) * p(1) + at(4 * r + 2) * p(2) + at(4 * r + 3);
  };
  const auto depth = row(2);
  const auto safe = depth.masked_fill(depth.eq(0), 1);
  std::vector<torch::Tensor> cell;
  auto seen = depth.gt(geometry::kMinimumDepth);
  for (const std::int64_t axis : {0, 1}) {
    const auto pixel = row(axis) / safe, size = at(12 + axis), count = at(14 + axis);
    seen = seen.logical_and(pixel.ge(0)).logical_and(pixel.lt(size));
    cell.push_back(torch::minimum((pixel / (size / count)).floor(), count - 1));
  }
  return {torch::stack(cell, -1), seen};
}

// One kind of map: for every query some windows of one size, [N, slots], where they lie and what they lie on.
struct Slots {
  torch::Tensor column, row, valid, map;   // [N, slots]
  torch::Tensor columns, rows, first_key;  // [N, slots]
  std::int64_t size = 1;
};

// The cells of all slots before they are put in order, [N, slots * size^2].
struct Cells {
  torch::Tensor key, map, squared_distance, inside;
};

Cells spread(const Slots& slots) {
  const std::int64_t half = slots.size / 2;
  const auto step = torch::arange(-half, half + 1, slots.column.options());
  const auto dy = step.view({1, 1, -1, 1}), dx = step.view({1, 1, 1, -1});
  const auto wide = [](const torch::Tensor& t) { return t.unsqueeze(-1).unsqueeze(-1); };
  const auto column = wide(slots.column) + dx, row = wide(slots.row) + dy;
  const auto inside = wide(slots.valid)
                          .logical_and(column.ge(0))
                          .logical_and(column.lt(wide(slots.columns)))
                          .logical_and(row.ge(0))
                          .logical_and(row.lt(wide(slots.rows)));
  const auto key = wide(slots.first_key) + row * wide(slots.columns) + column;
  const auto flat = [&](const torch::Tensor& t) { return t.expand_as(inside).flatten(1); };
  return {flat(key), flat(wide(slots.map)), flat(dy * dy + dx * dx), inside.flatten(1)};
}

}  // namespace

QueryProjection project_on_device(const torch::Tensor& points, const SensorScene& scene,
                                  const std::optional<torch::Tensor>& available) {
  const torch::NoGradGuard guard;
  const auto wide = points.detach().to(torch::kDouble);
  std::vector<torch::Tensor> cells, seen;
  if (scene.has_grid) {
    const auto [cell, inside] = cells_of_grid(wide, scene.grid);
    cells.push_back(cell.unsqueeze(2));
    seen.push_back(inside.unsqueeze(2));
  }
  if (!scene.cameras.empty() && !scene.cameras[0].empty()) {
    const auto [cell, inside] = cells_of_cameras(wide, scene);
    cells.push_back(cell);
    seen.push_back(inside);
  }
  auto all = torch::cat(seen, 2);
  if (available) all = all.logical_and(available->to(points.device()).unsqueeze(1));
  return {
      .cell =
          torch::cat(cells, 2).nan_to_num(0, 0, 0).masked_fill(all.logical_not().unsqueeze(-1), -1).to(torch::kLong),
      .seen = all};
}

ops::WindowIndex windows_on_device(const QueryProjection& projection, FixedSizes sizes, const SensorScene& scene) {
  const torch::NoGradGuard guard;
  const auto cell = projection.cell.flatten(0, 1);  // [N, M, 2]
  const auto seen = projection.seen.flatten(0, 1);  // [N, M]
  const auto layout = scene.layout();
  std::vector<std::int64_t> numbers;
  for (const geometry::KeyMap& map : layout.maps) numbers.insert(numbers.end(), {map.columns, map.rows, map.first_key});
  const auto of_maps = torch::tensor(numbers, torch::kLong).to(cell.device()).view({-1, 3});
  const auto slots_of = [&](const torch::Tensor& map, std::int64_t size) {
    const auto pick = [&](const torch::Tensor& t) { return t.gather(1, map); };
    const auto number = [&](std::int64_t i) {
      return of_maps.select(1, i).index_select(0, map.flatten()).view_as(map);
    };
    return Slots{.column = pick(cell.select(2, 0)),
                 .row = pick(cell.select(2, 1)),
                 .valid = pick(seen),
                 .map = map,
                 .columns = number(0),
                 .rows = number(1),
                 .first_key = number(2),
                 .size = size};
  };
  std::vector<Cells> parts;
  const std::int64_t grids = scene.num_grids(), cameras = scene.num_maps() - grids;
  if (grids > 0) parts.push_back(spread(slots_of(torch::zeros({cell.size(0), 1}, cell.options()), sizes.grid)));
  if (cameras > 0) {
    const auto in_camera = seen.slice(1, grids);
    auto& check = *ops::DeferredCheck::current(cell.device());
    const std::int64_t room = std::min(cameras, check.cameras());
    // The cameras that see the query come first, in their order, so that keys stay sorted.
    const auto order = torch::argsort(in_camera.logical_not().to(torch::kInt), /*stable=*/true, 1);
    parts.push_back(spread(slots_of(order.slice(1, 0, room) + grids, sizes.camera)));
    if (room < cameras) {
      const auto count = in_camera.sum(1);
      check.add((count - room).clamp_min(0).sum());
      check.tell_cameras(count.amax());
    }
  }
  const auto joined = [&](torch::Tensor Cells::*member) {
    std::vector<torch::Tensor> all;
    all.reserve(parts.size());
    for (const Cells& part : parts) all.push_back(part.*member);
    return torch::cat(all, 1);
  };
  const auto inside = joined(&Cells::inside);
  const auto ends = inside.sum(1).cumsum(0);
  // Those that exist first, in their order.
  const auto order = torch::argsort(inside.flatten().logical_not().to(torch::kInt), /*stable=*/true, 0);
  const auto sorted = [&](torch::Tensor Cells::*member) {
    return joined(member).masked_fill(inside.logical_not(), 0).flatten().index_select(0, order).to(torch::kInt);
  };
  return {.row_offsets = torch::cat({torch::zeros({1}, ends.options()), ends}),
          .key_index = sorted(&Cells::key),
          .map_index = sorted(&Cells::map),
          .squared_distance = sorted(&Cells::squared_distance)};
}

}  // namespace camber::nn
