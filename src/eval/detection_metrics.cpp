#include "camber/eval/detection_metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "camber/threads/tasks.h"
#include "eval/arithmetic.h"
#include "eval/evaluate_rings.h"

namespace camber::eval {
namespace {

double recall_at(std::size_t position) {
  return position + 1 == kCurvePoints ? 1.0 : static_cast<double>(position) * 0.01;
}

std::size_t first_counted(double min_recall) {
  return static_cast<std::size_t>(std::nearbyint(100 * min_recall)) + 1;
}

// The mean of all values up to each index, NaN passed over; ones when there is nothing but NaN.
std::vector<double> running_mean(const std::vector<TpErrors>& errors, std::size_t which) {
  const bool none =
      std::all_of(errors.begin(), errors.end(), [which](const TpErrors& e) { return std::isnan(e[which]); });
  std::vector<double> means(errors.size(), none ? 1.0 : 0.0);
  if (none) return means;
  double sum = 0;
  std::int64_t count = 0;
  for (std::size_t i = 0; i < errors.size(); ++i) {
    const double error = errors[i][which];
    if (!std::isnan(error)) {
      sum += error;
      ++count;
    }
    if (count != 0) means[i] = sum / static_cast<double>(count);
  }
  return means;
}

bool has_error(DetectionClass label, TpError error) {
  if (label == DetectionClass::kTrafficCone) return error == TpError::kTranslation || error == TpError::kScale;
  if (label == DetectionClass::kBarrier) return error != TpError::kVelocity && error != TpError::kAttribute;
  return true;
}

// The devkit asserts it of every curve. Scores below zero break it, because recalls that are not reached count as 0.
void check_confidence(const ClassMatches& matches, const MetricCurve& curve) {
  for (std::size_t i = 0; i < kCurvePoints; ++i) {
    if (i == 0 ? !std::isnan(curve.confidence[0]) : curve.confidence[i] <= curve.confidence[i - 1]) continue;
    throw std::runtime_error("[evaluate] scores of " + std::string(name_of(matches.label)) +
                             " must be finite and at least 0 (a box without a score counts as -1): at " +
                             std::to_string(matches.distance) + " m the score does not fall with the recall");
  }
}

}  // namespace

MetricCurve MetricCurve::without_predictions() {
  MetricCurve curve;
  for (auto& error : curve.errors) error.fill(1);
  return curve;
}

std::size_t MetricCurve::last_reached() const {
  for (std::size_t i = kCurvePoints; i-- > 0;)
    if (confidence[i] != 0) return i;
  return 0;
}

MetricCurve make_curve(const ClassMatches& matches) {
  if (matches.errors.empty()) return MetricCurve::without_predictions();
  const std::size_t count = matches.scores.size();
  const auto positives = static_cast<double>(matches.positives);
  std::vector<double> recall(count), precision(count), match_scores;
  double true_positives = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (matches.matched_truth[i] >= 0) {
      true_positives += 1;
      match_scores.push_back(matches.scores[i]);
    }
    recall[i] = true_positives / positives;
    precision[i] = true_positives / static_cast<double>(i + 1);
  }
  MetricCurve curve;
  const auto recall_of = [&](std::size_t i) { return recall[i]; };
  for (std::size_t position = 0; position < kCurvePoints; ++position) {
    const double x = recall_at(position);
    curve.precision[position] = interpolate(
        x, count, recall_of, [&](std::size_t i) { return precision[i]; }, 0);
    curve.confidence[position] = interpolate(
        x, count, recall_of, [&](std::size_t i) { return matches.scores[i]; }, 0);
  }
  // The errors over the score: interpolation wants ascending positions, so both are read from the back.
  const std::size_t found = match_scores.size();
  for (std::size_t which = 0; which < kTpErrorCount; ++which) {
    const std::vector<double> means = running_mean(matches.errors, which);
    for (std::size_t position = 0; position < kCurvePoints; ++position)
      curve.errors[which][position] = interpolate(
          curve.confidence[position], found, [&](std::size_t i) { return match_scores[found - 1 - i]; },
          [&](std::size_t i) { return means[found - 1 - i]; }, means.front());
  }
  return curve;
}

double average_precision(const MetricCurve& curve, double min_recall, double min_precision) {
  std::vector<double> above;
  for (std::size_t i = first_counted(min_recall); i < kCurvePoints; ++i) {
    const double value = curve.precision[i] - min_precision;
    above.push_back(value < 0 ? 0 : value);
  }
  return mean(above) / (1.0 - min_precision);
}

