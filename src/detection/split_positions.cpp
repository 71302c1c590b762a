#include <algorithm>
#include <cmath>
#include <numbers>

#include "detection/initial_values.h"
#include "detection/position_embedding.h"

namespace camber::detection {
namespace {

constexpr double kGain = 2;
// How often azimuth and elevation turn the sines; eight were tried, other numbers are read off between them.
constexpr std::array<double, 8> kAzimuth = {1, 2, 4, 8, 12, 18, 26, 36};
constexpr std::array<double, 8> kElevation = {2, 4, 8, 12, 16, 20, 26, 34};

torch::Tensor multiples(const std::array<double, 8>& table, std::int64_t count) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) {
    const double at = count == 1 ? 0 : 7.0 * static_cast<double>(i) / static_cast<double>(count - 1);
    const auto below = std::min<std::size_t>(static_cast<std::size_t>(at), 6);
    const double share = at - static_cast<double>(below);
    values.push_back(static_cast<float>(std::round((1 - share) * table[below] + share * table[below + 1])));
  }
  return torch::tensor(values);
}

torch::Tensor sines(const torch::Tensor& value, const torch::Tensor& frequencies) {
  const auto angle = value.unsqueeze(-1) * frequencies.to(value.options().requires_grad(false));
  return torch::cat({angle.sin(), angle.cos()}, -1);
}

// Where a camera stands, and the rays through its cells' centres, in the LiDAR's frame.
struct CameraRays {
  geometry::Vector3 centre{};
  std::vector<double> directions{};  // [keys, 3]
};

CameraRays rays_of(const geometry::Camera& camera) {
  // The keys of a camera without a projection are masked and it sees no query: any rays will do.
  const auto& m = camera.has_projection() ? camera.lidar_to_image : geometry::kIdentity4;
  const auto inverse = geometry::inverse(m);
  CameraRays rays;
  // p = A x + b: the centre is where p = 0, and (u, v, 1) points along A^-1 (u, v, 1).
  for (std::size_t i = 0; i < 3; ++i)
    rays.centre[i] = -(inverse[4 * i] * m[3] + inverse[4 * i + 1] * m[7] + inverse[4 * i + 2] * m[11]);
  for (std::int64_t row = 0; row < camera.rows; ++row)
    for (std::int64_t column = 0; column < camera.columns; ++column) {
      const double u = (static_cast<double>(column) + 0.5) * camera.stride_x();
      const double v = (static_cast<double>(row) + 0.5) * camera.stride_y();
      for (std::size_t i = 0; i < 3; ++i)
        rays.directions.push_back(inverse[4 * i] * u + inverse[4 * i + 1] * v + inverse[4 * i + 2]);
    }
  return rays;
}

}  // namespace

SplitPositionsImpl::SplitPositionsImpl(const DetectorOptions& options)
    : space_(options.space), half_(options.head.decoder.width / 2) {
  const std::int64_t periods = half_ / 4;
  const double longest = 2 * (space_.x_max - space_.x_min), shortest = 2 * space_.cell;
  std::vector<float> frequencies;
  for (std::int64_t i = 0; i < periods; ++i) {
    const double share = periods == 1 ? 0 : static_cast<double>(i) / static_cast<double>(periods - 1);
    frequencies.push_back(static_cast<float>(2 * std::numbers::pi / (longest * std::pow(shortest / longest, share))));
  }
  frequencies_ = torch::tensor(frequencies);
  azimuth_multiples_ = multiples(kAzimuth, periods);
  elevation_multiples_ = multiples(kElevation, periods);
  const auto linear = [&] { return torch::nn::Linear(torch::nn::LinearOptions(half_, half_).bias(false)); };
  grid_embedding_ = register_module("grid_embedding", linear());
  ray_embedding_ = register_module("ray_embedding", linear());
}

void SplitPositionsImpl::initialise(std::uint64_t seed, const std::string& prefix) {
  fill_orthogonal(grid_embedding_->weight, random::Stream(seed, "initial." + prefix + ".grid_embedding.weight"), kGain);
  fill_orthogonal(ray_embedding_->weight, random::Stream(seed, "initial." + prefix + ".ray_embedding.weight"), kGain);
}

torch::Tensor SplitPositionsImpl::grid_part(const torch::Tensor& xy) {
  return grid_embedding_->forward(
      torch::cat({sines(xy.select(-1, 0), frequencies_), sines(xy.select(-1, 1), frequencies_)}, -1));
}

torch::Tensor SplitPositionsImpl::ray_part(const torch::Tensor& directions) {
  const auto x = directions.select(-1, 0), y = directions.select(-1, 1), z = directions.select(-1, 2);
  const auto flat = torch::sqrt(x * x + y * y + 1e-12);
  return ray_embedding_->forward(torch::cat(
      {sines(torch::atan2(y, x), azimuth_multiples_), sines(torch::atan2(z, flat), elevation_multiples_)}, -1));
}

torch::Tensor SplitPositionsImpl::keys(const nn::SensorScene& scene, std::int64_t batch) {
  const auto type = grid_embedding_->weight.options().requires_grad(false);
  auto centres = torch::empty({scene.grid.keys(), 2}, torch::kDouble);
  auto* out = centres.data_ptr<double>();
  for (std::int64_t row = 0; row < scene.grid.rows(); ++row)
    for (std::int64_t column = 0; column < scene.grid.columns(); ++column) {
      *out++ = scene.grid.center_x(column);
      *out++ = scene.grid.center_y(row);
    }
  auto grid = torch::constant_pad_nd(grid_part(centres.to(type)), {0, half_}).unsqueeze(0);
  if (scene.num_maps() == 1) return grid;
  std::vector<double> directions;
  for (const auto& cameras : scene.cameras)
    for (const auto& camera : cameras) {
      const auto rays = rays_of(camera).directions;
      directions.insert(directions.end(), rays.begin(), rays.end());
    }
  const auto all = torch::tensor(directions, torch::kDouble).view({batch, -1, 3}).to(type);
  const auto cameras = torch::constant_pad_nd(ray_part(all), {half_, 0});
  return torch::cat({grid.expand({batch, -1, -1}), cameras}, 1);
}

torch::Tensor SplitPositionsImpl::queries(const torch::Tensor& points, const nn::SensorScene& scene) {
  auto direction = points;  // from the origin where no camera sees the point
  if (scene.num_maps() > 1) {
    std::vector<double> centres;
    for (const auto& cameras : scene.cameras)
      for (const auto& camera : cameras) {
        const auto centre = rays_of({.width = 1, .height = 1, .lidar_to_image = camera.lidar_to_image}).centre;
        centres.insert(centres.end(), centre.begin(), centre.end());
      }
    const auto from = torch::tensor(centres, torch::kDouble)
                          .view({points.size(0), 1, -1, 3})
                          .to(points.options().requires_grad(false));
    const auto rays = points.unsqueeze(2) - from;  // [B, Q, V, 3]
    const auto unit = rays / (rays.detach().norm(2, -1, true) + 1e-6);
    const auto seen = nn::project_queries(points, scene).seen.slice(2, 1);  // [B, Q, V]
    const auto mean = (unit * seen.unsqueeze(-1).to(unit.scalar_type())).sum(2);
    direction = torch::where(seen.any(2).unsqueeze(-1), mean, points);
  }
  return torch::cat({grid_part(points.narrow(-1, 0, 2)), ray_part(direction)}, -1);
}

}  // namespace camber::detection
