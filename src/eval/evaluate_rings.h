#pragma once
#include <vector>

#include "camber/eval/detection_metrics.h"
#include "eval/class_boxes.h"

namespace camber::eval {

/// Evaluations of several rings, each on its own, without the demand that scores fall with the recall: a part of a set
/// that meets it need not.
std::vector<Evaluation> evaluate_rings(const EvaluationBoxes& boxes, const EvaluationConfig& config,
                                       const std::vector<ClassBoxes::Ring>& rings, int threads);

}  // namespace camber::eval
