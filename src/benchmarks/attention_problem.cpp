#include "benchmarks/attention_problem.h"

#include <cmath>
#include <numbers>
#include <stdexcept>
#include <utility>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>

#include "camber/geometry/key_layout.h"
#include "camber/ops/windows.h"
#include "camber/random/stream.h"

namespace camber::benchmarks {
namespace {

constexpr std::int64_t kCameras = 6;
constexpr std::int64_t kGridWindow = 5, kCameraWindow = 15;

// The maps behind a number of keys: a grid and the feature map of each of the six cameras.
struct Maps {
  geometry::BevGrid grid;
  std::int64_t columns, rows;

  std::int64_t keys() const { return grid.keys() + kCameras * columns * rows; }
};

const std::vector<Maps>& known_maps() {
  static const std::vector<Maps> all = {
      {.grid = geometry::BevGrid::reference(), .columns = 50, .rows = 20},
      {.grid = geometry::BevGrid(-54, 54, -54, 54, 0.6), .columns = 100, .rows = 40},
      {.grid = geometry::BevGrid(-20, 20, -25, 25, 1), .columns = 25, .rows = 20},
  };
  return all;
}

const Maps& maps_of(std::int64_t keys) {
  for (const Maps& maps : known_maps())
    if (maps.keys() == keys) return maps;
  throw std::logic_error("unknown number of keys");
}

// (column, row) of every query on every map, int64 [B, Q, M, 2]; -1 where the map does not hold it.
at::Tensor draw_cells(const AttentionBenchOptions& options) {
  const Maps& maps = maps_of(options.keys);
  std::vector<geometry::Camera> cameras;
  cameras.reserve(static_cast<std::size_t>(kCameras));
  for (std::int64_t c = 0; c < kCameras; ++c)
    cameras.push_back(camera_at(static_cast<double>(c) * std::numbers::pi / 3, maps.columns, maps.rows));
  random::Stream position(options.seed, "bench.places");
  auto cells = at::full({options.batch, options.queries, 1 + kCameras, 2}, -1, at::kLong);
  auto* cell = cells.data_ptr<std::int64_t>();
  for (std::int64_t query = 0; query < options.batch * options.queries; ++query) {
    const double x = position.uniform(maps.grid.x_min(), maps.grid.x_max());
    const double y = position.uniform(maps.grid.y_min(), maps.grid.y_max());
    const double z = position.uniform(-2, 1);
    for (std::int64_t m = 0; m <= kCameras; ++m, cell += 2) {
      const auto at = m == 0 ? maps.grid.cell_at(x, y) : cameras[static_cast<std::size_t>(m - 1)].cell_at({x, y, z});
      if (!at) continue;
      cell[0] = at->column;
      cell[1] = at->row;
    }
  }
  return cells;
}

}  // namespace

geometry::Camera camera_at(double heading, std::int64_t columns, std::int64_t rows) {
  constexpr std::int64_t kStride = 16;
  geometry::Camera camera{.width = kStride * columns, .height = kStride * rows, .columns = columns, .rows = rows};
  const double focal = static_cast<double>(camera.width) / 2 / std::tan(35.0 / 180 * std::numbers::pi);
  const double u = static_cast<double>(camera.width) / 2, v = static_cast<double>(camera.height) / 2;
  const double c = std::cos(heading), s = std::sin(heading);
  camera.lidar_to_image = {
      focal * s + u * c, -focal * c + u * s, 0, 0, v * c, v * s, -focal, 0, c, s, 0, 0, 0, 0, 0, 1};
  return camera;
}

AttentionProblem::AttentionProblem(AttentionBenchOptions options)
    : options_(std::move(options)), device_(nn::device_from(options_.device)) {}

at::Tensor AttentionProblem::kept(const std::string& name, const std::function<at::Tensor()>& make) {
  const auto found = tensors_.find(name);
  return found != tensors_.end() ? found->second : tensors_.emplace(name, make().to(device_)).first->second;
}

at::Tensor AttentionProblem::normal(const std::string& name, at::IntArrayRef shape, double deviation) {
  return kept(
      name,
      [&] {
        auto generator = at::make_generator<at::CPUGeneratorImpl>(random::Stream(options_.seed, "bench." + name).key());
        return at::empty(shape, at::kFloat).normal_(0, deviation, generator);
      });
}

at::Tensor AttentionProblem::rows(const char* which) {
  const std::string name = which;
  const bool of_queries = name == "q" || name == "gradient";
  return normal(name, {options_.batch, of_queries ? options_.queries : options_.keys, channels()});
}

at::Tensor AttentionProblem::q(std::int64_t heads, at::ScalarType type) {
  const auto all = kept(std::string("q as ") + c10::toString(type), [&] { return rows("q").to(type); });
  return all.view({batch(), queries(), heads, -1}).transpose(1, 2);
}

at::Tensor AttentionProblem::k(std::int64_t heads, at::ScalarType type) {
  const auto all = kept(std::string("k as ") + c10::toString(type), [&] { return rows("k").to(type); });
  return all.view({batch(), keys(), heads, -1}).transpose(1, 2);
}

at::Tensor AttentionProblem::v(std::int64_t heads, at::ScalarType type) {
  const auto all = kept(std::string("v as ") + c10::toString(type), [&] { return rows("v").to(type); });
  return all.view({batch(), keys(), heads, -1}).transpose(1, 2);
}

at::Tensor AttentionProblem::gradient(std::int64_t heads) {
  return rows("gradient").view({batch(), queries(), heads, -1}).transpose(1, 2);
}

ops::StructuredBias AttentionProblem::windows() {
  const auto row_offsets = kept("row_offsets", [&] {
    const Maps& maps = maps_of(options_.keys);
    const auto cells = draw_cells(options_);
    auto sizes = at::full({batch(), queries(), 1 + kCameras}, kCameraWindow, at::kInt);
    sizes.select(2, 0).fill_(kGridWindow);
    auto shape = at::empty({1 + kCameras, 2}, at::kLong);
    shape.select(1, 0).fill_(maps.columns);
    shape.select(1, 1).fill_(maps.rows);
    shape[0][0] = maps.grid.columns();
    shape[0][1] = maps.grid.rows();
    const auto index = ops::build_windows(cells, sizes, shape);
    tensors_["key_index"] = index.key_index.to(device_);
    return index.row_offsets;
  });
  const auto key_index = tensors_.at("key_index");
  const auto value = normal("window_value", {1, key_index.size(0)});
  const auto offsets = kept("segment_offsets", [&] {
    const Maps& maps = maps_of(options_.keys);
    std::vector<std::int64_t> edges = {0};
    for (std::int64_t m = 0; m <= kCameras; ++m) edges.push_back(maps.grid.keys() + m * maps.columns * maps.rows);
    return at::tensor(edges, at::kLong);
  });
  // Offsets of segments are read by the host.
  return {.windows = ops::Windows{row_offsets, key_index, value}, .segments = ops::Segments{.offsets = offsets.cpu()}};
}

at::Tensor AttentionProblem::segment_value() {
  return normal("segment_value", {batch(), 1, queries(), 1 + kCameras});
}

at::Tensor AttentionProblem::dense_bias() {
  return kept(
      "dense_bias", [&] { return windows().materialize(batch(), queries(), keys(), rows("q")).contiguous(); });
}

at::Tensor AttentionProblem::float_mask() {
  return normal("float_mask", {batch(), 1, queries(), keys()});
}

at::Tensor AttentionProblem::cameras_absent() {
  return kept(
      "cameras_absent",
      [&] {
        auto available = at::full({batch(), 1 + kCameras}, false, at::kBool);
        available.select(1, 0).fill_(true);
        return available;
      });
}

at::Tensor AttentionProblem::projection(std::int64_t part) {
  const std::int64_t c = channels();
  return normal("projection", {4 * c, c}, 1 / std::sqrt(static_cast<double>(c))).slice(0, part * c, (part + 1) * c);
}

std::int64_t AttentionProblem::window_entries() {
  return windows().windows->key_index.size(0);
}

std::int64_t AttentionProblem::grid_keys() const {
  return maps_of(options_.keys).grid.keys();
}

void AttentionBenchOptions::validate() const {
  const auto at_least_one = [](const char* name, std::int64_t value) {
    if (value < 1) throw std::invalid_argument(std::string(name) + " must be at least 1, got " + std::to_string(value));
  };
  at_least_one("batch", batch);
  at_least_one("heads", heads);
  at_least_one("width", width);
  at_least_one("queries", queries);
  at_least_one("repeats", repeats);
  std::string known;
  for (const Maps& maps : known_maps()) {
    if (maps.keys() == keys) return;
    known += (known.empty() ? "" : ", ") + std::to_string(maps.keys());
  }
  throw std::invalid_argument("keys must be one of " + known + ", whose maps are known, got " + std::to_string(keys));
}

}  // namespace camber::benchmarks
