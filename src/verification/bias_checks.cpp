#include <cmath>
#include <filesystem>

#include <unistd.h>

#include "camber/nn/attention_bias.h"
#include "camber/weights/load.h"
#include "verification/checklist.h"

namespace camber::verification {
namespace {

using nn::AttentionBias;
using nn::AttentionBiasOptions;
using nn::SensorScene;

constexpr std::int64_t kSide = 16, kColumns = 10, kRows = 6;

// A grid of 16 x 16 metres and two cameras of 10 x 6 cells that look forward and back.
SensorScene scene() {
  const auto camera = [](double sign) {
    return geometry::Camera{
        .name = sign > 0 ? "front" : "back",
        .width = 100,
        .height = 60,
        .columns = kColumns,
        .rows = kRows,
        .lidar_to_image = {sign * 50, sign * 50, 0, 0, 0, sign * 30, -50, 0, 0, sign, 0, 0, 0, 0, 0, 1}};
  };
  return {.grid = geometry::BevGrid(-8, 8, -8, 8, 1), .cameras = {{camera(1), camera(-1)}}};
}

// The dense bias [K] of one query at a point, with trust 1 for both sensors.
torch::Tensor bias_at(double x, double y, double z, std::int64_t bev_window, std::int64_t camera_window) {
  AttentionBias bias(AttentionBiasOptions{.bev_window = bev_window, .camera_window = camera_window});
  const auto world = scene();
  const auto projection = nn::project_queries(torch::tensor({x, y, z}, torch::kDouble).view({1, 1, 3}), world);
  const auto trust = torch::ones({1, 1, 2});
  const auto structured = bias->forward(trust, bias->windows(projection, world), world, 0);
  return structured.materialize(1, 1, world.layout().keys(), trust).flatten().detach();
}

double count(const torch::Tensor& part) {
  return part.ne(0).sum().item<double>();
}
torch::Tensor grid_part(const torch::Tensor& dense) {
  return dense.slice(0, 0, kSide * kSide);
}
torch::Tensor camera_part(const torch::Tensor& dense, std::int64_t camera) {
  const std::int64_t first = kSide * kSide + camera * kColumns * kRows;
  return dense.slice(0, first, first + kColumns * kRows).view({kRows, kColumns});
}

Seen corners() {
  const double lower = count(grid_part(bias_at(-7.9, -7.9, 0, 5, 3))), upper = count(grid_part(bias_at(8, 8, 0, 5, 3)));
  const double middle = count(grid_part(bias_at(0.5, 0.5, 0, 5, 3))),
               edge = count(grid_part(bias_at(-7.9, 0.5, 0, 5, 3)));
  return {"cells in middle, edge, corners: " + number(middle) + ", " + number(edge) + ", " + number(lower) + ", " +
              number(upper) + " (25, 15, 9, 9)",
          middle == 25 && edge == 15 && lower == 9 && upper == 9};
}

// A point in the front camera's last column: the window must not run on into the next row or the next camera.
Seen between_cameras() {
  const auto dense = bias_at(1.9, 2, 0, 3, 5);
  const auto front = camera_part(dense, 0);
  const double kept = count(front), wrapped = count(front.select(1, 0)), next = count(camera_part(dense, 1));
  return {
      number(kept) + " cells kept, " + number(wrapped) + " wrapped, " + number(next) + " in the next camera (15, 0, 0)",
      kept == 15 && wrapped == 0 && next == 0};
}

Seen outside() {
  const auto beyond = bias_at(9, 20, 0, 5, 3);
  const auto behind = bias_at(0.5, 0.05, 0, 5, 3);
  const double grid = count(grid_part(beyond)), cameras = count(camera_part(behind, 0)) + count(camera_part(behind, 1));
  return {number(grid) + " grid cells beyond the range, " + number(cameras) + " camera cells at no depth (0, 0)",
          grid == 0 && cameras == 0};
}

Seen every_camera() {
  auto world = scene();
  world.cameras[0][1] = world.cameras[0][0];  // two cameras that see the same point
  const auto projection = nn::project_queries(torch::tensor({0.0, 5.0, 0.0}, torch::kDouble).view({1, 1, 3}), world);
  return equal(projection.seen.sum().item<double>(), 3, "maps hold the point");
}

Seen signs() {
  AttentionBias bias(AttentionBiasOptions{});
  const auto trust = torch::tensor({1.0F, -0.5F}).view({1, 1, 2});
  const auto strength = bias->strength(trust, 3, 0).flatten();
  return {"LiDAR " + number(strength[0].item<double>()) + ", cameras " + number(strength[1].item<double>()) +
              " (2.5, -1.25)",
          strength[0].item<double>() == 2.5 && strength[1].item<double>() == -1.25};
}

Seen clip_gradient() {
  AttentionBias bias(AttentionBiasOptions{.clip = 2.5});
  const auto trust = torch::ones({1, 1, 2}).requires_grad_(true);
  bias->strength(trust, 3, 0).select(2, 0).sum().backward();
  return equal(trust.grad()[0][0][0].item<double>(), 2.5, "gradient at the clip");
}

// A bias in the second stage of its schedule of clips, saved and loaded into one that was just made.
Seen clip_after_load() {
  const AttentionBiasOptions options{.clip_schedule = {{.from_epoch = 0, .clip = 4}, {.from_epoch = 2, .clip = 1}}};
  AttentionBias saved(options), loaded(options);
  saved->apply_schedule(2, 0);
  const auto file =
      std::filesystem::temp_directory_path() / ("camber_verify_" + std::to_string(::getpid()) + ".safetensors");
  weights::write_state(file, weights::tensors_of(*saved), {});
  weights::load_whole(weights::StateFile(file), *loaded);
  std::filesystem::remove(file);
  const auto trust = torch::tensor({1.0F, -0.5F}).view({1, 1, 2});
  const auto before = saved->strength(trust, 3, 0), after = loaded->strength(trust, 3, 0);
  return {"LiDAR " + number(before.flatten()[0].item<double>()) + " before, " +
              number(after.flatten()[0].item<double>()) + " after (1, 1)",
          torch::equal(before, after) && before.max().item<double>() == 1};
}

// |bias| <= 10 keeps exp inside half precision; a little more than 11 does not.
Seen half_limits() {
  const auto at = [](double bias) {
    return torch::tensor(bias, torch::kDouble).exp().to(torch::kHalf).to(torch::kDouble).item<double>();
  };
  return {"exp(10) = " + number(at(10)) + ", exp(11.1) = " + number(at(11.1)) + " in half precision",
          std::isfinite(at(10)) && std::isinf(at(11.1))};
}

Seen half_values() {
  AttentionBias bias(AttentionBiasOptions{.precision = nn::BiasPrecision::kHalf, .scale = {.init = 5}});
  const auto world = scene();
  const auto projection = nn::project_queries(torch::tensor({0.5, 0.5, 0.0}, torch::kDouble).view({1, 1, 3}), world);
  const auto value =
      bias->forward(torch::full({1, 1, 2}, -1.0F), bias->windows(projection, world), world, 0).windows->value;
  return {"handed over as " + std::string(c10::toString(value.scalar_type())) + ", value " +
              number(value.min().item<double>()),
          value.scalar_type() == torch::kHalf && value.min().item<double>() == -5};
}

}  // namespace

void check_bias(Checklist& list) {
  list.section("bias");
  list.check("keys at reference size: 128*128 + 6*20*50",
             [] { return equal(static_cast<double>(geometry::KeyLayout::reference().keys()), 22384); });
  list.check("a window is cut at corners and borders of the grid", corners);
  list.check("a window never runs into the next row or camera", between_cameras);
  list.check("a point outside a map has no window there", outside);
  list.check("a point gets a window in every map that holds it", every_camera);
  list.check("value = weight * scale, negative weights included", signs);
  list.check("the clip's gradient passes at its bound", clip_gradient);
  list.check("a scheduled clip is the same after saving and loading", clip_after_load);
  list.check("half precision: a clip of 10 is safe, 11.1 is not", half_limits);
  list.check("half precision: values are handed over in half", half_values);
}

}  // namespace camber::verification
