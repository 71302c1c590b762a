#include "detection/example_batch.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include <ATen/CPUGeneratorImpl.h>

#include "camber/detection/cmt_head.h"

namespace camber::detection::examples {

geometry::Camera camera_at(double x, double y, double yaw, std::int64_t width, std::int64_t height,
                           std::int64_t stride) {
  const double focal = static_cast<double>(width) / 2 / std::tan(35 * std::numbers::pi / 180);
  // Rows: right, down, forward of the camera in the LiDAR's frame.
  const geometry::RigidTransform turn{
      .rotation = {std::sin(yaw), -std::cos(yaw), 0, 0, 0, -1, std::cos(yaw), std::sin(yaw), 0}};
  auto lidar_to_camera = turn;
  const auto moved = turn.rotate({x, y, -0.3});
  lidar_to_camera.translation = {-moved[0], -moved[1], -moved[2]};
  const geometry::Matrix4 intrinsic = {
      focal, 0, static_cast<double>(width) / 2, 0, 0, focal, static_cast<double>(height) * 0.375, 0, 0, 0, 1, 0, 0, 0,
      0,     1};
  return {.name = "camera",
          .width = width,
          .height = height,
          .columns = width / stride,
          .rows = height / stride,
          .lidar_to_image = geometry::multiply(intrinsic, lidar_to_camera.matrix())};
}

DetectorOptions tiny_options() {
  auto options = DetectorOptions::small();
  options.head.num_queries = 30;
  return options;
}

namespace {

Targets example_targets(std::int64_t count, std::uint64_t seed) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  const auto draw = [&](double low, double high) { return torch::rand({count}, generator) * (high - low) + low; };
  const auto boxes = torch::stack({draw(-20, 20), draw(-20, 20), draw(-1.2, -0.6), draw(0.6, 8), draw(0.6, 2.5),
                                   draw(1.4, 3), draw(-3, 3), draw(-5, 5), draw(-5, 5)},
                                  1);
  return {boxes, torch::arange(count) % 4, torch::rand({count, 2}, generator) * 2 - 1, {}, {}};
}

}  // namespace

DetectorBatch example_batch(const DetectorOptions& options, std::int64_t size, std::int64_t cameras,
                            std::uint64_t seed) {
  DetectorBatch batch{.size = size};
  batch.scene.grid = options.space.grid();
  const auto& encoder = options.encoder;
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  constexpr std::int64_t kPoints = 400;
  batch.points =
      torch::rand({size * kPoints, 5}, generator) *
          torch::tensor({options.space.x_max * 1.9, options.space.y_max * 1.9, 2.5, 1.0, 0.1}, torch::kFloat) -
      torch::tensor({options.space.x_max * 0.95, options.space.y_max * 0.95, 1.8, 0.0, 0.0}, torch::kFloat);
  batch.point_offsets = torch::arange(size + 1) * kPoints;
  for (std::int64_t b = 0; b < size; ++b) {
    std::vector<geometry::Camera> rig;
    for (std::int64_t v = 0; v < cameras; ++v) {
      const double yaw =
          2 * std::numbers::pi * static_cast<double>(v) / static_cast<double>(cameras) + 0.01 * static_cast<double>(b);
      rig.push_back(camera_at(0.5 * std::cos(yaw), 0.5 * std::sin(yaw), yaw, encoder.image_width, encoder.image_height,
                              encoder.feature_stride));
    }
    batch.scene.cameras.push_back(rig);
    batch.targets.push_back(example_targets(std::max<std::int64_t>(0, 3 - b), seed + static_cast<std::uint64_t>(b)));
  }
  if (cameras > 0)
    batch.images.push_back(torch::rand({size, cameras, 3, encoder.image_height, encoder.image_width}, generator));
  batch.available = torch::ones({size, 1 + cameras}, torch::kBool);
  batch.age = torch::rand({size, 1 + cameras}, generator);
  batch.level = torch::rand({size, 1 + cameras}, generator) - 0.5;
  batch.quality = torch::ones({size, 1 + cameras});
  batch.origins.resize(static_cast<std::size_t>(size));
  return batch;
}

Locality first_layer_locality(DetectorImpl& detector, const DetectorBatch& batch) {
  const torch::NoGradGuard guard;
  auto head = detector.head();
  const auto memory = head->memory_of(detector.encode(batch), batch);
  const auto key_position = head->key_positions(batch.scene, batch.size);
  const auto references = head->references().unsqueeze(0).expand({batch.size, -1, -1});
  const auto query_position = head->query_positions(references, batch);
  auto layer = head->decoder->layers[0]->as<nn::DecoderLayer>();
  const auto start = head->query_start(query_position);
  const auto state = layer->norm1->forward(
      layer->self_attention->forward({start, start, start, query_position, query_position}).output);
  const auto weight = layer->cross_attention->in_proj_weight, bias = layer->cross_attention->in_proj_bias;
  const std::int64_t width = weight.size(1), heads = layer->options.num_heads;
  const auto split = [&](const torch::Tensor& t, std::int64_t part) {
    const auto projected = torch::linear(t, weight.narrow(0, part * width, width), bias.narrow(0, part * width, width));
    return projected.view({t.size(0), t.size(1), heads, width / heads}).transpose(1, 2);
  };
  const auto scores =
      torch::matmul(split(state + query_position, 0), split(memory + key_position, 1).transpose(-1, -2));
  const auto attention = torch::softmax(scores / std::sqrt(static_cast<double>(width) / static_cast<double>(heads)), -1)
                             .mean(1);  // [B, Q, K]
  const auto near_grid = torch::zeros_like(attention), near_cameras = torch::zeros_like(attention);
  const auto projection = nn::project_queries(references, batch.scene);
  const auto layout = batch.scene.layout();
  for (std::int64_t q = 0; q < references.size(1); ++q)
    for (std::size_t m = 0; m < layout.maps.size(); ++m) {
      const auto& map = layout.maps[m];
      for (std::int64_t b = 0; b < batch.size; ++b) {
        const auto cell = projection.cell[b][q][static_cast<std::int64_t>(m)];
        const auto column = cell[0].item<std::int64_t>(), row = cell[1].item<std::int64_t>();
        const auto x = references[b][q][0].item<double>(), y = references[b][q][1].item<double>();
        for (std::int64_t r = 0; r < map.rows; ++r)
          for (std::int64_t c = 0; c < map.columns; ++c) {
            const bool near = m == 0
                                  ? std::hypot(batch.scene.grid.center_x(c) - x, batch.scene.grid.center_y(r) - y) <= 4
                                  : column >= 0 && std::abs(c - column) <= 1 && std::abs(r - row) <= 1;
            if (near) (m == 0 ? near_grid : near_cameras)[b][q][map.first_key + r * map.columns + c] = 1;
          }
      }
    }
  const auto seen = projection.seen.slice(2, 1).any(2).to(torch::kFloat);
  return {.grid = (attention * near_grid).sum(2).mean().item<double>(),
          .cameras = ((attention * near_cameras).sum(2) * seen).sum().item<double>() / seen.sum().item<double>()};
}

}  // namespace camber::detection::examples
