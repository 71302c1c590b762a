#include <cmath>
#include <limits>
#include <stdexcept>

#include <camber/train/detector_evaluation.h>

namespace camber::train {

void detect_frames(detection::Detector detector, const DetectionRequest& request,
                   const std::function<void(FoundFrame&&)>& take) {
  torch::NoGradGuard no_grad;
  detector->eval();
  const detection::DetectorOptions& options = detector->options();
  data::LoaderOptions loading{.frame = options.frame_options(),
                              .faults = {.share = 0},
                              .fixed_faults = request.faults,
                              .augmentation = data::AugmentationOptions::none(),
                              .batch_size = request.batch_size,
                              .shuffle = false,
                              .epochs = 1};
  data::Loader loader(request.dataset, request.split.samples, loading, request.seed, request.threads);
  while (auto batch = loader.next()) {
    const detection::DetectorBatch tensors = detection::collate(*batch, options);
    const detection::DetectorOutput output =
        detector->forward(tensors, {.seed = request.seed, .statistics = request.statistics, .trust = request.trust});
    auto found = detector->decode(output, tensors);
    for (std::size_t i = 0; i < batch->samples.size(); ++i) {
      take({.sample = std::move(batch->samples[i]),
            .found = std::move(found[i]),
            .trust = output.trust.defined() ? output.trust[static_cast<std::int64_t>(i)] : torch::Tensor()});
    }
    if (request.progress) {
      request.progress(static_cast<std::int64_t>(batch->samples.size()));
    }
  }
}

eval::SampleBoxes predict(detection::Detector detector, const DetectionRequest& request) {
  eval::SampleBoxes boxes;
  detect_frames(detector, request, [&](FoundFrame&& frame) {
    const data::Frame& where = frame.sample.delivery.frame;
    boxes.open_sample(std::string(request.dataset.tables().sample[where.sample].token));
    for (const detection::Detection& found : frame.found) {
      boxes.push(detection::to_global(found, where.reference, detector->options()));
    }
  });
  return boxes;
}

double FaultReport::mean_resilience() const {
  double sum = 0;
  for (std::size_t i = 1; i < conditions.size(); ++i) {
    sum += conditions[i].metrics.evaluation.metrics.nd_score / clean().nd_score;
  }
  return conditions.size() < 2 ? std::numeric_limits<double>::quiet_NaN()
                               : sum / static_cast<double>(conditions.size() - 1);
}

FaultReport evaluate_detector(detection::Detector detector, const DetectionRequest& request,
                              const std::vector<std::string>& faults, const eval::EvaluationConfig& config) {
  FaultReport report;
  DetectionRequest condition = request;
  condition.faults.clear();
  report.conditions.push_back(
      {"clean", eval::evaluate_predictions(request.dataset, request.split, predict(detector, condition), config)});
  for (const std::string& fault : faults) {
    condition.faults = {fault};
    report.conditions.push_back(
        {fault, eval::evaluate_predictions(request.dataset, request.split, predict(detector, condition), config)});
  }
  return report;
}

}  // namespace camber::train
