#include "camber/detection/agreement.h"

#include <cmath>

#include "detection/agreement_host.h"

namespace camber::detection {
namespace {

// Heat of 3 x 3 cells at the places of one map: [B, Q, C], whatever stands at places that the map does not hold.
torch::Tensor heat_at(const torch::Tensor& logits, const geometry::KeyMap& map, const torch::Tensor& cell) {
  const std::int64_t batch = logits.size(0), classes = logits.size(2);
  const auto heat =
      torch::sigmoid(logits.to(torch::kDouble)).transpose(1, 2).reshape({batch, classes, map.rows, map.columns});
  const auto largest = torch::max_pool2d(heat, {3, 3}, {1, 1}, {1, 1}).flatten(2);  // [B, C, keys]
  const auto key = (cell.select(-1, 1) * map.columns + cell.select(-1, 0)).clamp_min(0).to(heat.device());  // [B, Q]
  return largest.gather(2, key.unsqueeze(1).expand({-1, classes, -1})).transpose(1, 2);
}

// Correlation over the places [B, Q] that count, class by class: [B, C]; NaN where it is not known.
torch::Tensor correlation(const torch::Tensor& a, const torch::Tensor& b, const torch::Tensor& counts) {
  const auto weight = counts.unsqueeze(-1).to(torch::kDouble);  // [B, Q, 1]
  const auto number = weight.sum(1);                            // [B, 1]
  const auto mean = [&](const torch::Tensor& values) {
    // where, not times: a place that does not count may hold anything.
    return torch::where(counts.unsqueeze(-1), values, 0.0).sum(1, true) / number.clamp_min(1).unsqueeze(1);
  };
  const auto from_mean = [&](const torch::Tensor& values) {
    return torch::where(counts.unsqueeze(-1), values - mean(values), 0.0);
  };
  const auto x = from_mean(a), y = from_mean(b);
  const auto spread = (x.square().sum(1) * y.square().sum(1)).sqrt();  // [B, C]
  const auto r = torch::where(spread <= kConstantHeat, torch::zeros_like(spread), (x * y).sum(1) / spread);
  const auto shown = torch::where(counts.unsqueeze(-1), torch::maximum(a, b), 0.0).amax(1) >= kObjectHeat;
  return torch::where((number >= static_cast<double>(kFewestPlaces)) & shown, r, kNotKnown);
}

// The mean over classes that are known; NaN of none. A class with a logit that is no number must not pass for one that
// is not shown, so such a frame is not known.
torch::Tensor over_classes(const torch::Tensor& by_class, const torch::Tensor& sound) {
  return torch::where(sound, by_class.nanmean(1), kNotKnown);
}

torch::Tensor is_sound(const torch::Tensor& heat, const torch::Tensor& counts) {
  return torch::where(counts.unsqueeze(-1), heat, 0.0).isnan().logical_not().flatten(1).all(1);
}

}  // namespace

torch::Tensor SensorAgreement::numbers() const {
  const auto known = frame.isnan().logical_not();
  const auto infinity = std::numeric_limits<double>::infinity();
  const auto least = by_class.nan_to_num(infinity).amin(1), largest = by_class.nan_to_num(-infinity).amax(1);
  const auto all = torch::stack({frame, least, largest, torch::ones_like(frame)}, 1);
  return torch::where(known.unsqueeze(1), all, 0.0);
}

SensorAgreement agreement_of(const torch::Tensor& grid_logits, const torch::Tensor& camera_logits,
                             const nn::QueryProjection& places, const nn::SensorScene& scene) {
  const torch::NoGradGuard guard;
  const auto layout = scene.layout();
  const std::int64_t batch = grid_logits.size(0), classes = grid_logits.size(2), grid_keys = layout.maps[0].keys();
  TORCH_CHECK_VALUE(scene.has_grid && grid_logits.size(1) == grid_keys &&
                        camera_logits.sizes() == torch::IntArrayRef({batch, layout.keys() - grid_keys, classes}),
                    "[agreement] logits must be [B, ", grid_keys, ", C] and [B, ", layout.keys() - grid_keys,
                    ", C], got ", grid_logits.sizes(), " and ", camera_logits.sizes());
  return grid_logits.is_cpu() && places.cell.is_cpu() ? agreement_on_host(grid_logits, camera_logits, places, scene)
                                                      : agreement_by_tensors(grid_logits, camera_logits, places, scene);
}

SensorAgreement agreement_by_tensors(const torch::Tensor& grid_logits, const torch::Tensor& camera_logits,
                                     const nn::QueryProjection& places, const nn::SensorScene& scene) {
  const auto layout = scene.layout();
  const auto maps = static_cast<std::int64_t>(layout.maps.size());
  const std::int64_t batch = grid_logits.size(0), grid_keys = layout.maps[0].keys();
  const auto seen = places.seen.to(grid_logits.device());
  const auto at_map = [&](const torch::Tensor& logits, std::int64_t m) {
    return heat_at(logits, layout.maps[static_cast<std::size_t>(m)], places.cell.select(2, m));
  };
  const auto in_grid = seen.select(2, 0);
  const auto lidar = at_map(grid_logits, 0);
  auto camera = torch::full_like(lidar, -1);
  auto in_cameras = torch::zeros_like(in_grid);
  SensorAgreement agreement;
  std::vector<torch::Tensor> cameras;
  for (std::int64_t m = 1; m < maps; ++m) {
    const auto& map = layout.maps[static_cast<std::size_t>(m)];
    const auto here = at_map(camera_logits.narrow(1, map.first_key - grid_keys, map.keys()), m);
    const auto both = in_grid & seen.select(2, m);
    cameras.push_back(over_classes(correlation(lidar, here, both), is_sound(lidar, both) & is_sound(here, both)));
    camera = torch::where(both.unsqueeze(-1), torch::maximum(camera, here), camera);
    in_cameras = in_cameras | both;
  }
  agreement.by_class = correlation(lidar, camera, in_cameras);
  agreement.frame = over_classes(agreement.by_class, is_sound(lidar, in_cameras) & is_sound(camera, in_cameras));
  agreement.cameras = cameras.empty() ? torch::empty({batch, 0}, agreement.frame.options()) : torch::stack(cameras, 1);
  return agreement;
}

double smoothed(const std::vector<double>& earlier, double newest) {
  double sum = 0, count = 0;
  const auto add = [&](double value) {
    if (std::isnan(value)) return;
    sum += value;
    ++count;
  };
  for (const double value : earlier) add(value);
  add(newest);
  return count == 0 ? kNotKnown : sum / count;
}

}  // namespace camber::detection
