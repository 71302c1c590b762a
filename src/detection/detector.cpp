#include "camber/detection/detector.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "camber/detection/box_coding.h"
#include "camber/detection/cmt_head.h"
#include "camber/nn/batch_norm.h"
#include "detection/denoising.h"
#include "detection/encoders.h"
#include "detection/initial_values.h"
#include "detection/losses.h"
#include "detection/position_cache.h"

namespace camber::detection {
namespace {

// Puts rows of the elements that were encoded back among those that were not, which stay zero.
torch::Tensor scatter_rows(const torch::Tensor& encoded, const torch::Tensor& elements, std::int64_t total) {
  if (elements.size(0) == total) return encoded;
  auto sizes = encoded.sizes().vec();
  sizes[0] = total;
  return torch::zeros(sizes, encoded.options()).index_copy(0, elements.to(encoded.device()), encoded);
}

// Batch elements whose LiDAR delivers.
torch::Tensor with_lidar(const DetectorBatch& batch) {
  return batch.available.select(1, 0).nonzero().squeeze(1);
}

// Images of cameras that deliver, of each run.
std::vector<torch::Tensor> delivered_images(const DetectorBatch& batch) {
  std::vector<torch::Tensor> runs;
  std::int64_t first = 1;
  for (const auto& run : batch.images) {
    runs.push_back(batch.available.narrow(1, first, run.size(1)).reshape({-1}).nonzero().squeeze(1));
    first += run.size(1);
  }
  return runs;
}

// Whether a gradient is wanted of an encoder or of what enters it. One that is frozen records nothing: its activations
// are freed as it goes, and it runs as in inference.
bool wants_gradient(const torch::nn::Module& encoder, const torch::Tensor& input) {
  if (!torch::GradMode::is_enabled()) return false;
  const auto parameters = encoder.parameters();
  return input.requires_grad() ||
         std::any_of(parameters.begin(), parameters.end(), [](const torch::Tensor& p) { return p.requires_grad(); });
}

// Maps that other encoders made; refuses shapes that are not the options'.
KeyMaps given_maps(const DetectorBatch& batch, const EncoderOptions& options, torch::Device device) {
  KeyMaps maps{.bev = batch.bev_features.defined() ? batch.bev_features.to(device) : batch.bev_features, .cameras = {}};
  const auto& grid = batch.scene.grid;
  TORCH_CHECK_VALUE(!maps.bev.defined() || maps.bev.sizes() == torch::IntArrayRef({batch.size, options.bev_channels,
                                                                                   grid.rows(), grid.columns()}),
                    "[Detector] bev_features must be [", batch.size, ", ", options.bev_channels, ", ", grid.rows(),
                    ", ", grid.columns(), "], got ", maps.bev.sizes());
  std::vector<torch::Tensor> runs;
  std::int64_t keys = 0;
  for (const auto& run : batch.camera_features) {
    TORCH_CHECK_VALUE(run.dim() == 5 && run.size(0) == batch.size && run.size(2) == options.camera_channels,
                      "[Detector] camera_features must be [", batch.size, ", cameras, ", options.camera_channels,
                      ", rows, columns], got ", run.sizes());
    runs.push_back(run.to(device).permute({0, 1, 3, 4, 2}).flatten(1, 3));
    keys += runs.back().size(1);
  }
  if (runs.empty()) return maps;
  const std::int64_t expected = batch.scene.layout().keys() - grid.keys();
  TORCH_CHECK_VALUE(keys == expected, "[Detector] camera_features must hold the cells of the rig's maps, ", expected,
                    ", got ", keys);
  maps.cameras = torch::cat(runs, 1);
  return maps;
}

std::int64_t most_objects(const DetectorBatch& batch, distributed::ProcessGroup* group) {
  std::int64_t most = 0;
  for (const auto& targets : batch.targets) most = std::max(most, targets.labels.size(0));
  return group == nullptr ? most : static_cast<std::int64_t>(group->largest({static_cast<double>(most)})[0]);
}

// Where centres of boxes may lie: as the options say, or a tenth beyond the space: boxes may reach out of it, wild ones
// may not.
struct CentreLimits {
  std::array<double, 3> low{}, high{};
};

CentreLimits centre_limits(const DetectorOptions& options) {
  const auto& given = options.head.centre_limits;
  if (!given.empty()) return {{given[0], given[1], given[2]}, {given[3], given[4], given[5]}};
  const auto& space = options.space;
  CentreLimits limits{{space.x_min, space.y_min, space.z_min - 4}, {space.x_max, space.y_max, space.z_max + 6}};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const double room = 0.1 * (limits.high[axis] - limits.low[axis]);
    limits.low[axis] -= room;
    limits.high[axis] += room;
  }
  return limits;
}

}  // namespace

