#include <ATen/TensorIndexing.h>

#include "camber/detection/box_coding.h"
#include "camber/detection/cmt_head.h"
#include "detection/denoising.h"
#include "detection/position_embedding.h"
#include "detection/task_heads.h"

namespace camber::detection {

/// What one forward pass carries from step to step; N = D + Q queries, denoising ones first.
struct CmtHeadImpl::Pass {
  const HeadMemory& memory;
  torch::Tensor references{};              // [B, N, 3], of the layer at hand
  torch::Tensor query_position{};          // [B, N, C], of the first layer
  std::optional<torch::Tensor> blocked{};  // of the self-attention
  nn::QueryProjection projection{};
  torch::Tensor trust{};  // [B, N, X]
  nn::BiasWindows windows{};
  std::vector<torch::Tensor> logits{}, codes{};  // of the layers so far
  std::vector<LayerBias> layer_bias{};           // likewise, with statistics
  torch::Tensor segment_offsets{};
  SensorAgreement agreement{};
};

namespace {

torch::Tensor shuffled(const torch::Tensor& trust, std::uint64_t seed) {
  return trust.index_select(
      1, torch::tensor(random::Stream(seed, "shuffle").permutation(trust.size(1))).to(trust.device()));
}

// The true quality of each sensor as trust, 2 q - 1, the same for all queries of a frame: it tells nothing of objects.
torch::Tensor oracle_trust(const DetectorBatch& batch, std::int64_t sensors, std::int64_t queries) {
  return (2 * by_sensor(batch.quality, sensors) - 1).unsqueeze(1).expand({batch.size, queries, sensors});
}

// Ranks draw numbers of their own; a batch that is no share of another draws those of a single process.
std::uint64_t dropout_key(const char* name, const ForwardOptions& options) {
  const auto stream = random::Stream(options.seed, name).at(static_cast<std::uint64_t>(options.step));
  return options.first_frame == 0 ? stream.key() : stream.at(static_cast<std::uint64_t>(options.first_frame)).key();
}

LayerBias layer_bias(const ops::StructuredBias& bias, const DetectorBatch& batch) {
  LayerBias layer{.bias = bias, .available = batch.available, .grid_keys = batch.scene.grid.keys()};
  if (bias.windows) layer.bias.windows->value = bias.windows->value.detach();
  if (bias.segments && bias.segments->value) layer.bias.segments->value = bias.segments->value->detach();
  return layer;
}

// The last channels of the bird's-eye map, [B, rows * columns, 4].
torch::Tensor motion_in(const KeyMaps& maps, const DetectorBatch& batch, const torch::Tensor& like) {
  constexpr std::int64_t kNumbers = kCodeSize - kHeadingIndex;
  if (!maps.bev.defined())
    return torch::zeros({batch.size, batch.scene.grid.keys(), kNumbers}, like.options().requires_grad(false));
  const auto last = maps.bev.narrow(1, maps.bev.size(1) - kNumbers, kNumbers);
  return last.permute({0, 2, 3, 1}).flatten(1, 2).to(like.scalar_type());  // autocast may have lowered it
}

// What a map [B, rows * columns, n] holds below the points [B, N, 3], those beyond the grid at its border: [B, N, n].
torch::Tensor below(const torch::Tensor& map, const torch::Tensor& points, const geometry::BevGrid& grid) {
  const auto cell_of = [&](std::int64_t axis, double first, std::int64_t cells) {
    return ((points.detach().select(-1, axis) - first) / grid.cell()).floor().clamp(0, cells - 1);
  };
  const auto column = cell_of(0, grid.center_x(0) - grid.cell() / 2, grid.columns());
  const auto row = cell_of(1, grid.center_y(0) - grid.cell() / 2, grid.rows());
  const auto cell = (row * grid.columns() + column).nan_to_num(0).to(torch::kLong);
  return map.gather(1, cell.unsqueeze(-1).expand({-1, -1, map.size(2)}));
}

}  // namespace

AddedBias LayerBias::added() const {
  const torch::NoGradGuard guard;
  AddedBias added;
  if (bias.windows) {
    const auto entries = bias.windows->row_offsets[-1].item<std::int64_t>();  // a device's list may be longer
    const auto value = bias.windows->value.slice(1, 0, entries);              // [Hb, nnz]
    const auto in_grid = bias.windows->key_index.slice(0, 0, entries) < grid_keys;
    added.lidar_windows = value.index({at::indexing::Slice(), in_grid});
    added.camera_windows = value.index({at::indexing::Slice(), ~in_grid});
  }
  if (bias.segments && bias.segments->value) {
    const auto by_map = bias.segments->value->permute({3, 0, 1, 2});  // [M, B, Hb, Q]
    const auto delivers = available.to(by_map.device()).t();
    added.lidar_segment = by_map.slice(0, 0, 1).index({delivers.slice(0, 0, 1)});
    added.camera_segments = by_map.slice(0, 1).index({delivers.slice(0, 1)});
  }
  return added;
}

torch::Tensor CmtHeadImpl::trust_of(const Pass& pass, const DetectorBatch& batch, const ForwardOptions& options) {
  const std::int64_t queries = pass.references.size(1), sensors = options_.num_sensors();
  TORCH_CHECK_VALUE(!options_.bias.per_camera || sensors == batch.scene.num_maps(),
                    "[Detector] router.num_sensors must be 1 + the number of cameras with bias.per_camera, ",
                    batch.scene.num_maps(), ", got ", sensors);
  const auto type = pass.query_position.options().requires_grad(false);  // the memory may be in bfloat16
  const auto oracle = [&] { return oracle_trust(batch, sensors, queries).to(type); };
  if (options.trust == TrustControl::kOracle) return oracle();
  if (options.trust == TrustControl::kZero || (!is_training() && !is_bias(policy_of(options))))
    return torch::zeros({batch.size, queries, sensors}, pass.query_position.options());
  nn::RouterInputs inputs{.query_position = pass.query_position,
                          .memory = pass.memory.content.to(type),
                          .memory_position = pass.memory.position.to(type),
                          .projected_memory = pass.memory.router,
                          .projection = pass.projection,
                          .scene = &batch.scene};
  inputs.cues = {.age = by_sensor(batch.age, sensors).to(type), .level = by_sensor(batch.level, sensors).to(type)};
  inputs.shuffle_seed = options.seed;
  inputs.dropout_seed = dropout_key("dropout.router", options);
  if (options_.router.mode == nn::RouterMode::kOracle) inputs.labels = oracle();
  if (options_.router.mode == nn::RouterMode::kAgree) inputs.agreement = pass.agreement.numbers().to(type);
  auto trust = router->forward(inputs);
  switch (options.trust) {
    case TrustControl::kMean:
      return trust.mean(1, true).expand_as(trust);
    case TrustControl::kShuffled:
      return shuffled(trust, options.seed);
    default:
      return trust;
  }
}

LayerBoxes CmtHeadImpl::boxes_of(const torch::Tensor& state, const torch::Tensor& references, std::int64_t layer) {
  const auto outputs = heads_->forward(state, layer);
  return {outputs.logits, codes_of(outputs.raw, references)};
}

void CmtHeadImpl::predict(Pass& pass, std::int64_t layer, const torch::Tensor& state) {
  auto boxes = boxes_of(state, pass.references, layer);
  if (pass.memory.motion.defined() && layer > 0) {
    // References are by now the centres that the layer before found: the cell knows how what stands there moves.
    const auto known = below(pass.memory.motion, pass.references, options_.space.grid());
    boxes.codes = torch::cat({boxes.codes.narrow(-1, 0, kHeadingIndex),
                              boxes.codes.narrow(-1, kHeadingIndex, kCodeSize - kHeadingIndex) + known},
                             -1);
  }
  pass.logits.push_back(boxes.logits);
  pass.codes.push_back(boxes.codes);
}

ops::StructuredBias CmtHeadImpl::bias_of(Pass& pass, const DetectorBatch& batch, std::int64_t layer) {
  if (!attention_bias) return {.segments = ops::Segments{.offsets = pass.segment_offsets}};
  if (layer > 0 && options_.bias.centre == nn::WindowCentre::kRefined) {
    auto boxes = decode_boxes(pass.codes.back().detach(), options_.head.box_code);
    // Sizes that follow objects are the host's to find: boxes are copied there once for both of their readers.
    if (options_.bias.sizing == nn::WindowSizing::kObject) boxes = boxes.cpu();
    const auto projection = nn::project_queries(boxes.narrow(-1, 0, 3), batch.scene, batch.available);
    pass.windows = attention_bias->windows(projection, batch.scene, boxes.narrow(-1, 0, 7));
  }
  return attention_bias->forward(pass.trust, pass.windows, batch.scene, layer);
}

nn::DecoderOutput CmtHeadImpl::decode_queries(Pass& pass, const DetectorBatch& batch, const ForwardOptions& options) {
  nn::DecoderInputs inputs{.target = query_start(pass.query_position),
                           .query_position = pass.query_position,
                           .memory = pass.memory.content,
                           .memory_position = pass.memory.position,
                           .projected_memory = pass.memory.decoder,
                           .self_blocked = pass.blocked,
                           .cross_masks = {.segment_available = batch.available.to(pass.query_position.device())},
                           .implementation = options.implementation};
  inputs.dropout_seed = dropout_key("dropout.decoder", options);
  if (options.statistics)
    inputs.statistics_from = 0;
  else if (options.attention_mass)
    inputs.statistics_from = options_.head.decoder.num_layers - 1;
  const bool follow =
      options_.head.refine || (options_.has_router() && options_.bias.centre == nn::WindowCentre::kRefined);
  if (follow)
    inputs.refined_position = [&](std::int64_t layer, const torch::Tensor& previous) {
      predict(pass, layer - 1, previous);
      if (!options_.head.refine) return pass.query_position;
      const auto& code = pass.codes.back();
      const std::int64_t height = height_index(options_.head.box_code);
      pass.references = torch::cat({code.narrow(-1, 0, 2), code.narrow(-1, height, 1)}, -1).detach();
      return query_positions(pass.references, batch);
    };
  inputs.bias = [&](std::int64_t layer, const torch::Tensor&) {
    auto bias = bias_of(pass, batch, layer);
    if (options.statistics && attention_bias) pass.layer_bias.push_back(layer_bias(bias, batch));
    return bias;
  };
  auto decoded = decoder->forward(inputs);
  for (auto layer = static_cast<std::int64_t>(pass.logits.size()); layer < options_.head.decoder.num_layers; ++layer)
    predict(pass, layer, decoded.states.select(0, layer));
  return decoded;
}

HeadMemory CmtHeadImpl::memory_at(const KeyMaps& maps, const DetectorBatch& batch,
                                  const std::optional<torch::Tensor>& positions) {
  const auto content = memory_of(maps, batch);
  const auto known = positions ? *positions : positions_->keys(batch.scene, batch.size);
  HeadMemory memory{.content = content, .position = known.to(content.scalar_type()).expand({batch.size, -1, -1})};
  if (options_.head.dense_motion) memory.motion = motion_in(maps, batch, reference_points_);
  return memory;
}

HeadMemory CmtHeadImpl::remember(const KeyMaps& maps, const DetectorBatch& batch) {
  TORCH_CHECK(!is_training(), "[CmtHead] remember must be called in eval mode");
  HeadMemory memory = memory_at(maps, batch, std::nullopt);
  memory.decoder = decoder->project_memory(memory.content, memory.position);
  const auto type = reference_points_.scalar_type();
  if (router) memory.router = router->project_memory(memory.content.to(type), memory.position.to(type));
  return memory;
}

DetectorOutput CmtHeadImpl::forward(const KeyMaps& maps, const DetectorBatch& batch, const DenoisingQueries& denoising,
                                    const ForwardOptions& options, const std::optional<torch::Tensor>& positions) {
  if (options.dense_alone) return dense_output(maps, batch, options);
  return forward(memory_at(maps, batch, positions), batch, denoising, options);
}

TrustPolicy CmtHeadImpl::policy_of(const ForwardOptions& options) const {
  return options.policy.value_or(options_.alarms.policy);
}

// [B, grid keys, C] and [B, camera keys, C].
std::pair<torch::Tensor, torch::Tensor> CmtHeadImpl::dense_logits(const HeadMemory& memory,
                                                                  const DetectorBatch& batch) {
  const std::int64_t grid_keys = batch.scene.grid.keys();
  const std::int64_t camera_keys = memory.content.size(1) - grid_keys;
  const auto logits_of = [&](torch::nn::Linear& classes, std::int64_t from, std::int64_t count) {
    return classes->forward(memory.content.narrow(1, from, count).to(classes->weight.scalar_type()));
  };
  auto grid = logits_of(grid_classes_, 0, grid_keys);
  return {std::move(grid), logits_of(camera_classes_, grid_keys, camera_keys)};
}

// Outside of the graph: whether it is asked for, for statistics say, changes no bit of a gradient.
SensorAgreement CmtHeadImpl::agreement_if_asked(const HeadMemory& memory, const DetectorBatch& batch,
                                                const torch::Tensor& references, const ForwardOptions& options) {
  const bool asked = !is_training() || options.statistics || options_.head.agreement_input ||
                     options_.router.mode == nn::RouterMode::kAgree;
  if (!grid_classes_ || !asked) return {};
  const torch::NoGradGuard no_grad;
  const auto [grid, camera] = dense_logits(memory, batch);
  return agreement_of(grid, camera, nn::project_queries(references.detach(), batch.scene, batch.available),
                      batch.scene);
}

SensorAgreement CmtHeadImpl::agreement(const HeadMemory& memory, const DetectorBatch& batch) {
  TORCH_CHECK(!is_training(), "[CmtHead] agreement must be asked for in eval mode");
  return agreement_if_asked(memory, batch, references().unsqueeze(0).expand({batch.size, -1, -1}), {});
}

// Keys as inference has them: what makes them does not learn.
DetectorOutput CmtHeadImpl::dense_output(const KeyMaps& maps, const DetectorBatch& batch,
                                         const ForwardOptions& options) {
  TORCH_CHECK_VALUE(grid_classes_, "[Detector] dense_alone must be false without head.dense_auxiliary, got true");
  HeadMemory memory;
  {
    const torch::NoGradGuard no_grad;
    memory.content = memory_of(maps, batch);
  }
  DetectorOutput output;
  output.references = references().detach().unsqueeze(0).expand({batch.size, -1, -1});
  output.agreement = agreement_if_asked(memory, batch, output.references, options);
  std::tie(output.grid_logits, output.camera_logits) = dense_logits(memory, batch);
  return output;
}

DetectorOutput CmtHeadImpl::forward(const HeadMemory& memory, const DetectorBatch& given,
                                    const DenoisingQueries& denoising, const ForwardOptions& options) {
  Pass pass{.memory = memory};
  DetectorOutput output;
  output.references = references().unsqueeze(0).expand({given.size, -1, -1});
  output.agreement = agreement_if_asked(memory, given, output.references, options);
  pass.agreement = output.agreement;
  if (!options.earlier_agreement.empty() && pass.agreement.defined())
    pass.agreement.frame = torch::full_like(pass.agreement.frame,
                                            smoothed(options.earlier_agreement, pass.agreement.frame.item<double>()));
  if (!is_training()) check_policy(options_, policy_of(options));
  DetectorBatch batch =
      is_training() ? given : under_policy(given, policy_of(options), options_.alarms, pass.agreement);
  if (agreement_input_) batch.agreement = pass.agreement.numbers();
  pass.segment_offsets = torch::tensor(batch.scene.layout().segment_offsets(), torch::kLong);
  const auto& learned = output.references;
  const std::int64_t extra = denoising.count, queries = options_.head.num_queries;
  pass.references = extra > 0 ? torch::cat({denoising.references.to(learned.options()), learned}, 1) : learned;
  if (extra > 0) pass.blocked = denoising_mask(denoising, queries).to(learned.device());
  pass.query_position = query_positions(pass.references, batch);
  if (router) {
    pass.projection = nn::project_queries(pass.references, batch.scene, batch.available);
    pass.trust = trust_of(pass, batch, options);
    pass.windows = attention_bias->windows(pass.projection, batch.scene);
    output.trust = pass.trust.narrow(1, extra, queries);
    if (extra > 0) output.denoising_trust = pass.trust.narrow(1, 0, extra);
  }
  const auto decoded = decode_queries(pass, batch, options);
  const auto logits = torch::stack(pass.logits), codes = torch::stack(pass.codes);
  output.class_logits = logits.narrow(2, extra, queries);
  output.codes = codes.narrow(2, extra, queries);
  output.denoising = denoising;
  if (extra > 0) {
    output.denoising_logits = logits.narrow(2, 0, extra);
    output.denoising_codes = codes.narrow(2, 0, extra);
  }
  if (options.statistics) output.statistics = decoded.statistics;
  output.layer_bias = std::move(pass.layer_bias);
  if (options.statistics || options.attention_mass)
    output.attention_mass = decoded.statistics.back().segment_mass.mean(1).narrow(1, extra, queries);
  if (grid_classes_ && is_training()) std::tie(output.grid_logits, output.camera_logits) = dense_logits(memory, batch);
  if (is_training()) output.grid_motion = memory.motion;
  return output;
}

}  // namespace camber::detection
