#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>

#include <fmt/format.h>

#include "camber/health/monitor.h"

namespace camber::health {
namespace {

constexpr double kSaturated = 0.9, kNearlySaturated = 0.7, kDead = 1e-3;

void add(Figures& figures, std::string name, double value) {
  figures.push_back({std::move(name), value});
}

void add_if_given(Figures& figures, std::string name, double value) {
  if (!std::isnan(value)) add(figures, std::move(name), value);
}

void add_if_given(Figures& figures, std::string name, std::optional<double> value) {
  if (value) add(figures, std::move(name), *value);
}

constexpr double kBroken = std::numeric_limits<double>::quiet_NaN();

bool any_broken(std::span<const float> values) {
  return std::any_of(values.begin(), values.end(), [](float value) { return std::isnan(value); });
}

// 1 for a row that is so, NaN for one whose figure is.
double share_of(bool is_so, double figure) {
  return std::isnan(figure) ? figure : is_so ? 1 : 0;
}

// Interpolates linearly between the two nearest of the sorted values; reorders them. NaN has no place among them: with
// one the percentile is NaN.
double percentile(std::vector<float>& values, double share) {
  if (any_broken(values)) return kBroken;
  const double place = share * static_cast<double>(values.size() - 1);
  const auto below = values.begin() + static_cast<std::ptrdiff_t>(place);
  std::nth_element(values.begin(), below, values.end());
  const double low = *below, fraction = place - std::floor(place);
  if (fraction == 0) return low;
  return low + fraction * (*std::min_element(below + 1, values.end()) - low);
}

void scale_figures(Figures& figures, const ScaleSample& scale) {
  const std::string group = "scale/" + scale.name + "/";
  add(figures, group + "value", scale.value);
  add(figures, group + "raw", scale.raw);
  add_if_given(figures, group + "gradient", scale.gradient);
  add(figures, group + "headroom", (scale.max - scale.value) / (scale.max - scale.min));
  add(figures, group + "at_bound", scale.num_steps > 0 ? scale.steps_at_bound / scale.num_steps : 0);
  add(figures, group + "min", scale.min);
  add(figures, group + "max", scale.max);
  add(figures, group + "warn_threshold", scale.warn_threshold);
  add_if_given(figures, group + "init", scale.init);
  add(figures, group + "learnable", scale.learnable ? 1 : 0);
  add(figures, group + "log_space", scale.log_space ? 1 : 0);
  add_if_given(figures, group + "reach_low", scale.reach_low);
  add_if_given(figures, group + "reach_high", scale.reach_high);
}

// Sums over rows that have a key left.
struct RowSums {
  double rows = 0, entropy = 0, effective_keys = 0, share_rows = 0, entropy_share = 0, largest = 0;
  double saturated = 0, nearly = 0, dead = 0, change = 0, divergence = 0;
  std::vector<double> mass{};

  void add_row(const AttentionSample& sample, std::size_t row) {
    ++rows;
    const double h = sample.entropy[row], top = sample.largest_weight[row];
    const double rest = 1 - static_cast<double>(sample.sum_of_squares[row]);
    entropy += h;
    effective_keys += std::exp(h);
    if (sample.keys_left[row] > 1) {
      ++share_rows;
      entropy_share += h / std::log(static_cast<double>(sample.keys_left[row]));
    }
    largest += top;
    saturated += share_of(top > kSaturated, top);
    nearly += share_of(top > kNearlySaturated, top);
    dead += share_of(rest < kDead, rest);
    if (!sample.change.empty()) change += sample.change[row];
    if (!sample.divergence.empty()) divergence += sample.divergence[row];
    for (std::size_t segment = 0; segment < mass.size(); ++segment)
      mass[segment] += sample.segment_mass[row * mass.size() + segment];
  }