struct DetectorImpl::Parts {
  std::shared_ptr<LidarEncoderImpl> lidar_encoder;  // null: features come from outside, or there is no such sensor
  std::shared_ptr<CameraEncoderImpl> camera_encoder;
  CmtHead head{nullptr};
  PositionCache positions;
  std::shared_ptr<distributed::ProcessGroup> group;  // null: batches are whole
  bool statistics = false;                           // batch norms measure the whole batch
};

DetectorImpl::DetectorImpl(DetectorOptions options, std::uint64_t seed)
    : options_(std::move(options)), parts_(std::make_unique<Parts>()) {
  options_.validate();
  if (options_.encoder.kind == EncoderKind::kSmall) {
    parts_->lidar_encoder = register_module("lidar_encoder", make_small_lidar_encoder(options_));
    parts_->camera_encoder = register_module("camera_encoder", make_small_camera_encoder(options_));
  } else if (options_.encoder.kind == EncoderKind::kReference) {
    parts_->lidar_encoder = register_module("lidar_encoder", make_reference_lidar_encoder(options_));
    parts_->camera_encoder = register_module("camera_encoder", make_reference_camera_encoder(options_));
  } else if (options_.encoder.kind == EncoderKind::kCmt) {
    if (options_.uses_lidar())
      parts_->lidar_encoder = register_module("lidar_encoder", make_cmt_lidar_encoder(options_));
    if (options_.uses_cameras())
      parts_->camera_encoder = register_module("camera_encoder", make_cmt_camera_encoder(options_));
  }
  parts_->head = register_module("head", CmtHead(options_));
  initialise_by_name(*this, seed);
  parts_->head->initialise(seed, "head");
}

DetectorImpl::~DetectorImpl() = default;

void DetectorImpl::share_batches(std::shared_ptr<distributed::ProcessGroup> group, bool statistics) {
  parts_->group = group && !group->is_alone() ? std::move(group) : nullptr;
  parts_->statistics = parts_->group && statistics;
  nn::share_statistics(*this, statistics ? parts_->group : nullptr);
}

GroupedPoints DetectorImpl::voxelise(const DetectorBatch& batch) const {
  if (!parts_->lidar_encoder) return {};
  return parts_->lidar_encoder->group(batch.points, batch.point_offsets, with_lidar(batch));
}

torch::ScalarType DetectorImpl::map_type() const {
  if (!options_.in_bfloat16()) return parts_->head->parameters().front().scalar_type();
  TORCH_CHECK_VALUE(!is_training(), "[Detector] precision must be float32 in training, got bfloat16");
  TORCH_CHECK_VALUE(!torch::GradMode::is_enabled(),
                    "[Detector] precision must be float32 where gradients are asked for, got bfloat16 (without them: "
                    "torch::NoGradGuard)");
  return torch::kBFloat16;
}

// How many a rank encodes at the most: what one sees all encode, if it be of nothing, for their batch norms wait for
// each other.
std::int64_t DetectorImpl::most_of_a_rank(std::int64_t own) const {
  if (!parts_->statistics || !is_training()) return own;
  return static_cast<std::int64_t>(parts_->group->largest({static_cast<double>(own)})[0]);
}

torch::Tensor DetectorImpl::encode_points(const DetectorBatch& batch, const GroupedPoints& points) const {
  const auto clouds = with_lidar(batch);
  TORCH_CHECK_VALUE(parts_->lidar_encoder || clouds.size(0) == 0,
                    "[Detector] available must be false for the LiDAR: this detector looks with cameras alone");
  if (most_of_a_rank(clouds.size(0)) == 0) return {};
  static_cast<void>(map_type());  // refuses bfloat16 where it cannot be
  const torch::AutoGradMode mode(wants_gradient(*parts_->lidar_encoder, points.features));
  return scatter_rows(parts_->lidar_encoder->forward(points, clouds.size(0)), clouds, batch.size);
}

