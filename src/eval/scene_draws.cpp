#include "eval/scene_draws.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

#include "camber/eval/breakdown.h"
#include "eval/arithmetic.h"

namespace camber::eval {
namespace {

// mAP of one class and distance under the weights: make_curve()'s precision alone, with the same bits.
double drawn_precision(const ClassMatches& matches, const std::vector<std::int32_t>& weight_of_sample, double positives,
                       const EvaluationConfig& config, std::vector<std::int32_t>& found) {
  found.clear();  // true positives up to each index
  std::int32_t true_positives = 0;
  for (std::size_t i = 0; i < matches.scores.size(); ++i) {
    const std::int32_t sample = matches.samples[i];
    const std::int32_t copies = sample < 0 ? 1 : weight_of_sample[static_cast<std::size_t>(sample)];
    const std::int32_t step = matches.matched_truth[i] >= 0 ? 1 : 0;
    for (std::int32_t copy = 0; copy < copies; ++copy) found.push_back(true_positives += step);
  }
  MetricCurve curve = MetricCurve::without_predictions();
  if (true_positives == 0 || positives == 0) return average_precision(curve, config.min_recall, config.min_precision);
  const auto recall = [&](std::size_t i) { return static_cast<double>(found[i]) / positives; };
  const auto precision = [&](std::size_t i) { return static_cast<double>(found[i]) / static_cast<double>(i + 1); };
  for (std::size_t position = 0; position < kCurvePoints; ++position) {
    const double x = position + 1 == kCurvePoints ? 1.0 : static_cast<double>(position) * 0.01;
    curve.precision[position] = interpolate(x, found.size(), recall, precision, 0);
  }
  return average_precision(curve, config.min_recall, config.min_precision);
}

}  // namespace

SceneDraws::SceneDraws(const EvaluationBoxes& boxes, std::uint64_t seed) : stream_(seed, "eval.bootstrap") {
  std::vector<std::int32_t> known(boxes.scene_of_sample);
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
  for (const std::int32_t scene : boxes.scene_of_sample)
    scene_of_sample_.push_back(
        static_cast<std::int32_t>(std::lower_bound(known.begin(), known.end(), scene) - known.begin()));
  scenes_ = std::ssize(known);
  if (scenes_ < 2)
    throw std::invalid_argument("[bootstrap] scenes must be two or more to be resampled, got " +
                                std::to_string(scenes_) + (boxes.scene_of_sample.empty() ? " (no tables)" : ""));
}

std::vector<std::int32_t> SceneDraws::weights(std::size_t draw) const {
  random::Stream draws = stream_.at(draw);
  std::vector<std::int32_t> weight_of_scene(static_cast<std::size_t>(scenes_));
  for (std::int64_t i = 0; i < scenes_; ++i) ++weight_of_scene[draws.integer(static_cast<std::uint64_t>(scenes_))];
  std::vector<std::int32_t> weight_of_sample;
  weight_of_sample.reserve(scene_of_sample_.size());
  for (const std::int32_t scene : scene_of_sample_)
    weight_of_sample.push_back(weight_of_scene[static_cast<std::size_t>(scene)]);
  return weight_of_sample;
}

std::vector<double> drawn_mean_aps(const EvaluationBoxes& boxes, const EvaluationConfig& config,
                                   const Evaluation& evaluation, std::int64_t replicates, std::uint64_t seed) {
  const SceneDraws draws(boxes, seed);
  const std::size_t distances = config.distance_thresholds.size();
  std::vector<double> result;
  std::vector<std::int32_t> found;
  for (std::int64_t draw = 0; draw < replicates; ++draw) {
    const std::vector<std::int32_t> weights = draws.weights(static_cast<std::size_t>(draw));
    std::array<double, kClassCount> positives{};
    for (const DetectionBox& box : boxes.truth.boxes)
      positives[static_cast<std::size_t>(box.label)] += weights[static_cast<std::size_t>(box.sample)];
    std::vector<double> class_means;
    for (std::size_t c = 0; c < config.class_ranges.size(); ++c) {
      std::vector<double> precisions;
      for (std::size_t d = 0; d < distances; ++d) {
        const ClassMatches& matches = evaluation.matches[c * distances + d];
        precisions.push_back(
            drawn_precision(matches, weights, positives[static_cast<std::size_t>(matches.label)], config, found));
      }
      class_means.push_back(mean(precisions));
    }
    result.push_back(mean(class_means));
  }
  return result;
}

}  // namespace camber::eval
