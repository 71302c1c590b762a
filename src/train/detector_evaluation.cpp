#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include <camber/train/detector_evaluation.h>
#include <camber/train/detector_options.h>

namespace camber::train {

void detect_frames(detection::Detector detector, const DetectionRequest& request,
                   const std::function<void(FoundFrame&&)>& take) {
  torch::NoGradGuard no_grad;
  detector->eval();
  const detection::DetectorOptions& options = detector->options();
  const bool own_encoders = options.encoder.kind != detection::EncoderKind::kFeatures;
  if (!own_encoders) {
    check_features_faults(request.faults);
  }
  data::LoaderOptions loading{.frame = options.frame_options(),
                              .faults = {.share = 0},
                              .fixed_faults = request.faults,
                              .augmentation = data::AugmentationOptions::none(),
                              .batch_size = request.batch_size,
                              .shuffle = false,
                              .epochs = 1,
                              .cues = own_encoders,
                              .fault_pool = data::samples_of_scenes(request.dataset, request.split)};
  data::Loader loader(request.dataset, request.split.samples, loading, request.seed, request.threads);
  while (auto batch = loader.next()) {
    const detection::DetectorBatch tensors = detection::collate(*batch, options);
    const detection::DetectorOutput output = detector->forward(
        tensors, {.seed = request.seed, .attention_mass = request.attention_mass, .trust = request.trust});
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

eval::SampleBoxes predict(detection::Detector detector, const DetectionRequest& request, TrustRecord* trust) {
  constexpr std::size_t kBest = 20;
  eval::SampleBoxes boxes;
  detect_frames(detector, request, [&](FoundFrame&& frame) {
    const data::Frame& where = frame.sample.delivery.frame;
    boxes.open_sample(std::string(request.dataset.tables().sample[where.sample].token));
    for (const detection::Detection& found : frame.found) {
      eval::DetectionBox box = detection::to_global(found, where.reference, detector->options());
      box.sample = static_cast<std::int32_t>(boxes.samples() - 1);
      boxes.push(box);
    }
    for (std::size_t i = 0; trust != nullptr && i < std::min(kBest, frame.found.size()); ++i) {
      const std::vector<double>& weights = frame.found[i].trust;
      if (weights.size() >= 2) {
        trust->lidar.push_back(weights[0]);
        trust->camera.push_back(*std::max_element(weights.begin() + 1, weights.end()));
      }
    }
  });
  return boxes;
}

double area_under_curve(const std::vector<double>& low, const std::vector<double>& high) {
  const auto broken = [](const std::vector<double>& values) {
    return values.empty() || std::any_of(values.begin(), values.end(), [](double value) { return std::isnan(value); });
  };
  if (broken(low) || broken(high)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  std::vector<double> sorted = low;
  std::sort(sorted.begin(), sorted.end());
  double below = 0;
  for (const double value : high) {
    const auto [first, last] = std::equal_range(sorted.begin(), sorted.end(), value);
    below += static_cast<double>(first - sorted.begin()) + 0.5 * static_cast<double>(last - first);
  }
  return below / (static_cast<double>(low.size()) * static_cast<double>(high.size()));
}

double FaultReport::resilience(const ConditionReport& condition) const {
  return clean().nd_score > 0 ? condition.metrics.evaluation.metrics.nd_score / clean().nd_score
                              : std::numeric_limits<double>::quiet_NaN();
}

double FaultReport::mean_resilience() const {
  double sum = 0;
  for (std::size_t i = 1; i < conditions.size(); ++i) {
    sum += resilience(conditions[i]);
  }
  return conditions.size() < 2 ? std::numeric_limits<double>::quiet_NaN()
                               : sum / static_cast<double>(conditions.size() - 1);
}

std::vector<std::string> fault_names(const std::vector<std::string>& faults) {
  std::vector<std::string> names;
  for (const std::string& fault : faults) {
    std::string name = data::parse_fault(fault).text();
    if (std::find(names.begin(), names.end(), name) != names.end()) {
      throw std::invalid_argument("[evaluate] faults must be different conditions, got " + name + " twice");
    }
    names.push_back(std::move(name));
  }
  return names;
}

void check_conditions(const DetectionRequest& request, const std::vector<std::string>& faults) {
  const std::vector<data::Index> pool = data::samples_of_scenes(request.dataset, request.split);
  for (const std::string& fault : faults) {
    const data::Fault parsed = data::parse_fault(fault);
    data::check_repeats(request.dataset, request.split.samples, {&parsed, 1}, pool,
                        random::Stream(request.seed, "faults"));
  }
}

FaultReport evaluate_detector(detection::Detector detector, const DetectionRequest& request,
                              const std::vector<std::string>& faults, const eval::EvaluationConfig& config) {
  const std::vector<std::string> names = fault_names(faults);
  if (detector->options().encoder.kind == detection::EncoderKind::kFeatures) {
    check_features_faults(names);
  }
  check_conditions(request, names);
  FaultReport report;
  DetectionRequest condition = request;
  const auto add = [&](const std::string& name) {
    ConditionReport& added = report.conditions.emplace_back();
    added.name = name;
    added.metrics =
        eval::evaluate_predictions(request.dataset, request.split, predict(detector, condition, &added.trust), config);
  };
  condition.faults.clear();
  add("clean");
  for (const std::string& name : names) {
    condition.faults = {name};
    add(name);
  }
  return report;
}

}  // namespace camber::train
