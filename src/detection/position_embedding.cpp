#include "detection/position_embedding.h"

#include <cmath>
#include <numbers>

#include "camber/nn/affine.h"
#include "detection/initial_values.h"

namespace camber::detection {
namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;

torch::Tensor two_layers(torch::nn::Linear& first, torch::nn::Linear& second, const torch::Tensor& input) {
  const auto inner = torch::relu(nn::affine(input, first->weight, first->bias));
  return nn::affine(inner, second->weight, second->bias);
}

// [rows * columns, 2]: the cells' centres as shares of the grid, (x, y), row by row. CMT counts cells, so that its
// published model, whose grid is smaller than the space, embeds its keys as if they filled it.
torch::Tensor cell_shares(const geometry::BevGrid& grid) {
  auto shares = torch::empty({grid.rows() * grid.columns(), 2}, torch::kDouble);
  auto* out = shares.data_ptr<double>();
  for (std::int64_t row = 0; row < grid.rows(); ++row)
    for (std::int64_t column = 0; column < grid.columns(); ++column) {
      *out++ = (static_cast<double>(column) + 0.5) / static_cast<double>(grid.columns());
      *out++ = (static_cast<double>(row) + 0.5) / static_cast<double>(grid.rows());
    }
  return shares;
}

// [keys, 3]: pixels (u, v, 1) of the cells, `inside` of a cell from its corner.
torch::Tensor cell_pixels(const geometry::Camera& camera, double inside) {
  auto pixels = torch::empty({camera.keys(), 3}, torch::kDouble);
  auto* out = pixels.data_ptr<double>();
  for (std::int64_t row = 0; row < camera.rows; ++row)
    for (std::int64_t column = 0; column < camera.columns; ++column) {
      *out++ = (static_cast<double>(column) + inside) * camera.stride_x();
      *out++ = (static_cast<double>(row) + inside) * camera.stride_y();
      *out++ = 1;
    }
  return pixels;
}

torch::Tensor matrix_of(const geometry::Matrix4& matrix) {
  return torch::tensor(std::vector<double>(matrix.begin(), matrix.end()), torch::kDouble).view({4, 4});
}

// [B, V, 4, 4] in double, so that inverses keep their digits.
torch::Tensor projections(const nn::SensorScene& scene) {
  std::vector<torch::Tensor> elements;
  for (const auto& cameras : scene.cameras) {
    std::vector<torch::Tensor> matrices;
    matrices.reserve(cameras.size());
    for (const auto& camera : cameras) matrices.push_back(matrix_of(camera.lidar_to_image));
    elements.push_back(torch::stack(matrices));
  }
  return torch::stack(elements);
}

// Their inverses. The keys of a camera without a projection are masked and it sees no query: any matrix will do.
torch::Tensor inverses(const torch::Tensor& projections) {
  const auto absent = projections.eq(0).all(-1).all(-1).view({projections.size(0), -1, 1, 1});
  return torch::inverse(torch::where(absent, torch::eye(4, projections.options()), projections));
}

bool has_cameras(const nn::SensorScene& scene) {
  return scene.num_maps() > 1;
}

}  // namespace

torch::Tensor pos2embed(const torch::Tensor& positions, std::int64_t count) {
  TORCH_CHECK_VALUE(positions.size(-1) == 2, "[pos2embed] positions must be [..., 2], got ", positions.sizes());
  const auto index = torch::arange(count, positions.options().requires_grad(false));
  const auto divisor = 2 * torch::floor(index / 2) / static_cast<double>(count) + 1;
  const auto sines = [&](std::int64_t coordinate) {
    const auto angle = positions.select(-1, coordinate).unsqueeze(-1) * kTwoPi / divisor;
    const auto even = angle.slice(-1, 0, count, 2).sin(), odd = angle.slice(-1, 1, count, 2).cos();
    return torch::stack({even, odd}, -1).flatten(-2);
  };
  return torch::cat({sines(1), sines(0)}, -1);
}

torch::Tensor inverse_sigmoid(const torch::Tensor& value) {
  const auto inside = value.clamp(0, 1);
  return torch::log(inside.clamp_min(1e-5) / (1 - inside).clamp_min(1e-5));
}

CmtPositionsImpl::CmtPositionsImpl(const DetectorOptions& options)
    : space_(options.space), width_(options.head.decoder.width), depths_(options.head.depths) {
  bev_first_ = register_module("bev_first", torch::nn::Linear(2 * width_, width_));
  bev_second_ = register_module("bev_second", torch::nn::Linear(width_, width_));
  if (!options.uses_cameras()) return;
  rv_first_ = register_module("rv_first", torch::nn::Linear(3 * depths_, 4 * width_));
  rv_second_ = register_module("rv_second", torch::nn::Linear(4 * width_, width_));
}

