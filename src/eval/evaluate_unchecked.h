#pragma once
#include "camber/eval/detection_metrics.h"

namespace camber::eval {

/// The evaluation without the demand that scores fall with the recall: parts of a set that passed it need not.
Evaluation evaluate_unchecked(const EvaluationBoxes& boxes, const EvaluationConfig& config, int threads);

}  // namespace camber::eval
