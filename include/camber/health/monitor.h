#pragma once
#include <cstdint>
#include <vector>

#include "camber/config/field.h"
#include "camber/health/records.h"
#include "camber/health/rules.h"
#include "camber/health/sample.h"

namespace camber::health {

struct MonitorOptions {
  std::int64_t interval = 10;
  bool per_head = true;
  RuleOptions rules{};

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("interval", interval, "steps between two samples; 0: no monitoring", config::Range{.min = 0});
    visitor("per_head", per_head, "attention metrics for each head too");
    visitor("rules", rules, "what the rules speak about");
  }

  friend bool operator==(const MonitorOptions&, const MonitorOptions&) = default;
};

/// The metrics of one sample:
///
///   scale/NAME/           value, raw, gradient, headroom = (max - value) / (max - min), at_bound (share of the run's
///                         steps), min, max, warn_threshold, init, learnable, log_space, reach_low, reach_high
///   attention/LAYER/      entropy, entropy_share = H / ln(keys left) with its 5th percentile, effective_keys = exp(H),
///                         largest_weight (means over rows); saturated, nearly_saturated, dead: shares of rows with a
///                         largest weight > 0.9, > 0.7, and with 1 - sum p^2 < 1e-3; change, divergence; mass/SENSOR
///   attention/LAYER/headN the same without entropy, percentile and effective keys
///   effective_bias/SENSOR/          mean, p05, p50, p95 of |bias| on the keys of windows, over all layers: the
///   effective bias
///                         |w| * scale * g; effective_bias/segments/SENSOR/ that on whole sensors, |w| * segment scale;
///                         effective_bias/LAYER/SENSOR/ and effective_bias/LAYER/segments/SENSOR/ by layer
///   bias/.../             of the same names: mean, std, min, max of what was added to the scores
///   trust/SENSOR/         mean, std, mean_abs of w; learned
///   prototypes/           mean_cosine, gate, purification_ratio
///
/// Metrics that were not given are left out. Sums are in double; percentiles interpolate between neighbours.
Metrics health_metrics(const HealthSample& sample, bool per_head = true);

struct HealthReport {
  Metrics metrics{};
  Findings findings{};
};

/// Watches a run: sampled statistics in, metrics and sentences out. Deterministic; knows no tensors.
///
///   HealthMonitor monitor({.interval = 10});
///   const bool sampled = monitor.due(step);             // ask the attention for its statistics only then
///   ...
///   if (sampled) {
///     HealthReport report = monitor.observe(sample);
///     sink.write(step, report.metrics);
///     for (const Finding& finding : report.findings) sink.say(finding);
///   }
class HealthMonitor {
 public:
  explicit HealthMonitor(MonitorOptions options = {});

  /// Whether the step, counted from 1, is to be sampled: the first and every interval-th.
  bool due(std::int64_t step) const;
  HealthReport observe(const HealthSample& sample);
  /// At the end of a run.
  Findings conclude() const { return rules_.conclude(); }
  /// Takes the rules to where they stood after the records of a run that is resumed, without saying anything.
  void replay(const std::vector<Record>& records);

 private:
  MonitorOptions options_;
  Rules rules_;
};

}  // namespace camber::health