torch::Tensor DetectorImpl::encode_images(const DetectorBatch& batch) const {
  const auto type = map_type();
  TORCH_CHECK_VALUE(parts_->camera_encoder || batch.scene.num_maps() == 1,
                    "[Detector] scene must have no cameras: this detector looks with the LiDAR alone");
  const auto seen = delivered_images(batch);
  std::vector<torch::Tensor> runs;
  std::size_t first = 0;  // camera of the run
  bool any = false;
  for (std::size_t r = 0; r < seen.size(); ++r) {
    const auto& run = batch.images[r];
    const std::int64_t count = run.size(1), total = batch.size * count;
    const auto images = run.flatten(0, 1).to(device(), type);
    torch::Tensor keys;
    if (most_of_a_rank(seen[r].size(0)) > 0) {
      const torch::AutoGradMode mode(wants_gradient(*parts_->camera_encoder, images));
      const auto map = parts_->camera_encoder->forward(
          seen[r].size(0) == total ? images : images.index_select(0, seen[r].to(images.device())));
      keys = scatter_rows(map.permute({0, 2, 3, 1}).flatten(1, 2), seen[r], total);
      any = true;
    } else {
      const auto& camera = batch.scene.cameras[0][first];
      keys = torch::zeros({total, camera.keys(), options_.encoder.camera_channels}, images.options());
    }
    first += static_cast<std::size_t>(count);
    runs.push_back(keys.view({batch.size, -1, keys.size(-1)}));
  }
  return any ? torch::cat(runs, 1) : torch::Tensor{};
}

KeyMaps DetectorImpl::encode(const DetectorBatch& batch, const GroupedPoints& points) const {
  return {.bev = encode_points(batch, points), .cameras = encode_images(batch)};
}

KeyMaps DetectorImpl::encode(const DetectorBatch& batch) const {
  return options_.encoder.kind == EncoderKind::kFeatures ? given_maps(batch, options_.encoder, device())
                                                         : encode(batch, voxelise(batch));
}

DetectorOutput DetectorImpl::forward(const DetectorBatch& batch, const ForwardOptions& options) {
  return run(batch, options, std::nullopt);
}

DetectorOutput DetectorImpl::run(const DetectorBatch& batch, const ForwardOptions& options,
                                 const std::optional<torch::Tensor>& key_positions) {
  DenoisingQueries denoising;
  if (is_training() && options.denoising && !options.dense_alone && !batch.targets.empty())
    denoising = make_denoising_queries(batch, options_, options.seed, options.step, options.first_frame,
                                       most_objects(batch, parts_->group.get()));
  return parts_->head->forward(encode(batch), batch, denoising, options, key_positions);
}

torch::Tensor DetectorImpl::key_positions(const nn::SensorScene& scene) {
  return parts_->head->key_positions(scene, 1);
}

torch::Tensor DetectorImpl::kept_key_positions(const nn::SensorScene& scene) {
  return parts_->positions.get(
      scene, device(), [&] { return key_positions(scene).to(map_type()); });
}

torch::Device DetectorImpl::device() const {
  return parts_->head->parameters().front().device();
}

void DetectorImpl::set_alarms(const AlarmOptions& alarms) {
  options_.alarms = alarms;
  parts_->head->set_alarms(alarms);
}

bool DetectorImpl::learns_dense_heads_alone() const {
  bool any = false;
  for (const auto& parameter : named_parameters()) {
    if (!parameter.value().requires_grad()) continue;
    const std::string& name = parameter.key();
    if (!name.starts_with("head.grid_classes.") && !name.starts_with("head.camera_classes.")) return false;
    any = true;
  }
  return any;
}

CmtHead DetectorImpl::head() const {
  return parts_->head;
}

