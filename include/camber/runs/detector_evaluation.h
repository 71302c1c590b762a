#pragma once
#include <string>
#include <vector>

#include <camber/eval/metrics_report.h>
#include <camber/runs/detector_passes.h>

namespace camber::runs {

/// Trust in each sensor at the 20 best boxes of every frame; empty without a router. With one weight a camera, the
/// largest counts.
struct TrustRecord {
  std::vector<double> lidar{}, camera{};
};

/// The predictions of one pass in the global frame, evaluated.
struct PassReport {
  eval::MetricsReport metrics{};
  TrustRecord trust{};
  std::vector<double> agreement{};  ///< of each frame's sensors, in the order of the split; NaN: not known
};

/// A stream in which frames are not all in the same state: of each frame of the split, the pass whose boxes it takes.
using PassMixture = std::vector<std::size_t>;

/// Evaluates every pass, then every mixture of them; the answers stand in that order. Of `metrics` bins, draws and
/// threads count. Of several ranks rank 0 has the answers, to the bit those of one process; those of the others are
/// empty.
std::vector<PassReport> evaluate_passes(detection::Detector detector, const DetectionRequest& request,
                                        const std::vector<DetectionPass>& passes, const eval::EvaluationConfig& config,
                                        const eval::MetricsRequest& metrics = {},
                                        const std::vector<PassMixture>& mixtures = {});

/// The mean; NaN of nothing.
double mean_of(const std::vector<double>& values);

/// The chance that a number drawn from `low` lies below one drawn from `high`, ties counted half: the area under the
/// ROC curve. NaN when either is empty or holds one.
double area_under_curve(const std::vector<double>& low, const std::vector<double>& high);

/// One condition: its name ("clean", or the fault's text such as "black:4") and metrics.
struct ConditionReport : PassReport {
  std::string name{};
};

/// The fault table.
struct FaultReport {
  std::vector<ConditionReport> conditions{};  ///< the clean one first
  sensors::CueErrorOptions cue_errors{};      ///< how the cues of all of them erred

  const eval::DetectionMetrics& clean() const { return conditions.front().metrics.evaluation.metrics; }
  /// NDS of the condition over clean NDS; NaN when that is 0.
  double resilience(const ConditionReport& condition) const;
  /// The mean over the faults; NaN without faults.
  double mean_resilience() const;

  /// One row a condition: mAP, NDS, five errors, resilience; with a router also the mean trust in each sensor and how
  /// well it tells the condition from the clean one; then classes, distances and points of the clean one.
  std::string to_text() const;
  std::string to_csv() const;
  /// A metric that is not defined is a bare NaN, as in the metrics:
  /// {"clean": {keys of the metrics}, "faults": {"frozen:4": {...}}, "mean_resilience": ...,
  /// "trust": {"frozen:4": {"lidar": {"mean", "area_under_curve"}, "camera": {...}}},
  ///  "agreement": {"frozen:4": {"mean", "area_under_curve"}}, of a detector with dense heads
  ///  "cue_errors": "false_alarms:0.1"}, where they erred
  std::string to_json() const;
};

/// Reads a list of conditions; refuses one that stands there twice, however it is written.
std::vector<sensors::Fault> parse_conditions(const std::vector<std::string>& names);

/// Evaluates the clean condition and each of `faults`, named by sensors::Fault::text(), with the trust that is given.
FaultReport evaluate_detector(detection::Detector detector, const DetectionRequest& request,
                              const std::vector<sensors::Fault>& faults, const eval::EvaluationConfig& config,
                              detection::TrustControl trust = detection::TrustControl::kModel);

}  // namespace camber::runs
