#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <type_traits>
#include <utility>

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

// What a rank found in one pass, frame by frame.
struct FoundBoxes {
  eval::SampleBoxes boxes{};
  std::vector<TrustRecord> trust{};  // of each frame
  std::vector<double> agreement{};   // likewise
};

template <class Value>
void append(std::string& bytes, const std::vector<Value>& values) {
  static_assert(std::is_trivially_copyable_v<Value>);
  const std::uint64_t count = values.size();
  bytes.append(reinterpret_cast<const char*>(&count), sizeof count);
  bytes.append(reinterpret_cast<const char*>(values.data()), count * sizeof(Value));
}

template <class Value>
std::vector<Value> take(const char*& bytes) {
  std::uint64_t count = 0;
  std::memcpy(&count, bytes, sizeof count);
  std::vector<Value> values(count);
  std::memcpy(values.data(), bytes + sizeof count, count * sizeof(Value));
  bytes += sizeof count + count * sizeof(Value);
  return values;
}

std::string packed(const FoundBoxes& found) {
  std::string bytes;
  for (std::size_t i = 0; i < found.trust.size(); ++i) {
    const auto boxes = found.boxes.of(i);
    append(bytes, std::vector(boxes.begin(), boxes.end()));
    append(bytes, found.trust[i].lidar);
    append(bytes, found.trust[i].camera);
    append(bytes, std::vector{found.agreement[i]});
  }
  return bytes;
}

// In the order of the split, on rank 0: what one process would have found.
FoundBoxes found_by_all(const FoundBoxes& own, const DetectionRequest& request) {
  const std::vector<std::string> sent = request.group->gather(packed(own));
  std::vector<const char*> next;
  next.reserve(sent.size());
  for (const std::string& bytes : sent) next.push_back(bytes.data());
  FoundBoxes all;
  for (std::size_t i = 0; !sent.empty() && i < request.split.samples.size(); ++i) {
    const char*& bytes = next[i / static_cast<std::size_t>(request.batch_size) % sent.size()];
    all.boxes.open_sample(std::string(request.dataset.tables().sample[request.split.samples[i]].token));
    for (eval::DetectionBox box : take<eval::DetectionBox>(bytes)) {
      box.sample = static_cast<std::int32_t>(i);
      all.boxes.push(box);
    }
    all.trust.push_back({.lidar = take<double>(bytes), .camera = {}});
    all.trust.back().camera = take<double>(bytes);
    all.agreement.push_back(take<double>(bytes).front());
  }
  return all;
}

// What a stream finds whose frames are those of different passes.
FoundBoxes mixed(const std::vector<FoundBoxes>& found, const PassMixture& mixture, const DetectionRequest& request) {
  FoundBoxes all;
  for (std::size_t i = 0; i < mixture.size(); ++i) {
    const FoundBoxes& own = found[mixture[i]];
    all.boxes.open_sample(std::string(request.dataset.tables().sample[request.split.samples[i]].token));
    for (eval::DetectionBox box : own.boxes.of(i)) {
      box.sample = static_cast<std::int32_t>(i);
      all.boxes.push(box);
    }
    all.trust.push_back(own.trust[i]);
    all.agreement.push_back(own.agreement[i]);
  }
  return all;
}

}  // namespace

std::vector<PassReport> evaluate_passes(detection::Detector detector, const DetectionRequest& request,
                                        const std::vector<DetectionPass>& passes, const eval::EvaluationConfig& config,
                                        const eval::MetricsRequest& metrics, const std::vector<PassMixture>& mixtures) {
  std::vector<PassReport> reports(passes.size() + mixtures.size());
  std::vector<FoundBoxes> found(passes.size()), kept(passes.size());
  const auto report_on = [&](PassReport& report, FoundBoxes own) {
    for (const TrustRecord& frame : own.trust) {
      report.trust.lidar.insert(report.trust.lidar.end(), frame.lidar.begin(), frame.lidar.end());
      report.trust.camera.insert(report.trust.camera.end(), frame.camera.begin(), frame.camera.end());
    }
    report.agreement = std::move(own.agreement);
    report.metrics = eval::evaluate_predictions(request.dataset, request.split, std::move(own.boxes), config, metrics);
  };
  DetectionHooks hooks;
  hooks.frame = [&](DetectedFrame&& frame) {
    FoundBoxes& own = found[frame.pass];
    detection::add_sample(own.boxes, std::string(request.dataset.tables().sample[frame.origin.sample].token),
                          frame.found, frame.origin.reference, detector->options());
    add_trust(own.trust.emplace_back(), frame.found);
    own.agreement.push_back(frame.agreement);
  };
  hooks.done = [&](std::size_t pass) {
    FoundBoxes own = std::exchange(found[pass], {});
    if (!request.group->is_alone()) own = found_by_all(own, request);
    if (!request.group->is_first()) return;
    if (!mixtures.empty()) kept[pass] = own;
    report_on(reports[pass], std::move(own));
  };
  run_passes(detector, request, passes, hooks);
  for (std::size_t i = 0; request.group->is_first() && i < mixtures.size(); ++i)
    report_on(reports[passes.size() + i], mixed(kept, mixtures[i], request));
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
  FaultReport report{.cue_errors = request.cue_errors};
  for (PassReport& pass : evaluate_passes(std::move(detector), request, passes, config)) {
    const std::size_t at = report.conditions.size();
    report.conditions.push_back({std::move(pass), at == 0 ? "clean" : faults[at - 1].text()});
  }
  return report;
}

}  // namespace camber::runs
