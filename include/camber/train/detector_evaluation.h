#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <camber/data/dataset.h>
#include <camber/data/splits.h>
#include <camber/detection/detector.h>
#include <camber/eval/metrics_report.h>

namespace camber::train {

/// Frames on which a detector is run, and what happens to their sensors.
struct DetectionRequest {
  const data::Dataset& dataset;
  data::Split split{};
  std::vector<std::string> faults{};  ///< all of them on every frame, such as {"frozen:4"}; empty: clean
  std::uint64_t seed = 0;             ///< of the faults
  std::int64_t batch_size = 4;
  int threads = 1;  ///< that load frames
  detection::TrustControl trust = detection::TrustControl::kModel;
  bool attention_mass = false;  ///< also the attention's mass per sensor
  std::function<void(std::int64_t frames)> progress{};
};

/// What was found in one frame.
struct FoundFrame {
  data::LoadedSample sample{};
  std::vector<detection::Detection> found{};
  torch::Tensor trust{};  ///< [Q, X] of every query; undefined without a router
};

/// Runs the detector over the frames in the order of the split, in evaluation mode and without gradients.
void detect_frames(detection::Detector detector, const DetectionRequest& request,
                   const std::function<void(FoundFrame&&)>& take);

/// Trust in each sensor at the 20 best boxes of every frame; empty without a router. With one weight a camera, the
/// largest counts.
struct TrustRecord {
  std::vector<double> lidar{}, camera{};
};

/// The predictions of a split in the global frame; adds to `trust` when it is given.
eval::SampleBoxes predict(detection::Detector detector, const DetectionRequest& request, TrustRecord* trust = nullptr);

/// The chance that a number drawn from `low` lies below one drawn from `high`, ties counted half: the area under the
/// ROC curve. NaN when either is empty or holds one.
double area_under_curve(const std::vector<double>& low, const std::vector<double>& high);

/// One condition: its name ("clean", or the fault's full text such as "black:4") and figures.
struct ConditionReport {
  std::string name{};
  eval::MetricsReport metrics{};
  TrustRecord trust{};
};

/// The fault table.
struct FaultReport {
  std::vector<ConditionReport> conditions{};  ///< the clean one first

  const eval::DetectionMetrics& clean() const { return conditions.front().metrics.evaluation.metrics; }
  /// NDS of the condition over clean NDS; NaN when that is 0.
  double resilience(const ConditionReport& condition) const;
  /// The mean over the faults; NaN without faults.
  double mean_resilience() const;

  /// One row a condition: mAP, NDS, five errors, resilience; with a router also the mean trust in each sensor and how
  /// well it tells the condition from the clean one; then classes, distances and points of the clean one.
  std::string to_text() const;
  std::string to_csv() const;
  /// A figure that is not defined is a bare NaN, as in the metrics:
  /// {"clean": {keys of the metrics}, "faults": {"frozen:4": {...}}, "mean_resilience": ...,
  /// "trust": {"frozen:4": {"lidar": {"mean", "area_under_curve"}, "camera": {...}}}}
  std::string to_json() const;
};

/// The conditions by data::Fault::text(), however they were written; refuses one that stands there twice.
std::vector<std::string> fault_names(const std::vector<std::string>& faults);

/// Refuses conditions that these frames cannot have: a delivery to repeat where there is none.
void check_conditions(const DetectionRequest& request, const std::vector<std::string>& faults);

/// Evaluates the clean condition and each of `faults` (request.faults is not looked at), named by data::Fault::text().
FaultReport evaluate_detector(detection::Detector detector, const DetectionRequest& request,
                              const std::vector<std::string>& faults, const eval::EvaluationConfig& config);

}  // namespace camber::train
