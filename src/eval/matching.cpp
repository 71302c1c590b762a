#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <stdexcept>
#include <string>
#include <utility>

#include "eval/arithmetic.h"
#include "eval/class_boxes.h"

namespace camber::eval {
namespace {

double length(double x, double y) {
  return std::sqrt(x * x + y * y);
}

// 1 - intersection over union of two boxes that share centre and heading.
double scale_error(const DetectionBox& truth, const DetectionBox& prediction) {
  for (std::size_t i = 0; i < 3; ++i)
    if (!(truth.size[i] > 0) || !(prediction.size[i] > 0))
      throw std::runtime_error(std::string("[match_class] a ") + std::string(name_of(truth.label)) +
                               " that was found must have a size above 0, got " + std::to_string(truth.size[i]) +
                               " (true) and " + std::to_string(prediction.size[i]) + " (predicted)");
  const auto volume = [](double w, double l, double h) { return w * l * h; };
  const auto smaller = [&](std::size_t i) { return std::min(truth.size[i], prediction.size[i]); };
  const double intersection = volume(smaller(0), smaller(1), smaller(2));
  const double both = volume(truth.size[0], truth.size[1], truth.size[2]) +
                      volume(prediction.size[0], prediction.size[1], prediction.size[2]);
  return 1 - intersection / (both - intersection);
}

}  // namespace

ClassIndex::ClassIndex(const EvaluationBoxes& boxes) {
  const auto list = [](const std::vector<DetectionBox>& all, auto& by_class) {
    for (std::size_t i = 0; i < all.size(); ++i)
      by_class[static_cast<std::size_t>(all[i].label)].push_back(static_cast<std::uint32_t>(i));
  };
  list(boxes.predictions.boxes, predictions);
  list(boxes.truth.boxes, truths);
}

ClassBoxes::ClassBoxes(const EvaluationBoxes& boxes, const ClassIndex& index, DetectionClass label)
    : boxes_(boxes), label_(label) {
  const auto index_of = [](const SampleBoxes& set, std::uint32_t i) {
    const DetectionBox& box = set.boxes[i];
    return Box{box.translation[0], box.translation[1], box.ego_distance, box.sample, i};
  };
  // By score descending, of equal scores the later one first.
  std::vector<std::pair<double, std::uint32_t>> ranked;
  for (const std::uint32_t i : index.predictions[static_cast<std::size_t>(label)]) {
    const DetectionBox& box = boxes.predictions.boxes[i];
    if (std::isnan(box.score))
      throw std::runtime_error(std::string("[match_class] scores of ") + std::string(name_of(label)) +
                               " must not be NaN, got one in sample " + std::to_string(box.sample));
    ranked.emplace_back(box.score, i);
  }
  std::sort(ranked.begin(), ranked.end(), std::greater<>());
  predictions_.reserve(ranked.size());
  scores_.reserve(ranked.size());
  for (const auto& [score, i] : ranked) {
    predictions_.push_back(index_of(boxes.predictions, i));
    scores_.push_back(score);
  }
  prediction_yaws_.resize(ranked.size());
  prediction_yaw_known_.resize(ranked.size());
  truth_offsets_.push_back(0);
  auto next = index.truths[static_cast<std::size_t>(label)].begin();
  const auto end = index.truths[static_cast<std::size_t>(label)].end();
  for (std::size_t sample = 0; sample < boxes.truth.samples(); ++sample) {
    for (; next != end && *next < boxes.truth.offsets[sample + 1]; ++next) {
      truths_.push_back(index_of(boxes.truth, *next));
      truth_yaws_.push_back(quaternion_yaw(boxes.truth.boxes[*next].rotation));
    }
    truth_offsets_.push_back(static_cast<std::uint32_t>(truths_.size()));
  }
}

TpErrors ClassBoxes::errors_of(std::size_t prediction_index, std::size_t truth_index) {
  const DetectionBox& truth = boxes_.truth.boxes[truths_[truth_index].box];
  const DetectionBox& prediction = boxes_.predictions.boxes[predictions_[prediction_index].box];
  if (!prediction_yaw_known_[prediction_index]) {
    prediction_yaws_[prediction_index] = quaternion_yaw(prediction.rotation);
    prediction_yaw_known_[prediction_index] = true;
  }
  constexpr double kPi = std::numbers::pi;
  const double period = label_ == DetectionClass::kBarrier ? kPi : 2 * kPi;  // a barrier looks the same from both sides
  TpErrors errors{};
  errors[0] =
      length(prediction.translation[0] - truth.translation[0], prediction.translation[1] - truth.translation[1]);
  errors[1] = scale_error(truth, prediction);
  errors[2] = angle_difference(truth_yaws_[truth_index], prediction_yaws_[prediction_index], period);
  errors[3] = length(prediction.velocity[0] - truth.velocity[0], prediction.velocity[1] - truth.velocity[1]);
  errors[4] = truth.attribute == kNoAttribute ? std::numeric_limits<double>::quiet_NaN()
                                              : (truth.attribute == prediction.attribute ? 0.0 : 1.0);
  return errors;
}

ClassMatches ClassBoxes::match(double distance, const Ring& ring) {
  ClassMatches matches{.label = label_, .distance = distance};
  std::vector<char> free(truths_.size());
  for (std::size_t i = 0; i < truths_.size(); ++i) {
    free[i] = ring.contains(truths_[i].ego_distance);
    matches.positives += free[i];
  }
  if (matches.positives == 0) return matches;
  matches.scores.reserve(predictions_.size());
  matches.samples.reserve(predictions_.size());
  matches.matched_truth.reserve(predictions_.size());
  for (std::size_t p = 0; p < predictions_.size(); ++p) {
    const Box& prediction = predictions_[p];
    if (!ring.contains(prediction.ego_distance)) continue;
    double nearest = std::numeric_limits<double>::infinity();
    std::size_t found = truths_.size();
    if (prediction.sample >= 0) {
      const auto sample = static_cast<std::size_t>(prediction.sample);
      for (std::size_t i = truth_offsets_[sample]; i < truth_offsets_[sample + 1]; ++i) {
        if (!free[i]) continue;
        const double apart = length(prediction.x - truths_[i].x, prediction.y - truths_[i].y);
        if (apart < nearest) {
          nearest = apart;
          found = i;
        }
      }
    }
    matches.scores.push_back(scores_[p]);
    matches.samples.push_back(prediction.sample);
    const bool is_match = nearest < distance;
    matches.matched_truth.push_back(is_match ? static_cast<std::int32_t>(truths_[found].box) : -1);
    if (!is_match) continue;
    free[found] = false;
    matches.errors.push_back(errors_of(p, found));
  }
  return matches;
}

ClassMatches match_class(const EvaluationBoxes& boxes, DetectionClass label, double distance) {
  return ClassBoxes(boxes, ClassIndex(boxes), label).match(distance, {});
}

}  // namespace camber::eval
