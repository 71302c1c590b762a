
#include "camber/detection/cmt_head.h"

#include <algorithm>
#include <cmath>

#include "camber/detection/box_coding.h"
#include "camber/nn/affine.h"
#include "detection/denoising.h"
#include "detection/initial_values.h"
#include "detection/normed_convolution.h"
#include "detection/position_embedding.h"
#include "detection/task_heads.h"

namespace camber::detection {
namespace {

constexpr double kCellBias = -4;

// The positions of a regular grid over the space that lie nearest to its middle, [count, 3].
torch::Tensor fixed_references(const DetectorOptions& options) {
  const auto count = options.head.num_queries;
  const auto side = static_cast<std::int64_t>(std::ceil(std::sqrt(1.2 * static_cast<double>(count)) - 1e-9));
  const auto& space = options.space;
  struct Position {
    double x, y, squared;
  };
  std::vector<Position> positions;
  for (std::int64_t row = 0; row < side; ++row)
    for (std::int64_t column = 0; column < side; ++column) {
      const auto along = [&](std::int64_t i) { return (static_cast<double>(i) + 0.5) / static_cast<double>(side); };
      const double x = (along(column) - 0.5) * (space.x_max - space.x_min);
      const double y = (along(row) - 0.5) * (space.y_max - space.y_min);
      positions.push_back({x + (space.x_min + space.x_max) / 2, y + (space.y_min + space.y_max) / 2, x * x + y * y});
    }
  // Equal distances (to rounding) keep their order, so that the choice is the same everywhere.
  std::stable_sort(positions.begin(), positions.end(),
                   [](const Position& a, const Position& b) { return a.squared < b.squared - 1e-6; });
  auto references = torch::empty({count, 3}, torch::kFloat);
  auto* out = references.data_ptr<float>();
  for (std::int64_t i = 0; i < count; ++i) {
    *out++ = static_cast<float>(positions[static_cast<std::size_t>(i)].x);
    *out++ = static_cast<float>(positions[static_cast<std::size_t>(i)].y);
    *out++ = static_cast<float>(options.head.reference_height);
  }
  return references;
}

torch::Tensor low_corner(const SpaceOptions& space, const torch::Tensor& like) {
  return torch::tensor({space.x_min, space.y_min, space.z_min}, like.options().requires_grad(false));
}

torch::Tensor extent_of(const SpaceOptions& space, const torch::Tensor& like) {
  return torch::tensor({space.x_max - space.x_min, space.y_max - space.y_min, space.z_max - space.z_min},
                       like.options().requires_grad(false));
}

}  // namespace

torch::Tensor by_sensor(const torch::Tensor& by_map, std::int64_t sensors) {
  if (by_map.size(1) == sensors) return by_map;
  const auto lidar = by_map.select(1, 0), cameras = by_map.slice(1, 1);
  return torch::stack({lidar, cameras.size(1) > 0 ? cameras.mean(1) : torch::zeros_like(lidar)}, 1);
}

CmtHeadImpl::CmtHeadImpl(const DetectorOptions& options) : options_(options) {
  const auto& head = options.head;
  const std::int64_t width = head.decoder.width, classes = options.num_classes();
  if (head.shared_convolution) {
    shared_conv_ = register_module(
        "shared_conv",
        torch::nn::Conv2d(torch::nn::Conv2dOptions(options.encoder.bev_channels, width, 3).padding(1).bias(false)));
    shared_norm_ = register_module("shared_norm", nn::BatchNorm2d(width));
    shared_layer_ = std::make_shared<NormedConvolution>();
  }
  if (options.encoder.camera_channels != width)
    camera_projection_ = register_module(
        "camera_projection", torch::nn::Conv2d(torch::nn::Conv2dOptions(options.encoder.camera_channels, width, 1)));
  if (head.token_norm) {
    grid_norm_ = register_module("grid_norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
    camera_norm_ = register_module("camera_norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
  }
  if (head.position_embedding == PositionEmbedding::kCmt)
    positions_ = register_module("positions", std::make_shared<CmtPositionsImpl>(options));
  else
    positions_ = register_module("positions", std::make_shared<SplitPositionsImpl>(options));
  if (head.references == References::kLearned)
    reference_points_ = register_parameter("reference_points", torch::zeros({head.num_queries, 3}));
  else
    reference_points_ = register_buffer("reference_points", fixed_references(options));
  decoder = register_module("decoder", nn::TransformerDecoder(head.decoder));
  heads_ = register_module("task_heads", std::make_shared<TaskHeadsImpl>(head.decoder.num_layers, width,
                                                                         head.head_width, classes, head.task_kernel));
  if (head.dense_auxiliary) {
    grid_classes_ = register_module("grid_classes", torch::nn::Linear(width, classes));
    camera_classes_ = register_module("camera_classes", torch::nn::Linear(width, classes));
  }
  if (head.query_start == QueryStart::kPosition)
    query_start_ = register_module("query_start", torch::nn::Linear(width, width));
  if (head.cue_input)
    cue_input_ = register_module(
        "cue_input", torch::nn::Linear(torch::nn::LinearOptions(2 * options.num_sensors(), width).bias(false)));
  if (head.agreement_input)
    agreement_input_ = register_module(
        "agreement_input", torch::nn::Linear(torch::nn::LinearOptions(nn::kAgreementNumbers, width).bias(false)));
  if (!options.has_router()) return;
  router = register_module("router", nn::QueryRouter(options.router));
  attention_bias = register_module("attention_bias", nn::AttentionBias(options.bias));
}

void CmtHeadImpl::initialise(std::uint64_t seed, const std::string& prefix) {
  const torch::NoGradGuard guard;
  const auto stream = [&](const std::string& name) { return random::Stream(seed, "initial." + prefix + "." + name); };
  positions_->initialise(seed, prefix + ".positions");
  heads_->set_class_bias(options_.head.class_bias);
  if (options_.head.references == References::kLearned)
    fill_uniform(reference_points_, stream("reference_points"), 0, 1);
  if (grid_classes_) {
    grid_classes_->bias.fill_(kCellBias);
    camera_classes_->bias.fill_(kCellBias);
  }
  if (query_start_) {  // the first look compares positions alone
    query_start_->weight.zero_();
    query_start_->bias.zero_();
  }
  if (cue_input_) cue_input_->weight.zero_();
  if (agreement_input_) agreement_input_->weight.zero_();
  if (options_.head.position_embedding != PositionEmbedding::kSplit) return;
  // W_q = W_k, and each half of the channels to its own half of the heads: a query compares positions with positions.
  const std::int64_t width = options_.head.decoder.width, half = width / 2;
  for (std::int64_t i = 0; i < options_.head.decoder.num_layers; ++i) {
    auto weight = decoder->layers[static_cast<std::size_t>(i)]->as<nn::DecoderLayer>()->cross_attention->in_proj_weight;
    auto query = weight.narrow(0, 0, width);
    query.zero_();
    for (std::int64_t part = 0; part < 2; ++part)
      fill_orthogonal(query.narrow(0, part * half, half).narrow(1, part * half, half),
                      stream("decoder.layers." + std::to_string(i) + ".comparison." + std::to_string(part)), 1);
    weight.narrow(0, width, width).copy_(query);
  }
}

torch::Tensor CmtHeadImpl::references() const {
  if (options_.head.references == References::kFixed) return reference_points_;
  const auto inside = torch::sigmoid(inverse_sigmoid(reference_points_));
  return inside * extent_of(options_.space, inside) + low_corner(options_.space, inside);
}

torch::Tensor CmtHeadImpl::key_positions(const nn::SensorScene& scene, std::int64_t batch) {
  return positions_->keys(scene, batch);
}

torch::Tensor CmtHeadImpl::memory_of(const KeyMaps& maps, const DetectorBatch& batch) {
  TORCH_CHECK_VALUE(batch.scene.has_grid, "[Detector] scene must have a grid: its first keys are the detector's map");
  const std::int64_t width = options_.head.decoder.width, grid_keys = batch.scene.grid.keys();
  const auto& present = maps.bev.defined() ? maps.bev : maps.cameras.defined() ? maps.cameras : reference_points_;
  const auto type = present.options().requires_grad(false);
  torch::Tensor grid = torch::zeros({batch.size, grid_keys, width}, type);
  if (maps.bev.defined()) {
    auto map = maps.bev.narrow(1, 0, options_.encoder.bev_channels);
    if (shared_conv_) map = (*shared_layer_)(*shared_conv_, *shared_norm_, map);
    grid = map.permute({0, 2, 3, 1}).flatten(1, 2);
    if (grid_norm_) grid = grid_norm_->forward(grid);
  }
  const std::int64_t camera_keys = batch.scene.layout().keys() - grid_keys;
  if (camera_keys == 0) return grid;
  torch::Tensor cameras = torch::zeros({batch.size, camera_keys, width}, type);
  if (maps.cameras.defined()) {
    cameras = maps.cameras;
    if (camera_projection_)
      cameras = nn::affine(cameras, camera_projection_->weight.flatten(1), camera_projection_->bias);
    if (camera_norm_) cameras = camera_norm_->forward(cameras);
  }
  return torch::cat({grid, cameras}, 1);
}

torch::Tensor CmtHeadImpl::query_positions(const torch::Tensor& references, const DetectorBatch& batch) {
  auto position = positions_->queries(references, batch.scene);
  if (cue_input_) {
    const auto cues = torch::cat(
        {by_sensor(batch.age, options_.num_sensors()) - 0.5, by_sensor(batch.level, options_.num_sensors())}, 1);
    position = position + cue_input_->forward(cues.to(position.options().requires_grad(false))).unsqueeze(1);
  }
  if (agreement_input_)
    position =
        position + agreement_input_->forward(batch.agreement.to(position.options().requires_grad(false))).unsqueeze(1);
  return position;
}

torch::Tensor CmtHeadImpl::query_start(const torch::Tensor& query_position) {
  return query_start_ ? query_start_->forward(query_position) : torch::zeros_like(query_position);
}

torch::Tensor CmtHeadImpl::codes_of(const torch::Tensor& raw, const torch::Tensor& references) const {
  const auto moved = raw.narrow(-1, 0, 3), rest = raw.narrow(-1, 3, kCodeSize - 3);
  if (options_.head.centre == Centre::kOffset) {
    const auto stride = torch::tensor({options_.head.offset_stride, options_.head.offset_stride, 1.0},
                                      raw.options().requires_grad(false));
    return torch::cat({references + moved * stride, rest}, -1);
  }
  const auto low = low_corner(options_.space, raw), extent = extent_of(options_.space, raw);
  const auto start = inverse_sigmoid((references - low) / extent);
  return torch::cat({torch::sigmoid(moved + start) * extent + low, rest}, -1);
}

}  // namespace camber::detection
