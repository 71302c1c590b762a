#pragma once
#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "camber/eval/detection_metrics.h"

namespace camber::eval {

/// Where the boxes of each class stand, found in one pass over all of them.
struct ClassIndex {
  std::array<std::vector<std::uint32_t>, kClassCount> predictions{}, truths{};
  explicit ClassIndex(const EvaluationBoxes& boxes);
};

/// The boxes of one class laid out for matching: what every comparison needs stands side by side, because a run over
/// whole boxes in the order of scores would miss the cache at every step.
class ClassBoxes {
 public:
  ClassBoxes(const EvaluationBoxes& boxes, const ClassIndex& index, DetectionClass label);

  /// The part of the plane that is compared, as distance from the ego vehicle: from <= distance < to.
  struct Ring {
    double from = -std::numeric_limits<double>::infinity(), to = std::numeric_limits<double>::infinity();
    bool all() const { return from == -std::numeric_limits<double>::infinity() && to == -from; }
    bool contains(double distance) const { return all() || (distance >= from && distance < to); }
  };

  ClassMatches match(double distance, const Ring& ring);

 private:
  struct Box {
    double x = 0, y = 0, ego_distance = 0;
    std::int32_t sample = -1;
    std::uint32_t box = 0;  // in predictions.boxes or truth.boxes
  };

  TpErrors errors_of(std::size_t prediction, std::size_t truth);

  const EvaluationBoxes& boxes_;
  DetectionClass label_;
  std::vector<Box> predictions_;         // in the order in which they choose
  std::vector<double> scores_;           // of predictions_
  std::vector<double> prediction_yaws_;  // computed when first needed
  std::vector<bool> prediction_yaw_known_;
  std::vector<Box> truths_;  // sample by sample
  std::vector<double> truth_yaws_;
  std::vector<std::uint32_t> truth_offsets_;  // [samples + 1]
};

}  // namespace camber::eval
