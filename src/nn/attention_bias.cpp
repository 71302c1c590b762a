#include "camber/nn/attention_bias.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "nn/move_keeping.h"

namespace camber::nn {
namespace {

// Instead of a clip: the scale's max, whatever it is at the moment.
constexpr double kScaleMax = -1;

// The shape of a scale: that of the sharing. One element in its place says one modality, or a shared scale that is no
// scalar.
std::vector<std::int64_t> scale_shape(const AttentionBiasOptions& options, const std::vector<std::int64_t>& given) {
  if (!given.empty()) return given;
  switch (options.sharing) {
    case ScaleSharing::kPerModality:
      return {2};
    case ScaleSharing::kPerLayer:
      return {options.num_layers};
    case ScaleSharing::kPerHead:
      return {options.num_heads};
    default:
      return {};
  }
}

// How many of the maps are grids; the others are cameras.
struct MapCount {
  std::int64_t maps = 0, grids = 1;

  std::int64_t cameras() const { return maps - grids; }
  std::int64_t modalities() const { return std::min<std::int64_t>(grids, 1) + std::min<std::int64_t>(cameras(), 1); }
};

// The scale as a factor of [Hb, B, Q, M].
torch::Tensor factor_of(const torch::Tensor& value, ScaleSharing sharing, MapCount count, std::int64_t layer) {
  switch (sharing) {
    case ScaleSharing::kPerModality: {
      // A grid alone may be given both: the cameras' then has no map.
      TORCH_CHECK_VALUE(value.size(0) == count.modalities() || (value.size(0) == 2 && count.grids == 1),
                        "[AttentionBias] scale.shape must be [", count.modalities(),
                        "], one a modality of the scene, got [", value.size(0), "]");
      const auto cameras = value.slice(0, count.grids, count.grids + 1).expand({count.cameras()});
      return torch::cat({value.slice(0, 0, count.grids), cameras});
    }
    case ScaleSharing::kPerLayer:
      return value.select(0, layer);
    case ScaleSharing::kPerHead:
      return value.view({-1, 1, 1, 1});
    default:
      return value;
  }
}

// [B, Q, M]: the weight of each map's sensor, float whatever came (a router under autocast), or double.
torch::Tensor weights_by_map(const torch::Tensor& trust, MapCount count, bool per_camera) {
  const std::int64_t sensors = per_camera ? count.maps : count.grids + 1;
  const bool fits = trust.dim() == 3 && (trust.size(2) == sensors || (count.cameras() == 0 && trust.size(2) == 1));
  TORCH_CHECK_VALUE(fits, "[AttentionBias] trust must be [B, Q, ", sensors, "], got ", trust.sizes());
  // Beyond 1 a weight would carry the bias past the scale's max, where the clip kills the gradients of both. NaN is
  // passed on: the guard of a training skips such a step. Another device would have to be waited for.
  if (trust.is_cpu()) {
    const auto size = trust.detach().abs();
    TORCH_CHECK_VALUE(!size.gt(1).any().item<bool>(), "[AttentionBias] trust must lie in [-1, 1], got ",
                      trust.detach().flatten()[size.nan_to_num(0).argmax()].item<double>());
  }
  auto weights = trust.scalar_type() == torch::kDouble ? trust : trust.to(torch::kFloat);
  if (per_camera) return weights;
  const auto cameras =
      weights.slice(2, count.grids, count.grids + 1).expand({weights.size(0), weights.size(1), count.cameras()});
  return torch::cat({weights.slice(2, 0, count.grids), cameras}, 2);
}

// A bias toward a quarter of a map is hardly a bias.
void warn_of_wide_windows(const torch::Tensor& sizes, const SensorScene& scene) {
  if (sizes.numel() == 0) return;
  const auto maps = scene.layout().maps;
  for (std::size_t m = 0; m < maps.size(); ++m) {
    const std::int64_t columns = maps[m].columns, rows = maps[m].rows;
    const auto largest = sizes.select(2, static_cast<std::int64_t>(m)).max().item<std::int32_t>();
    if (4 * std::min<std::int64_t>(largest, columns) * std::min<std::int64_t>(largest, rows) > maps[m].keys()) {
      TORCH_WARN_ONCE("[AttentionBias] a window of ", largest, " x ", largest,
                      " cells covers more than a quarter of map ", m, " (", columns, " x ", rows,
                      "): it hardly tells one position from another");
    }
  }
}

torch::ScalarType type_of(BiasPrecision precision) {
  switch (precision) {
    case BiasPrecision::kHalf:
      return torch::kHalf;
    case BiasPrecision::kBfloat16:
      return torch::kBFloat16;
    default:
      return torch::kFloat;
  }
}

// Float values go out in the precision asked for; double stays double.
torch::Tensor hand_over(const torch::Tensor& value, BiasPrecision precision) {
  return value.scalar_type() == torch::kDouble ? value : value.to(type_of(precision));
}

void check_odd(const char* name, std::int64_t size) {
  if (size % 2 == 0)
    throw std::invalid_argument("[AttentionBias] " + std::string(name) +
                                " must be odd, so that the window has a centre cell, got " + std::to_string(size));
}

// A scale's shape is the sharing's to say; what stands in the options must agree with it.
void check_shape(const char* name, const std::vector<std::int64_t>& given, const AttentionBiasOptions& options) {
  const auto wanted = scale_shape(options, {});
  const bool one = options.sharing == ScaleSharing::kShared || options.sharing == ScaleSharing::kPerModality;
  if (given.empty() || given == wanted || (one && given == std::vector<std::int64_t>{1})) return;
  const auto text = [](const std::vector<std::int64_t>& shape) {
    std::string sizes;
    for (const std::int64_t size : shape) sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
    return "[" + sizes + "]";
  };
  throw std::invalid_argument("[AttentionBias] " + std::string(name) + ".shape must be " + text(wanted) +
                              (one ? " or [1]" : "") + " for its sharing, got " + text(given));
}

void check_clip(double clip) {
  if (!(clip >= 0)) throw std::invalid_argument("[AttentionBias] clip must be at least 0, got " + std::to_string(clip));
}

}  // namespace

void AttentionBiasOptions::validate() const {
  check_odd("bev_window", bev_window);
  check_odd("camera_window", camera_window);
  if (sizing == WindowSizing::kObject && centre == WindowCentre::kInitial)
    throw std::invalid_argument(
        "[AttentionBias] sizing = object needs centre = refined: a window can follow an object only once it is "
        "predicted");
  double largest = clip == 0 ? scale.max : clip;
  for (const ClipStep& entry : clip_schedule) largest = std::max(largest, entry.clip);
  if (precision == BiasPrecision::kHalf && largest > 10)
    throw std::invalid_argument(
        "[AttentionBias] clip must be at most 10 in half precision, where exp overflows beyond 11.09, got " +
        std::to_string(largest));
  check_shape("scale", scale.shape, *this);
  check_shape("segment_scale", segment_scale.shape, *this);
  check_shape("locality_scale", locality_scale.shape, *this);
  if (locality && !windows)
    throw std::invalid_argument("[AttentionBias] locality must be false without windows, which hold it, got true");
  if (!window_trust && !locality)
    throw std::invalid_argument(
        "[AttentionBias] window_trust must be true without locality (windows = false leaves the windows out), got "
        "false");
  check_clip(clip);
  for (const ClipStep& entry : clip_schedule) check_clip(entry.clip);
  for (std::size_t i = 1; i < clip_schedule.size(); ++i)
    if (clip_schedule[i].from_epoch <= clip_schedule[i - 1].from_epoch)
      throw std::invalid_argument("[AttentionBias] clip_schedule must be sorted by from_epoch");
}

AttentionBiasImpl::AttentionBiasImpl(AttentionBiasOptions bias_options) : options(std::move(bias_options)) {
  options.validate();
  reset();
}

void AttentionBiasImpl::reset() {
  auto window_scale = options.scale;
  window_scale.shape = scale_shape(options, window_scale.shape);
  scale = register_module("scale", BoundedScale(window_scale));
  clip_in_force_ = register_buffer("clip_in_force",
                                   torch::scalar_tensor(options.clip > 0 ? options.clip : kScaleMax, torch::kDouble));
  const auto register_scale = [this](const char* name, BoundedScaleOptions own) {
    own.shape = scale_shape(options, own.shape);
    return register_module(name, BoundedScale(own));
  };
  if (options.segments) segment_scale = register_scale("segment_scale", options.segment_scale);
  if (options.locality) locality_scale = register_scale("locality_scale", options.locality_scale);
}

BiasWindows AttentionBiasImpl::windows(const QueryProjection& projection, const SensorScene& scene,
                                       const std::optional<torch::Tensor>& boxes) const {
  const bool by_object = options.sizing == WindowSizing::kObject && boxes;
  const auto sizes = by_object
                         ? object_window_sizes(*boxes, scene)
                         : fixed_window_sizes(projection, options.bev_window, options.camera_window, scene.num_grids());
  warn_of_wide_windows(sizes, scene);
  const auto device = scale->raw().device();
  BiasWindows result{
      .index = by_object ? windows_at(projection, sizes, scene, device)
                         : fixed_windows_at(projection, options.bev_window, options.camera_window, scene, device),
      .profile = {}};
  const auto distance = result.index.squared_distance.to(torch::kFloat);
  if (options.form == WindowForm::kBox) {
    result.profile = torch::ones_like(distance);
  } else {
    // exp(-d^2 / (2 s^2)) with s = size / 6, so 1 / (2 s^2) = 18 / size^2 of the window that the entry belongs to.
    const auto steepness = 18.0 / sizes.to(device, torch::kFloat).square().view({1, -1, scene.num_maps()});
    result.profile = ops::window_values(steepness, distance, result.index.row_offsets, result.index.map_index)
                         .squeeze(0)
                         .neg()
                         .exp();
  }
  return result;
}

torch::Tensor AttentionBiasImpl::strength(const torch::Tensor& trust, std::int64_t num_maps, std::int64_t layer,
                                          std::int64_t num_grids) {
  const MapCount count{num_maps, num_grids};
  const auto weights = weights_by_map(trust, count, options.per_camera).unsqueeze(0);  // [1, B, Q, M]
  auto bias = options.window_trust ? weights * factor_of(scale->value(), options.sharing, count, layer)
                                   : torch::zeros_like(weights);
  if (options.locality) bias = bias + factor_of(locality_scale->value(), options.sharing, count, layer);
  return torch::clamp(bias, -clip(), clip()).flatten(1, 2);
}

ops::StructuredBias AttentionBiasImpl::forward(const torch::Tensor& trust, const BiasWindows& windows,
                                               const SensorScene& scene, std::int64_t layer) {
  const MapCount count{scene.num_maps(), scene.num_grids()};
  ops::StructuredBias bias;
  if (options.windows) {
    const auto by_map = strength(trust, count.maps, layer, count.grids);
    const auto value = ops::window_values(by_map, windows.profile.to(by_map.scalar_type()), windows.index.row_offsets,
                                          windows.index.map_index);
    bias.windows =
        ops::Windows{windows.index.row_offsets, windows.index.key_index, hand_over(value, options.precision)};
  }
  bias.segments = ops::Segments{.offsets = torch::tensor(scene.layout().segment_offsets(), torch::kLong)};
  if (options.segments) {
    const auto weights = weights_by_map(trust, count, options.per_camera).unsqueeze(0);
    const auto by_map = weights * factor_of(segment_scale->value(), options.sharing, count, layer);
    const double limit = segment_scale->max();
    bias.segments->value = hand_over(torch::clamp(by_map, -limit, limit).transpose(0, 1), options.precision);
  }
  return bias;
}

void AttentionBiasImpl::apply_schedule(std::int64_t epoch, std::int64_t step) {
  scale->apply_schedule(epoch, step);
  if (segment_scale) segment_scale->apply_schedule(epoch, step);
  if (locality_scale) locality_scale->apply_schedule(epoch, step);
  apply_clip_schedule(epoch);
}

bool AttentionBiasImpl::apply_clip_schedule(std::int64_t epoch) {
  const auto before = clip_in_force_.item<double>();
  for (const auto& entry : options.clip_schedule)
    if (epoch >= entry.from_epoch) clip_in_force_.fill_(entry.clip);
  return clip_in_force_.item<double>() != before;
}

double AttentionBiasImpl::clip() const {
  const auto own = clip_in_force_.item<double>();
  return own >= 0 ? own : scale->max();
}

void AttentionBiasImpl::to(torch::Device device, torch::Dtype dtype, bool non_blocking) {
  move_keeping(
      {&clip_in_force_}, [&] { Module::to(device, dtype, non_blocking); });
}

void AttentionBiasImpl::to(torch::Dtype dtype, bool non_blocking) {
  move_keeping(
      {&clip_in_force_}, [&] { Module::to(dtype, non_blocking); });
}

void AttentionBiasImpl::to(torch::Device device, bool non_blocking) {
  move_keeping(
      {&clip_in_force_}, [&] { Module::to(device, non_blocking); });
}

torch::Tensor AttentionBiasImpl::penalty() {
  auto sum = scale->penalty();
  if (segment_scale) sum = sum + segment_scale->penalty();
  if (locality_scale) sum = sum + locality_scale->penalty();
  return sum;
}

}  // namespace camber::nn
