#pragma once
#include <functional>
#include <vector>

#include <camber/data/splits.h>
#include <camber/detection/detector.h>
#include <camber/eval/evaluation_config.h>
#include <camber/study/plan.h>
#include <camber/study/record.h>

namespace camber::study {

/// A model and the frames that it is judged by.
struct ModelEvaluation {
  detection::Detector detector{nullptr};
  const data::Dataset& dataset;
  data::Split split{};
  eval::EvaluationConfig config{};
  std::int64_t batch_size = 8;
  std::int64_t replicates = 100;
  std::vector<std::string> conditions{};          ///< clean first
  std::vector<std::string> controls{};            ///< in place of its trust
  std::vector<std::string> control_conditions{};  ///< where
  std::vector<std::string> swapped_cues{};        ///< conditions that exchange their cues with clean frames
  double absent_above_age = 0;                    ///< sensors whose cue of age is above it are taken out; 0: none
  std::function<void(double share)> progress{};
};

/// The batch with the sensors taken out whose cue of age is above the threshold: a rule in place of trust. 0: as it is.
detection::DetectorBatch without_old_sensors(detection::DetectorBatch batch, double age);

/// Every condition is loaded once; the controls see the same tensors. The faults are the same for every model.
std::vector<Measurement> evaluate_model(const ModelEvaluation& request);

}  // namespace camber::study
