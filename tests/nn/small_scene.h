#pragma once
#include <algorithm>
#include <cmath>

#include <torch/types.h>

#include "camber/nn/attention_bias_options.h"
#include "camber/nn/query_projection.h"
#include "camber/random/stream.h"

// A grid of 16 x 16 cells between two cameras, queries about it, and the bias that the definition gives them.
namespace camber::nn {

// A pinhole that looks along +y (or, turned, along -y): every point before it projects.
inline geometry::Camera camera(bool behind, std::int64_t columns = 10, std::int64_t rows = 6) {
  const double sign = behind ? -1 : 1;
  return {.name = behind ? "back" : "front",
          .width = 100,
          .height = 60,
          .columns = columns,
          .rows = rows,
          .lidar_to_image = {sign * 50, sign * 50, 0, 0, 0, sign * 30, -50, 0, 0, sign, 0, 0, 0, 0, 0, 1}};
}

inline SensorScene small_scene(std::int64_t batch) {
  SensorScene scene{.grid = geometry::BevGrid(-8, 8, -8, 8, 1.0), .cameras = {}};
  for (std::int64_t b = 0; b < batch; ++b) scene.cameras.push_back({camera(false), camera(true)});
  return scene;
}

inline torch::Tensor random_points(std::int64_t batch, std::int64_t queries) {
  random::Stream stream(3, "points");
  auto points = torch::empty({batch, queries, 3}, torch::kDouble);
  for (std::int64_t i = 0; i < points.numel(); ++i) points.data_ptr<double>()[i] = stream.uniform(-10, 10);
  points.select(2, 2).mul_(0.2);
  return points;
}

// Every key asked, one after the other, what its bias is: the definition, slow and obvious.
inline torch::Tensor obvious_bias(const torch::Tensor& points, const torch::Tensor& trust, const SensorScene& scene,
                                  const AttentionBiasOptions& options, double scale) {
  const auto layout = scene.layout();
  const std::int64_t batch = points.size(0), queries = points.size(1);
  auto dense = torch::zeros({batch, 1, queries, layout.keys()}, torch::kDouble);
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t q = 0; q < queries; ++q)
      for (std::size_t m = 0; m < layout.maps.size(); ++m) {
        const auto at = [&](std::int64_t i) { return points[b][q][i].item<double>(); };
        const auto cell = m == 0 ? scene.grid.cell_at(at(0), at(1))
                                 : scene.cameras[static_cast<std::size_t>(b)][m - 1].cell_at({at(0), at(1), at(2)});
        if (!cell) continue;
        const auto size = static_cast<double>(m == 0 ? options.bev_window : options.camera_window);
        const auto weight = trust[b][q][m == 0 ? 0 : 1].item<double>();
        for (std::int64_t key = 0; key < layout.maps[m].keys(); ++key) {
          const std::int64_t row = key / layout.maps[m].columns, column = key % layout.maps[m].columns;
          const auto dx = static_cast<double>(column - cell->column), dy = static_cast<double>(row - cell->row);
          if (std::max(std::abs(dx), std::abs(dy)) > size / 2) continue;
          const double sigma = size / 6;
          const double g = options.form == WindowForm::kBox ? 1 : std::exp(-(dx * dx + dy * dy) / (2 * sigma * sigma));
          const double bias = std::clamp(weight * scale, -options.clip, options.clip);
          dense[b][0][q][layout.maps[m].first_key + key] = g * bias;
        }
      }
  return dense;
}

}  // namespace camber::nn