torch::Tensor CmtPositionsImpl::bev(const torch::Tensor& positions) {
  return two_layers(bev_first_, bev_second_, pos2embed(positions, width_));
}

torch::Tensor CmtPositionsImpl::along_rays(const torch::Tensor& pixels, const torch::Tensor& image_to_lidar) {
  const auto steps = torch::arange(depths_, pixels.options().requires_grad(false));
  const auto depth = 1 + steps * ((space_.x_max - 1) / static_cast<double>(depths_));      // [D]
  const auto scaled = pixels.unsqueeze(-2) * depth.unsqueeze(-1);                          // [..., D, 3]
  const auto image = torch::cat({scaled, torch::ones_like(scaled.narrow(-1, 0, 1))}, -1);  // (u d, v d, w d, 1)
  const auto points = torch::matmul(image, image_to_lidar.transpose(-1, -2)).narrow(-1, 0, 3);
  const auto low = torch::tensor({space_.x_min, space_.y_min, space_.z_min}, points.options().requires_grad(false));
  const auto high = torch::tensor({space_.x_max, space_.y_max, space_.z_max}, points.options().requires_grad(false));
  const auto inputs = ((points - low) / (high - low)).flatten(-2);
  return two_layers(rv_first_, rv_second_, inputs.to(rv_first_->weight.scalar_type()));
}

torch::Tensor CmtPositionsImpl::keys(const nn::SensorScene& scene, std::int64_t batch) {
  const auto device = bev_first_->weight.device();
  auto grid = bev(cell_shares(scene.grid).to(device, bev_first_->weight.scalar_type())).unsqueeze(0);
  if (!has_cameras(scene)) return grid;
  const auto inverse = inverses(projections(scene)).to(device);  // [B, V, 4, 4]
  std::vector<torch::Tensor> parts{grid.expand({batch, -1, -1})};
  for (std::size_t v = 0; v < scene.cameras[0].size(); ++v) {
    const auto pixels = cell_pixels(scene.cameras[0][v], 0).to(device).unsqueeze(0);  // the corner, as in CMT
    parts.push_back(
        along_rays(pixels.expand({batch, -1, -1}), inverse.select(1, static_cast<std::int64_t>(v)).unsqueeze(1)));
  }
  return torch::cat(parts, 1);
}

torch::Tensor CmtPositionsImpl::queries(const torch::Tensor& points, const nn::SensorScene& scene) {
  const auto low = torch::tensor({space_.x_min, space_.y_min}, points.options().requires_grad(false));
  const auto extent =
      torch::tensor({space_.x_max - space_.x_min, space_.y_max - space_.y_min}, points.options().requires_grad(false));
  auto result = bev((points.narrow(-1, 0, 2) - low) / extent);
  if (!has_cameras(scene)) return result;
  const auto on_host = projections(scene);
  const auto matrices = on_host.to(points.device()), inverse = inverses(on_host).to(points.device());
  const auto exact = points.to(torch::kDouble);
  const auto homogeneous = torch::cat({exact, torch::ones_like(exact.narrow(-1, 0, 1))}, -1);  // [B, Q, 4]
  for (std::int64_t v = 0; v < matrices.size(1); ++v) {
    const auto image = torch::matmul(homogeneous, matrices.select(1, v).transpose(-1, -2));
    const auto depth = image.select(-1, 2).detach();
    const auto divisor = torch::where(depth > 0, depth + 1e-6, torch::full_like(depth, -1e-6)).unsqueeze(-1);
    const auto pixels = image.narrow(-1, 0, 3) / divisor;  // w is not quite 1, and depth learns through it alone
    const auto u = pixels.select(-1, 0), w = pixels.select(-1, 1);
    const auto& camera = scene.cameras[0][static_cast<std::size_t>(v)];
    const auto seen = (depth > 0) & (u >= 0) & (u < static_cast<double>(camera.width)) & (w >= 0) &
                      (w < static_cast<double>(camera.height));
    // Pixels that no camera sees may be huge; zeros keep them out of the sum without 0 * inf.
    const auto safe = torch::where(seen.unsqueeze(-1), pixels, torch::zeros_like(pixels));
    const auto embedded = along_rays(safe, inverse.select(1, v).unsqueeze(1));
    result = result + embedded * seen.unsqueeze(-1).to(embedded.scalar_type());
  }
  return result;
}

}  // namespace camber::detection