double tp_error(const MetricCurve& curve, double min_recall, TpError error) {
  const std::size_t first = first_counted(min_recall), last = curve.last_reached();
  if (last < first) return 1;
  return mean(std::span(curve.errors[static_cast<std::size_t>(error)]).subspan(first, last + 1 - first));
}

DetectionMetrics summarize(const EvaluationConfig& config, std::span<const MetricCurve> curves) {
  const std::size_t distances = config.distance_thresholds.size();
  const auto tp_index = static_cast<std::size_t>(
      std::find(config.distance_thresholds.begin(), config.distance_thresholds.end(), config.tp_threshold) -
      config.distance_thresholds.begin());
  DetectionMetrics metrics;
  std::vector<double> class_means;
  for (std::size_t c = 0; c < config.class_ranges.size(); ++c) {
    ClassMetrics entry{.label = config.class_ranges[c].label};
    for (std::size_t d = 0; d < distances; ++d)
      entry.average_precisions.push_back(
          average_precision(curves[c * distances + d], config.min_recall, config.min_precision));
    entry.mean_average_precision = mean(entry.average_precisions);
    for (std::size_t e = 0; e < kTpErrorCount; ++e) {
      const auto error = static_cast<TpError>(e);
      entry.errors[e] = has_error(entry.label, error)
                            ? tp_error(curves[c * distances + tp_index], config.min_recall, error)
                            : std::numeric_limits<double>::quiet_NaN();
    }
    class_means.push_back(entry.mean_average_precision);
    metrics.classes.push_back(std::move(entry));
  }
  metrics.mean_ap = mean(class_means);
  for (std::size_t e = 0; e < kTpErrorCount; ++e) {
    std::vector<double> of_classes;
    of_classes.reserve(metrics.classes.size());
    for (const ClassMetrics& entry : metrics.classes) of_classes.push_back(entry.errors[e]);
    metrics.tp_errors[e] = mean_without_nan(of_classes);
    const double score = 1.0 - metrics.tp_errors[e];
    metrics.tp_scores[e] = score > 0 ? score : 0;
  }
  const double total = config.mean_ap_weight * metrics.mean_ap + pairwise_sum(metrics.tp_scores);
  metrics.nd_score = total / (config.mean_ap_weight + static_cast<double>(kTpErrorCount));
  return metrics;
}

std::vector<Evaluation> evaluate_rings(const EvaluationBoxes& boxes, const EvaluationConfig& config,
                                       const std::vector<ClassBoxes::Ring>& rings, int threads) {
  config.validate();
  const std::size_t classes = config.class_ranges.size(), distances = config.distance_thresholds.size();
  std::vector<Evaluation> evaluations(rings.size());
  for (Evaluation& evaluation : evaluations) {
    evaluation.matches.resize(classes * distances);
    evaluation.curves.resize(classes * distances);
  }
  // Classes with many predictions first: the last task decides when all are done.
  const ClassIndex index(boxes);
  std::vector<std::size_t> order(classes);
  for (std::size_t c = 0; c < classes; ++c) order[c] = c;
  const auto predictions_of = [&](std::size_t c) {
    return index.predictions[static_cast<std::size_t>(config.class_ranges[c].label)].size();
  };
  std::stable_sort(
      order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return predictions_of(a) > predictions_of(b); });
  threads::for_each_task(classes, threads, [&](std::size_t task) {
    const std::size_t c = order[task];
    ClassBoxes of_class(boxes, index, config.class_ranges[c].label);
    for (std::size_t ring = 0; ring < rings.size(); ++ring) {
      for (std::size_t d = 0; d < distances; ++d) {
        ClassMatches& matches = evaluations[ring].matches[c * distances + d];
        matches = of_class.match(config.distance_thresholds[d], rings[ring]);
        evaluations[ring].curves[c * distances + d] = make_curve(matches);
      }
    }
  });
  for (Evaluation& evaluation : evaluations) evaluation.metrics = summarize(config, evaluation.curves);
  return evaluations;
}

Evaluation evaluate(const EvaluationBoxes& boxes, const EvaluationConfig& config, int threads) {
  Evaluation evaluation = std::move(evaluate_rings(boxes, config, {{}}, threads).front());
  for (std::size_t i = 0; i < evaluation.curves.size(); ++i)
    check_confidence(evaluation.matches[i], evaluation.curves[i]);
  return evaluation;
}

}  // namespace camber::eval