Losses DetectorImpl::losses(const DetectorOutput& output, const DetectorBatch& batch) {
  auto losses = detector_losses(output, batch, options_, parts_->group.get());
  const bool once = !parts_->group || parts_->group->is_first();  // it looks at no frame
  if (parts_->head->attention_bias && once && output.class_logits.defined()) {
    auto bias = parts_->head->attention_bias;
    const auto& own = bias->options;
    if (own.scale.l2_weight > 0 || own.segment_scale.l2_weight > 0 || own.locality_scale.l2_weight > 0)
      losses.terms.emplace_back("scale", bias->penalty());
  }
  std::vector<torch::Tensor> parts;
  parts.reserve(losses.terms.size());
  for (const auto& [name, value] : losses.terms) parts.push_back(value.reshape({}));
  losses.total = torch::stack(parts).sum();
  return losses;
}

void DetectorImpl::train(bool on) {
  torch::nn::Module::train(on);
  parts_->positions.clear();
}

std::vector<std::vector<Detection>> DetectorImpl::decode(const DetectorOutput& output,
                                                         const DetectorBatch& batch) const {
  const torch::NoGradGuard guard;
  const auto host = [](const torch::Tensor& t) {
    return t.defined() ? t.to(torch::kCPU, torch::kDouble).contiguous() : t;
  };
  const auto scores = host(torch::sigmoid(output.class_logits.select(0, -1)));
  const auto boxes = host(decode_boxes(output.codes.select(0, -1), options_.head.box_code));
  const auto trust = host(output.trust), mass = host(output.attention_mass), agreement = host(output.agreement.frame);
  const std::int64_t queries = scores.size(1), classes = scores.size(2), total = queries * classes;
  const auto [low, high] = centre_limits(options_);
  const auto row_of = [](const torch::Tensor& t, std::int64_t b, std::int64_t q) {
    if (!t.defined()) return std::vector<double>{};
    const double* row = t.const_data_ptr<double>() + (b * t.size(1) + q) * t.size(2);
    return std::vector<double>(row, row + t.size(2));
  };
  std::vector<std::vector<Detection>> result(static_cast<std::size_t>(batch.size));
  for (std::int64_t b = 0; b < batch.size; ++b) {
    if (!batch.available[b].any().item<bool>()) continue;
    const double* score = scores.const_data_ptr<double>() + b * total;
    std::vector<std::int64_t> order(static_cast<std::size_t>(total));
    std::iota(order.begin(), order.end(), 0);
    std::erase_if(order, [&](std::int64_t i) { return std::isnan(score[i]); });  // no order holds with them
    const auto kept = std::min(options_.head.max_detections, std::ssize(order));
    std::int64_t broken = 0;
    std::partial_sort(order.begin(), order.begin() + kept, order.end(), [&](std::int64_t i, std::int64_t j) {
      return score[i] != score[j] ? score[i] > score[j] : i < j;
    });
    for (std::int64_t k = 0; k < kept; ++k) {
      const std::int64_t at = order[static_cast<std::size_t>(k)], query = at / classes;
      const double* v = boxes.const_data_ptr<double>() + (b * queries + query) * 9;
      if (score[at] < options_.head.score_threshold) continue;
      if (!std::all_of(v, v + 9, [](double value) { return std::isfinite(value); })) {
        ++broken;
        continue;
      }
      // In single precision, as the boxes are: a limit that is no such number belongs to the space all the same.
      const auto single = [](double value) { return static_cast<float>(value); };
      const auto outside = [&, &low = low, &high = high](std::size_t axis) {
        return single(v[axis]) < single(low[axis]) || single(v[axis]) > single(high[axis]);
      };
      if (outside(0) || outside(1) || outside(2)) continue;
      result[static_cast<std::size_t>(b)].push_back(
          {.box = {.center = {v[0], v[1], v[2]}, .length = v[3], .width = v[4], .height = v[5], .yaw = v[6]},
           .velocity = {v[7], v[8]},
           .score = score[at],
           .label = at % classes,
           .query = query,
           .trust = row_of(trust, b, query),
           .agreement = agreement.defined() ? agreement.const_data_ptr<double>()[b] : kNotKnown,
           .attention_mass = row_of(mass, b, query)});
    }
    if (broken > 0 || std::ssize(order) < total) {
      TORCH_WARN("[decode] frame ", b, ": ", total - std::ssize(order), " of ", total, " scores are NaN and ", broken,
                 " boxes are not finite; they are left out");
    }
  }
  return result;
}

}  // namespace camber::detection
