#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "camber/eval/detection_metrics.h"

/// More than the devkit tells, from the same matches: where a detector is good, and how sure the metrics are.
namespace camber::eval {

/// One part of the true objects. Means are taken over the classes that have true objects in it.
struct BinMetrics {
  double from = 0, to = 0;  ///< from <= value < to
  std::int64_t true_objects = 0;
  std::int64_t found = 0;  ///< of them, at the errors' threshold
  double mean_ap = 0;      ///< NaN without true objects
  TpErrors tp_errors{};    ///< NaN without true objects
};

/// By distance from the ego vehicle: true objects and predictions of one ring alone, evaluated as the whole is.
/// `edges` ascend; the last ring ends at the last edge.
std::vector<BinMetrics> by_distance(const EvaluationBoxes& boxes, const EvaluationConfig& config,
                                    const std::vector<double>& edges, int threads = 0);

/// By the number of points inside the true object. Matching is that of the whole; a prediction that found an object of
/// another bin counts neither as found nor as false. The last bin is open. Empty when no object's points are counted.
std::vector<BinMetrics> by_points(const EvaluationBoxes& boxes, const EvaluationConfig& config,
                                  const Evaluation& evaluation, const std::vector<double>& edges);

struct Interval {
  double low = 0, high = 0;
};

/// 95 % percentile intervals of the metrics under resampling of scenes, whole scenes drawn with replacement: frames of
/// one scene are alike, so that frames drawn one by one would promise too much.
struct BootstrapIntervals {
  std::int64_t replicates = 0, scenes = 0;
  Interval mean_ap{}, nd_score{};
  std::array<Interval, kTpErrorCount> tp_errors{};
  std::vector<Interval> class_ap{};  ///< in the configuration's order
};

/// Needs the scenes of the samples (tables); two at least. The same seed gives the same intervals for any number of
/// threads.
BootstrapIntervals bootstrap(const EvaluationBoxes& boxes, const EvaluationConfig& config, const Evaluation& evaluation,
                             std::int64_t replicates, std::uint64_t seed, int threads = 0);

/// mAP under each of the bootstrap's draws of scenes. Two evaluations of the same samples with the same seed meet the
/// same draws, so that the differences of their numbers are paired by scene.
std::vector<double> drawn_mean_aps(const EvaluationBoxes& boxes, const EvaluationConfig& config,
                                   const Evaluation& evaluation, std::int64_t replicates, std::uint64_t seed);

}  // namespace camber::eval
