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

void add(Metrics& metrics, std::string name, double value) {
  metrics.push_back({std::move(name), value});
}

void add_if_given(Metrics& metrics, std::string name, double value) {
  if (!std::isnan(value)) add(metrics, std::move(name), value);
}

void add_if_given(Metrics& metrics, std::string name, std::optional<double> value) {
  if (value) add(metrics, std::move(name), *value);
}

constexpr double kBroken = std::numeric_limits<double>::quiet_NaN();

bool any_broken(std::span<const float> values) {
  return std::any_of(
      values.begin(), values.end(), [](float value) { return std::isnan(value); });
}

// 1 for a row that is so, NaN for one whose metric is.
double share_of(bool is_so, double metric) {
  return std::isnan(metric) ? metric : is_so ? 1 : 0;
}

// Interpolates linearly between the two nearest of the sorted values; reorders them. NaN has no place among them: with
// one the percentile is NaN.
double percentile(std::vector<float>& values, double share) {
  if (any_broken(values)) return kBroken;
  const double position = share * static_cast<double>(values.size() - 1);
  const auto below = values.begin() + static_cast<std::ptrdiff_t>(position);
  std::nth_element(values.begin(), below, values.end());
  const double low = *below, fraction = position - std::floor(position);
  if (fraction == 0) return low;
  return low + fraction * (*std::min_element(below + 1, values.end()) - low);
}

void scale_metrics(Metrics& metrics, const ScaleSample& scale) {
  const std::string group = "scale/" + scale.name + "/";
  add(metrics, group + "value", scale.value);
  add(metrics, group + "raw", scale.raw);
  add_if_given(metrics, group + "gradient", scale.gradient);
  add(metrics, group + "headroom", (scale.max - scale.value) / (scale.max - scale.min));
  add(metrics, group + "at_bound", scale.num_steps > 0 ? scale.steps_at_bound / scale.num_steps : 0);
  add(metrics, group + "min", scale.min);
  add(metrics, group + "max", scale.max);
  add(metrics, group + "warn_threshold", scale.warn_threshold);
  add_if_given(metrics, group + "init", scale.init);
  add(metrics, group + "learnable", scale.learnable ? 1 : 0);
  add(metrics, group + "log_space", scale.log_space ? 1 : 0);
  add_if_given(metrics, group + "reach_low", scale.reach_low);
  add_if_given(metrics, group + "reach_high", scale.reach_high);
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

void row_metrics(Metrics& metrics, const std::string& group, const RowSums& sums, const AttentionSample& sample,
                 bool whole_layer) {
  if (sums.rows == 0) return;
  if (whole_layer) add(metrics, group + "entropy", sums.entropy / sums.rows);
  if (whole_layer) add(metrics, group + "effective_keys", sums.effective_keys / sums.rows);
  if (sums.share_rows > 0) add(metrics, group + "entropy_share", sums.entropy_share / sums.share_rows);
  add(metrics, group + "largest_weight", sums.largest / sums.rows);
  add(metrics, group + "saturated", sums.saturated / sums.rows);
  add(metrics, group + "nearly_saturated", sums.nearly / sums.rows);
  add(metrics, group + "dead", sums.dead / sums.rows);
  if (!sample.change.empty()) add(metrics, group + "change", sums.change / sums.rows);
  if (!sample.divergence.empty()) add(metrics, group + "divergence", sums.divergence / sums.rows);
  std::map<std::string, double> by_sensor;
  for (std::size_t segment = 0; segment < sums.mass.size(); ++segment)
    by_sensor[sample.segments[segment]] += sums.mass[segment] / sums.rows;
  const std::string mass_of = group + "mass/";
  for (const auto& [sensor, mass] : by_sensor) add(metrics, mass_of + sensor, mass);
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

void attention_metrics(Metrics& metrics, const AttentionSample& sample, bool per_head) {
  check_sizes(sample);
  const auto heads = static_cast<std::size_t>(sample.heads), queries = static_cast<std::size_t>(sample.queries);
  std::vector<RowSums> by_head(heads, RowSums{.mass = std::vector<double>(sample.segments.size())});
  for (std::size_t row = 0; row < sample.entropy.size(); ++row)
    if (sample.keys_left[row] > 0) by_head[row / queries % heads].add_row(sample, row);
  RowSums all{.mass = std::vector<double>(sample.segments.size())};
  for (const RowSums& head : by_head) all.add_all(head);
  const std::string group = "attention/" + sample.name + "/";
  row_metrics(metrics, group, all, sample, true);
  add_if_given(metrics, group + "entropy_share_p05", low_entropy_share(sample));
  if (!per_head) return;
  for (std::size_t head = 0; head < heads; ++head)
    row_metrics(metrics, fmt::format("{}head{}/", group, head), by_head[head], sample, false);
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

void bias_metrics(Metrics& metrics, const BiasSample& bias) {
  if (bias.value.empty()) return;
  const Moments all = moments(bias.value);
  std::vector<float> magnitude(bias.value.begin(), bias.value.end());
  for (float& value : magnitude) value = std::abs(value);
  const std::string magnitude_group = "effective_bias/" + bias.name + "/", bias_group = "bias/" + bias.name + "/";
  add(metrics, magnitude_group + "mean", all.mean_absolute);
  add(metrics, magnitude_group + "p05", percentile(magnitude, 0.05));
  add(metrics, magnitude_group + "p50", percentile(magnitude, 0.50));
  add(metrics, magnitude_group + "p95", percentile(magnitude, 0.95));
  add(metrics, bias_group + "mean", all.mean);
  add(metrics, bias_group + "std", all.deviation);
  add(metrics, bias_group + "min", all.low);
  add(metrics, bias_group + "max", all.high);
}

void trust_metrics(Metrics& metrics, const TrustSample& trust) {
  if (trust.weight.empty()) return;
  const Moments all = moments(trust.weight);
  const std::string group = "trust/" + trust.name + "/";
  add(metrics, group + "mean", all.mean);
  add(metrics, group + "std", all.deviation);
  add(metrics, group + "mean_abs", all.mean_absolute);
  add(metrics, group + "learned", trust.learned ? 1 : 0);
}

}  // namespace

Metrics health_metrics(const HealthSample& sample, bool per_head) {
  Metrics metrics;
  for (const ScaleSample& scale : sample.scales) scale_metrics(metrics, scale);
  for (const AttentionSample& attention : sample.attention) attention_metrics(metrics, attention, per_head);
  for (const BiasSample& bias : sample.bias) bias_metrics(metrics, bias);
  for (const TrustSample& trust : sample.trust) trust_metrics(metrics, trust);
  if (sample.agreement) add(metrics, "agreement/sensors/mean", *sample.agreement);
  add_if_given(metrics, "prototypes/mean_cosine", sample.prototypes.mean_cosine);
  add_if_given(metrics, "prototypes/gate", sample.prototypes.gate);
  add_if_given(metrics, "prototypes/purification_ratio", sample.prototypes.purification_ratio);
  return metrics;
}

}  // namespace camber::health
