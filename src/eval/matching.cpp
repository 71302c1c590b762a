#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <stdexcept>
#include <string>

#include "camber/eval/detection_metrics.h"
#include "eval/arithmetic.h"

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

TpErrors errors_of(const DetectionBox& truth, const DetectionBox& prediction) {
  constexpr double kPi = std::numbers::pi;
  TpErrors errors{};
  errors[0] =
      length(prediction.translation[0] - truth.translation[0], prediction.translation[1] - truth.translation[1]);
  errors[1] = scale_error(truth, prediction);
  // A barrier looks the same from both sides.
  const double period = truth.label == DetectionClass::kBarrier ? kPi : 2 * kPi;
  errors[2] = angle_difference(quaternion_yaw(truth.rotation), quaternion_yaw(prediction.rotation), period);
  errors[3] = length(prediction.velocity[0] - truth.velocity[0], prediction.velocity[1] - truth.velocity[1]);
  errors[4] = truth.attribute == kNoAttribute ? std::numeric_limits<double>::quiet_NaN()
                                              : (truth.attribute == prediction.attribute ? 0.0 : 1.0);
  return errors;
}

// The predictions of a class in the order in which they choose.
std::vector<std::uint32_t> rank(const SampleBoxes& predictions, DetectionClass label) {
  std::vector<std::uint32_t> ranked;
  for (std::size_t i = 0; i < predictions.boxes.size(); ++i)
    if (predictions.boxes[i].label == label) ranked.push_back(static_cast<std::uint32_t>(i));
  std::sort(ranked.begin(), ranked.end(), [&](std::uint32_t a, std::uint32_t b) {
    const double score_a = predictions.boxes[a].score, score_b = predictions.boxes[b].score;
    return score_a != score_b ? score_a > score_b : a > b;
  });
  return ranked;
}

// The true objects of a class, sample by sample.
struct ClassTruth {
  std::vector<std::uint32_t> offsets{};  // [samples + 1]
  std::vector<std::uint32_t> boxes{};    // places in truth.boxes

  ClassTruth(const SampleBoxes& truth, DetectionClass label) {
    offsets.push_back(0);
    for (std::size_t sample = 0; sample < truth.samples(); ++sample) {
      for (std::size_t i = truth.offsets[sample]; i < truth.offsets[sample + 1]; ++i)
        if (truth.boxes[i].label == label) boxes.push_back(static_cast<std::uint32_t>(i));
      offsets.push_back(static_cast<std::uint32_t>(boxes.size()));
    }
  }
};

ClassMatches match_ranked(const EvaluationBoxes& boxes, const std::vector<std::uint32_t>& ranked,
                          const ClassTruth& truth, DetectionClass label, double distance) {
  ClassMatches matches{.label = label, .distance = distance};
  matches.positives = static_cast<std::int64_t>(truth.boxes.size());
  if (matches.positives == 0) return matches;
  matches.scores.reserve(ranked.size());
  matches.samples.reserve(ranked.size());
  matches.matched_truth.reserve(ranked.size());
  std::vector<bool> taken(truth.boxes.size());
  for (const std::uint32_t place : ranked) {
    const DetectionBox& prediction = boxes.predictions.boxes[place];
    double nearest = std::numeric_limits<double>::infinity();
    std::size_t found = truth.boxes.size();
    if (prediction.sample >= 0) {
      const auto sample = static_cast<std::size_t>(prediction.sample);
      for (std::size_t i = truth.offsets[sample]; i < truth.offsets[sample + 1]; ++i) {
        if (taken[i]) continue;
        const DetectionBox& candidate = boxes.truth.boxes[truth.boxes[i]];
        const double apart = length(prediction.translation[0] - candidate.translation[0],
                                    prediction.translation[1] - candidate.translation[1]);
        if (apart < nearest) {
          nearest = apart;
          found = i;
        }
      }
    }
    matches.scores.push_back(prediction.score);
    matches.samples.push_back(prediction.sample);
    if (nearest < distance) {
      taken[found] = true;
      matches.matched_truth.push_back(static_cast<std::int32_t>(truth.boxes[found]));
      matches.errors.push_back(errors_of(boxes.truth.boxes[truth.boxes[found]], prediction));
    } else {
      matches.matched_truth.push_back(-1);
    }
  }
  return matches;
}

}  // namespace

std::vector<ClassMatches> match_class(const EvaluationBoxes& boxes, DetectionClass label,
                                      std::span<const double> distances) {
  const ClassTruth truth(boxes.truth, label);
  const std::vector<std::uint32_t> ranked = rank(boxes.predictions, label);
  std::vector<ClassMatches> all;
  for (const double distance : distances) all.push_back(match_ranked(boxes, ranked, truth, label, distance));
  return all;
}

ClassMatches match_class(const EvaluationBoxes& boxes, DetectionClass label, double distance) {
  return std::move(match_class(boxes, label, std::span(&distance, 1)).front());
}

}  // namespace camber::eval