  void add_all(const RowSums& other) {
    rows += other.rows, entropy += other.entropy, effective_keys += other.effective_keys;
    share_rows += other.share_rows, entropy_share += other.entropy_share, largest += other.largest;
    saturated += other.saturated, nearly += other.nearly, dead += other.dead;
    change += other.change, divergence += other.divergence;
    for (std::size_t segment = 0; segment < mass.size(); ++segment) mass[segment] += other.mass[segment];
  }
};

void row_figures(Figures& figures, const std::string& group, const RowSums& sums, const AttentionSample& sample,
                 bool whole_layer) {
  if (sums.rows == 0) return;
  if (whole_layer) add(figures, group + "entropy", sums.entropy / sums.rows);
  if (whole_layer) add(figures, group + "effective_keys", sums.effective_keys / sums.rows);
  if (sums.share_rows > 0) add(figures, group + "entropy_share", sums.entropy_share / sums.share_rows);
  add(figures, group + "largest_weight", sums.largest / sums.rows);
  add(figures, group + "saturated", sums.saturated / sums.rows);
  add(figures, group + "nearly_saturated", sums.nearly / sums.rows);
  add(figures, group + "dead", sums.dead / sums.rows);
  if (!sample.change.empty()) add(figures, group + "change", sums.change / sums.rows);
  if (!sample.divergence.empty()) add(figures, group + "divergence", sums.divergence / sums.rows);
  std::map<std::string, double> by_sensor;
  for (std::size_t segment = 0; segment < sums.mass.size(); ++segment)
    by_sensor[sample.segments[segment]] += sums.mass[segment] / sums.rows;
  const std::string mass_of = group + "mass/";
  for (const auto& [sensor, mass] : by_sensor) add(figures, mass_of + sensor, mass);
}

void check_sizes(const AttentionSample& sample) {
  const auto rows = static_cast<std::size_t>(sample.batch * sample.heads * sample.queries);
  const auto check = [&](const char* name, std::size_t got, std::size_t wanted, bool optional) {
    if (got != wanted && !(optional && got == 0))
      throw std::invalid_argument(
          fmt::format("[health] {} of attention {} must hold {} numbers, got {}", name, sample.name, wanted, got));
  };
  check("entropy", sample.entropy.size(), rows, false);
  check("largest_weight", sample.largest_weight.size(), rows, false);
  check("sum_of_squares", sample.sum_of_squares.size(), rows, false);
  check("keys_left", sample.keys_left.size(), rows, false);
  check("change", sample.change.size(), rows, true);
  check("divergence", sample.divergence.size(), rows, true);
  check("segment_mass", sample.segment_mass.size(), rows * sample.segments.size(), false);
}

std::optional<double> low_entropy_share(const AttentionSample& sample) {
  std::vector<float> shares;
  shares.reserve(sample.entropy.size());
  for (std::size_t row = 0; row < sample.entropy.size(); ++row)
    if (sample.keys_left[row] > 1) shares.push_back(sample.entropy[row] / std::log(sample.keys_left[row]));
  return shares.empty() ? std::nullopt : std::optional(percentile(shares, 0.05));
}

void attention_figures(Figures& figures, const AttentionSample& sample, bool per_head) {
  check_sizes(sample);
  const auto heads = static_cast<std::size_t>(sample.heads), queries = static_cast<std::size_t>(sample.queries);
  std::vector<RowSums> by_head(heads, RowSums{.mass = std::vector<double>(sample.segments.size())});
  for (std::size_t row = 0; row < sample.entropy.size(); ++row)
    if (sample.keys_left[row] > 0) by_head[row / queries % heads].add_row(sample, row);
  RowSums all{.mass = std::vector<double>(sample.segments.size())};
  for (const RowSums& head : by_head) all.add_all(head);
  const std::string group = "attention/" + sample.name + "/";
  row_figures(figures, group, all, sample, true);
  add_if_given(figures, group + "entropy_share_p05", low_entropy_share(sample));
  if (!per_head) return;
  for (std::size_t head = 0; head < heads; ++head)
    row_figures(figures, fmt::format("{}head{}/", group, head), by_head[head], sample, false);
}

struct Moments {
  double mean = 0, deviation = 0, mean_absolute = 0, low = 0, high = 0;
};

Moments moments(std::span<const float> values) {
  Moments result{.low = values[0], .high = values[0]};
  const auto count = static_cast<double>(values.size());
  if (any_broken(values)) return {kBroken, kBroken, kBroken, kBroken, kBroken};
  for (const double value : values) {
    result.mean += value / count;
    result.mean_absolute += std::abs(value) / count;
    result.low = std::min(result.low, value);
    result.high = std::max(result.high, value);
  }
  double squares = 0;
  for (const double value : values) squares += (value - result.mean) * (value - result.mean);
  result.deviation = std::sqrt(squares / count);
  return result;
}

void bias_figures(Figures& figures, const BiasSample& bias) {
  if (bias.value.empty()) return;
  const Moments all = moments(bias.value);
  std::vector<float> lean(bias.value.begin(), bias.value.end());
  for (float& value : lean) value = std::abs(value);
  const std::string lean_group = "lean/" + bias.name + "/", bias_group = "bias/" + bias.name + "/";
  add(figures, lean_group + "mean", all.mean_absolute);
  add(figures, lean_group + "p05", percentile(lean, 0.05));
  add(figures, lean_group + "p50", percentile(lean, 0.50));
  add(figures, lean_group + "p95", percentile(lean, 0.95));
  add(figures, bias_group + "mean", all.mean);
  add(figures, bias_group + "std", all.deviation);
  add(figures, bias_group + "min", all.low);
  add(figures, bias_group + "max", all.high);
}

void trust_figures(Figures& figures, const TrustSample& trust) {
  if (trust.weight.empty()) return;
  const Moments all = moments(trust.weight);
  const std::string group = "trust/" + trust.name + "/";
  add(figures, group + "mean", all.mean);
  add(figures, group + "std", all.deviation);
  add(figures, group + "mean_abs", all.mean_absolute);
  add(figures, group + "learned", trust.learned ? 1 : 0);
}

}  // namespace

Figures health_figures(const HealthSample& sample, bool per_head) {
  Figures figures;
  for (const ScaleSample& scale : sample.scales) scale_figures(figures, scale);
  for (const AttentionSample& attention : sample.attention) attention_figures(figures, attention, per_head);
  for (const BiasSample& bias : sample.bias) bias_figures(figures, bias);
  for (const TrustSample& trust : sample.trust) trust_figures(figures, trust);
  add_if_given(figures, "prototypes/mean_cosine", sample.prototypes.mean_cosine);
  add_if_given(figures, "prototypes/gate", sample.prototypes.gate);
  add_if_given(figures, "prototypes/purification_ratio", sample.prototypes.purification_ratio);
  return figures;
}

}  // namespace camber::health
