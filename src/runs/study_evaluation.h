#pragma once
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include <camber/runs/agreement_calibration.h>
#include <camber/runs/detector_evaluation.h>
#include <camber/runs/study_options.h>
#include <camber/runs/study_run.h>
#include <camber/study/record.h>

namespace camber::runs {

/// One arm of a run: its own, and those that share its model with another policy.
struct EvaluatedArm {
  std::string name{};
  RunTraining training{};
};

/// A model's passes over the test frames, and how the records name them.
struct StudyEvaluation {
  DetectionRequest request;
  eval::EvaluationConfig config{};
  std::int64_t replicates = 0;
  std::vector<DetectionPass> passes{};
  std::vector<PassMixture> mixtures{};
  struct Name {
    std::size_t arm = 0;
    study::Measurement measured{};  // condition and control
  };
  std::vector<Name> names{};  // of each pass, then of each mixture
  std::size_t conditions = 0;

  std::size_t frames() const { return request.split.samples.size() * conditions; }
};

/// What one arm measured, in the order of the passes.
struct Measured {
  std::vector<study::Measurement> measurements{};
  std::map<std::string, double> values{};
};

/// The passes of all arms of a run over the test frames, and the streams that are made of them.
StudyEvaluation evaluation_of(const StudyOptions& options, const StudyRun& run, const std::vector<EvaluatedArm>& arms,
                              const nuscenes::Dataset& dataset);

/// What each arm measured; with `agreement` also how well it tells the conditions apart.
std::vector<Measured> measure(const StudyEvaluation& evaluation, const detection::Detector& detector, std::size_t arms,
                              bool agreement);

/// Finds and sets the threshold of this model, on frames that are no test frames; as values of a record.
std::map<std::string, double> calibrate(const study::StudyPlan& plan, const DetectorTrainingOptions& options,
                                        const nuscenes::Dataset& dataset, detection::Detector& detector);

}  // namespace camber::runs
