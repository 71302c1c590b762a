#include "camber/eval/breakdown.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "camber/threads/tasks.h"
#include "eval/arithmetic.h"
#include "eval/evaluate_rings.h"
#include "eval/scene_draws.h"

namespace camber::eval {
namespace {

// The means over the classes that have true objects, from curves and matches that stand class by class.
BinMetrics bin_of(const EvaluationConfig& config, const std::vector<ClassMatches>& matches,
                  std::span<const MetricCurve> curves, double from, double to) {
  const DetectionMetrics metrics = summarize(config, curves);
  const std::size_t distances = config.distance_thresholds.size();
  BinMetrics bin{.from = from, .to = to};
  std::vector<double> precisions;
  std::array<std::vector<double>, kTpErrorCount> errors;
  for (std::size_t c = 0; c < metrics.classes.size(); ++c) {
    for (std::size_t d = 0; d < distances; ++d) {
      const ClassMatches& entry = matches[c * distances + d];
      if (entry.distance != config.tp_threshold || entry.positives == 0) continue;
      bin.true_objects += entry.positives;
      bin.found += static_cast<std::int64_t>(entry.errors.size());
      precisions.push_back(metrics.classes[c].mean_average_precision);
      for (std::size_t e = 0; e < kTpErrorCount; ++e) errors[e].push_back(metrics.classes[c].errors[e]);
    }
  }
  bin.mean_ap = mean(precisions);
  for (std::size_t e = 0; e < kTpErrorCount; ++e) bin.tp_errors[e] = mean_without_nan(errors[e]);
  return bin;
}

void check_edges(const std::vector<double>& edges) {
  if (edges.size() < 2 || !std::is_sorted(edges.begin(), edges.end(), std::less_equal<>()))
    throw std::invalid_argument("[breakdown] edges must be two or more ascending numbers, got " +
                                std::to_string(edges.size()) + " of them");
}

// What is left of the matches when the true objects outside of a bin, and whoever found them, are passed over.
ClassMatches within(const ClassMatches& matches, const SampleBoxes& truth, const auto& in_bin) {
  ClassMatches part{.label = matches.label, .distance = matches.distance};
  part.positives = std::count_if(truth.boxes.begin(), truth.boxes.end(),
                                 [&](const DetectionBox& box) { return box.label == matches.label && in_bin(box); });
  std::size_t found = 0;
  for (std::size_t i = 0; i < matches.scores.size(); ++i) {
    const std::int32_t position = matches.matched_truth[i];
    const std::size_t error = found;
    if (position >= 0) ++found;
    if (position >= 0 && !in_bin(truth.boxes[static_cast<std::size_t>(position)])) continue;
    part.scores.push_back(matches.scores[i]);
    part.samples.push_back(matches.samples[i]);
    part.matched_truth.push_back(position);
    if (position >= 0) part.errors.push_back(matches.errors[error]);
  }
  return part;
}

// The matches with every scene repeated as often as it was drawn.
ClassMatches redrawn(const ClassMatches& matches, const std::vector<std::int32_t>& weight_of_sample,
                     std::int64_t positives) {
  ClassMatches result{.label = matches.label, .distance = matches.distance, .positives = positives};
  if (positives == 0) return result;
  std::size_t found = 0;
  for (std::size_t i = 0; i < matches.scores.size(); ++i) {
    const std::int32_t sample = matches.samples[i], position = matches.matched_truth[i];
    const std::size_t error = found;
    if (position >= 0) ++found;
    const std::int32_t copies = sample < 0 ? 1 : weight_of_sample[static_cast<std::size_t>(sample)];
    for (std::int32_t copy = 0; copy < copies; ++copy) {
      result.scores.push_back(matches.scores[i]);
      result.matched_truth.push_back(position);
      if (position >= 0) result.errors.push_back(matches.errors[error]);
    }
  }
  return result;
}

Interval interval_of(std::vector<double> values) {
  std::erase_if(values, [](double value) { return std::isnan(value); });
  constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
  if (values.empty()) return {kNothing, kNothing};
  std::sort(values.begin(), values.end());
  const auto quantile = [&values](double share) {
    const double position = share * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(position);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    return values[below] + (position - static_cast<double>(below)) * (values[above] - values[below]);
  };
  return {quantile(0.025), quantile(0.975)};
}

}  // namespace

std::vector<BinMetrics> by_distance(const EvaluationBoxes& boxes, const EvaluationConfig& config,
                                    const std::vector<double>& edges, int threads) {
  check_edges(edges);
  std::vector<ClassBoxes::Ring> rings;
  for (std::size_t i = 0; i + 1 < edges.size(); ++i) rings.push_back({edges[i], edges[i + 1]});
  std::vector<BinMetrics> bins;
  for (const Evaluation& evaluation : evaluate_rings(boxes, config, rings, threads)) {
    const ClassBoxes::Ring& ring = rings[bins.size()];
    bins.push_back(bin_of(config, evaluation.matches, evaluation.curves, ring.from, ring.to));
  }
  return bins;
}

std::vector<BinMetrics> by_points(const EvaluationBoxes& boxes, const EvaluationConfig& config,
                                  const Evaluation& evaluation, const std::vector<double>& edges) {
  check_edges(edges);
  std::vector<BinMetrics> bins;
  if (std::none_of(boxes.truth.boxes.begin(), boxes.truth.boxes.end(),
                   [](const DetectionBox& box) { return box.points >= 0; }))
    return bins;
  for (std::size_t i = 0; i < edges.size(); ++i) {
    const double to = i + 1 < edges.size() ? edges[i + 1] : std::numeric_limits<double>::infinity();
    const auto in_bin = [from = edges[i], to](const DetectionBox& box) {
      return box.points >= from && box.points < to;
    };
    std::vector<ClassMatches> matches;
    std::vector<MetricCurve> curves;
    for (const ClassMatches& entry : evaluation.matches) {
      matches.push_back(within(entry, boxes.truth, in_bin));
      curves.push_back(make_curve(matches.back()));
    }
    bins.push_back(bin_of(config, matches, curves, edges[i], to));
  }
  return bins;
}

BootstrapIntervals bootstrap(const EvaluationBoxes& boxes, const EvaluationConfig& config, const Evaluation& evaluation,
                             std::int64_t replicates, std::uint64_t seed, int threads) {
  if (replicates < 1)
    throw std::invalid_argument("[bootstrap] replicates must be at least 1, got " + std::to_string(replicates));
  const SceneDraws draws(boxes, seed);
  std::vector<DetectionMetrics> drawn(static_cast<std::size_t>(replicates));
  threads::for_each_task(drawn.size(), threads, [&](std::size_t task) {
    const std::vector<std::int32_t> weight_of_sample = draws.weights(task);
    std::array<std::int64_t, kClassCount> positives{};
    for (const DetectionBox& box : boxes.truth.boxes)
      positives[static_cast<std::size_t>(box.label)] += weight_of_sample[static_cast<std::size_t>(box.sample)];
    std::vector<MetricCurve> curves;
    curves.reserve(evaluation.matches.size());
    for (const ClassMatches& matches : evaluation.matches)
      curves.push_back(
          make_curve(redrawn(matches, weight_of_sample, positives[static_cast<std::size_t>(matches.label)])));
    drawn[task] = summarize(config, curves);
  });
  BootstrapIntervals intervals{.replicates = replicates, .scenes = draws.scenes()};
  const auto collect = [&drawn](auto&& metric) {
    std::vector<double> values;
    values.reserve(drawn.size());
    for (const DetectionMetrics& metrics : drawn) values.push_back(metric(metrics));
    return interval_of(std::move(values));
  };
  intervals.mean_ap = collect([](const DetectionMetrics& m) { return m.mean_ap; });
  intervals.nd_score = collect([](const DetectionMetrics& m) { return m.nd_score; });
  for (std::size_t e = 0; e < kTpErrorCount; ++e)
    intervals.tp_errors[e] = collect([e](const DetectionMetrics& m) { return m.tp_errors[e]; });
  for (std::size_t c = 0; c < config.class_ranges.size(); ++c)
    intervals.class_ap.push_back(
        collect([c](const DetectionMetrics& m) { return m.classes[c].mean_average_precision; }));
  return intervals;
}

}  // namespace camber::eval
