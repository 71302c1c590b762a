#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "camber/eval/detection_box.h"
#include "camber/eval/evaluation_config.h"
#include "camber/eval/ground_truth.h"

namespace camber::eval {

/// The five errors of a true positive in the devkit's order.
enum class TpError : std::uint8_t { kTranslation, kScale, kOrientation, kVelocity, kAttribute };
inline constexpr std::size_t kTpErrorCount = 5;
inline constexpr std::array<std::string_view, kTpErrorCount> kTpErrorNames = {"trans_err", "scale_err", "orient_err",
                                                                              "vel_err", "attr_err"};
using TpErrors = std::array<double, kTpErrorCount>;

/// A comparison of one class at one distance: predictions in the order in which they choose (score descending, of equal
/// scores the later one first), each with the true object that it got.
struct ClassMatches {
  DetectionClass label = DetectionClass::kCar;
  double distance = 0;
  std::int64_t positives = 0;                 ///< true objects of the class
  std::vector<double> scores{};               ///< [predictions]
  std::vector<std::int32_t> samples{};        ///< [predictions], -1: of no sample there is
  std::vector<std::int32_t> matched_truth{};  ///< [predictions], index in truth.boxes; -1: a false positive
  std::vector<TpErrors> errors{};             ///< [matches], in the same order
};

inline constexpr std::size_t kCurvePoints = 101;

/// Precision, score and errors of one class at one distance, at recalls 0, 0.01 .. 1.
struct MetricCurve {
  std::array<double, kCurvePoints> precision{};
  std::array<double, kCurvePoints> confidence{};
  std::array<std::array<double, kCurvePoints>, kTpErrorCount> errors{};

  /// The curve of a class without true objects, without predictions or without a match.
  static MetricCurve without_predictions();
  /// The last index whose confidence is not zero; 0 when there is none.
  std::size_t last_reached() const;
};

struct ClassMetrics {
  DetectionClass label = DetectionClass::kCar;
  std::vector<double> average_precisions{};  ///< [distance thresholds]
  double mean_average_precision = 0;         ///< their mean
  TpErrors errors{};                         ///< NaN where the task defines none
};

/// mean_ap is the mean over classes; tp_errors are means over the classes that define them;
///
///   nd_score = (weight * mean_ap + sum over errors of max(0, 1 - error)) / (weight + 5).
struct DetectionMetrics {
  std::vector<ClassMetrics> classes{};
  double mean_ap = 0;
  TpErrors tp_errors{};
  TpErrors tp_scores{};
  double nd_score = 0;
};

struct Evaluation {
  DetectionMetrics metrics{};
  /// [classes * thresholds], class by class in the configuration's order.
  std::vector<ClassMatches> matches{};
  std::vector<MetricCurve> curves{};
};

/// The predictions of a class find their true objects: in the order of their scores each takes the nearest centre in
/// the plane of a true object of its class and sample that none has taken, when it is nearer than `distance`.
ClassMatches match_class(const EvaluationBoxes& boxes, DetectionClass label, double distance);

/// Precision and score interpolated over recall, the running means of the errors (NaN passed over) over the score.
MetricCurve make_curve(const ClassMatches& matches);

/// mean(max(0, precision - min_precision)) over the recalls above min_recall, divided by 1 - min_precision.
double average_precision(const MetricCurve& curve, double min_recall, double min_precision);
/// The mean of an error over the recalls above min_recall that are reached; 1 when none is.
double tp_error(const MetricCurve& curve, double min_recall, TpError error);

/// The summary of curves that stand class by class in the configuration's order.
DetectionMetrics summarize(const EvaluationConfig& config, std::span<const MetricCurve> curves);

/// The whole evaluation of boxes that are paired and filtered. The same bits for any number of threads (0: as many as
/// the machine has).
///
///   EvaluationBoxes boxes = pair_boxes(&split, &dataset, load_ground_truth(dataset, split), read_results(file).boxes);
///   filter_boxes(&dataset, config, "the results", boxes.predictions);
///   filter_boxes(&dataset, config, "the ground truth", boxes.truth);
///   const Evaluation evaluation = evaluate(boxes, config);
Evaluation evaluate(const EvaluationBoxes& boxes, const EvaluationConfig& config, int threads = 0);

}  // namespace camber::eval
