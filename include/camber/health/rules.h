#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "camber/config/field.h"
#include "camber/health/finding.h"
#include "camber/health/metric.h"

namespace camber::health {

struct RuleOptions {
  std::int64_t window = 4;
  std::int64_t repeat_steps = 500;
  double near_cap = 0.8;
  double dead_gradient = 1e-8;
  double quiet_trust = 0.01;
  double router_saturation = 0.95;
  double saturated_rows = 0.5;
  double similar_prototypes = 0.8;
  double converged_high = 3.5;
  double converged_low = 1.5;

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("window", window, "samples in a row that must agree before a rule about a state speaks",
            config::Range{.min = 1});
    visitor("repeat_steps", repeat_steps, "a rule says the same of the same thing at most once in so many steps",
            config::Range{.min = 1});
    visitor("near_cap", near_cap, "share of max above which a scale is near its cap", config::Range{0, 1});
    visitor("dead_gradient", dead_gradient, "a gradient below it moves nothing (Adam's epsilon)",
            config::Range{.min = 0});
    visitor("quiet_trust", quiet_trust, "mean |w| below which a scale without gradient is no illness",
            config::Range{0, 1});
    visitor("router_saturation", router_saturation, "|mean w| above which a router is saturated", config::Range{0, 1});
    visitor("saturated_rows", saturated_rows, "share of rows with a weight over 0.9 from which a softmax is saturated",
            config::Range{0, 1});
    visitor("similar_prototypes", similar_prototypes, "mean cosine from which prototypes are alike",
            config::Range{-1, 1});
    visitor("converged_high", converged_high, "a scale that settles above it wants more room");
    visitor("converged_low", converged_low, "a scale that settles below it carries little");
  }

  friend bool operator==(const RuleOptions&, const RuleOptions&) = default;
};

/// Turns the metrics of a run into sentences, step by step. The rules read metrics by name (monitor.h says which), so
/// that a finished run's metrics.jsonl gives the same findings as the run gave while it went on.
///
///   rule                        speaks when, for learnable scales only
///   above_warn_threshold        value > warn_threshold
///   near_cap                    value > 0.8 max
///   at_cap                      every step of a whole window at max
///   similar_prototypes          the same, and the prototypes' mean cosine > 0.8 (then at_cap is silent)
///   no_gradient                 |gradient| < 1e-8 through a window; silent while mean |w| < 0.01
///   cannot_reach                a note at the first sample: the bounds lie outside what the optimiser can reach
///   saturated_softmax           more than half of an attention's rows have a weight over 0.9 through a window
///   router_saturated            |mean w| > 0.95 for a learned router
///   not_finite                  a metric that must be finite is NaN or infinite, and the guard did not skip the step
///   converged_high, _low        for linear scales within 0.5..5, from conclude(): settled above 3.5 or below 1.5 after
///                               moving at least three times its late spread
///
/// Of one rule and subject one sentence in `repeat_steps` steps; nothing is random.
///
///   Rules rules;
///   for (const Record& record : read_records("runs/a/metrics.jsonl"))
///     for (const Finding& finding : rules.observe(record.step, record.metrics)) std::cout << finding.sentence << '\n';
class Rules {
 public:
  explicit Rules(RuleOptions options = {});
  ~Rules();
  Rules(Rules&&) noexcept;
  Rules& operator=(Rules&&) noexcept;

  /// What there is to say about this step. Steps never fall.
  Findings observe(std::int64_t step, const Metrics& metrics);
  /// What only the whole course shows; does not change the state.
  Findings conclude() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace camber::health
