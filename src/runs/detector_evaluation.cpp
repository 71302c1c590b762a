#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>

#include <camber/runs/detector_evaluation.h>
#include <camber/sensors/cue_separation.h>

namespace camber::runs {
namespace {

void check_different(const std::vector<sensors::Fault>& faults) {
  for (auto fault = faults.begin(); fault != faults.end(); ++fault)
    if (std::find(faults.begin(), fault, *fault) != fault)
      throw std::invalid_argument("[evaluate] faults must be different conditions, got " + fault->text() + " twice");
}

void add_trust(TrustRecord& record, const std::vector<detection::Detection>& found) {
  constexpr std::size_t kBest = 20;
  for (std::size_t i = 0; i < std::min(kBest, found.size()); ++i) {
    const std::vector<double>& trust = found[i].trust;
    if (trust.size() < 2) continue;
    record.lidar.push_back(trust[0]);
    record.camera.push_back(*std::max_element(trust.begin() + 1, trust.end()));
  }
}

}  // namespace

std::vector<PassReport> evaluate_passes(detection::Detector detector, const DetectionRequest& request,
                                        const std::vector<DetectionPass>& passes, const eval::EvaluationConfig& config,
                                        const eval::MetricsRequest& metrics) {
  std::vector<PassReport> reports(passes.size());
  std::vector<eval::SampleBoxes> boxes(passes.size());
  DetectionHooks hooks;
  hooks.frame = [&](DetectedFrame&& frame) {
    detection::add_sample(boxes[frame.pass], std::string(request.dataset.tables().sample[frame.origin.sample].token),
                          frame.found, frame.origin.reference, detector->options());
    add_trust(reports[frame.pass].trust, frame.found);
  };
  hooks.done = [&](std::size_t pass) {
    reports[pass].metrics =
        eval::evaluate_predictions(request.dataset, request.split, std::move(boxes[pass]), config, metrics);
  };
  run_passes(detector, request, passes, hooks);
  return reports;
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double area_under_curve(const std::vector<double>& low, const std::vector<double>& high) {
  const auto broken = [](const std::vector<double>& values) {
    return values.empty() || std::any_of(values.begin(), values.end(), [](double value) { return std::isnan(value); });
  };
  return broken(low) || broken(high) ? std::numeric_limits<double>::quiet_NaN() : sensors::area_under_curve(high, low);
}

double FaultReport::resilience(const ConditionReport& condition) const {
  return clean().nd_score > 0 ? condition.metrics.evaluation.metrics.nd_score / clean().nd_score
                              : std::numeric_limits<double>::quiet_NaN();
}

double FaultReport::mean_resilience() const {
  double sum = 0;
  for (std::size_t i = 1; i < conditions.size(); ++i) sum += resilience(conditions[i]);
  return conditions.size() < 2 ? std::numeric_limits<double>::quiet_NaN()
                               : sum / static_cast<double>(conditions.size() - 1);
}

std::vector<sensors::Fault> parse_conditions(const std::vector<std::string>& names) {
  std::vector<sensors::Fault> faults;
  faults.reserve(names.size());
  for (const std::string& name : names) faults.push_back(sensors::parse_fault(name));
  check_different(faults);
  return faults;
}

FaultReport evaluate_detector(detection::Detector detector, const DetectionRequest& request,
                              const std::vector<sensors::Fault>& faults, const eval::EvaluationConfig& config,
                              detection::TrustControl trust) {
  check_different(faults);
  std::vector<DetectionPass> passes{{.trust = trust}};
  for (const sensors::Fault& fault : faults) passes.push_back({.condition = {fault}, .trust = trust});
  FaultReport report;
  for (PassReport& pass : evaluate_passes(std::move(detector), request, passes, config)) {
    const std::size_t at = report.conditions.size();
    report.conditions.push_back({std::move(pass), at == 0 ? "clean" : faults[at - 1].text()});
  }
  return report;
}

}  // namespace camber::runs
