#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <camber/runs/agreement_calibration.h>
#include <camber/runs/detector_evaluation.h>
#include <fmt/format.h>

#include "camber/json/text.h"

namespace camber::runs {
namespace {

std::vector<double> known_ones(const std::vector<double>& values) {
  std::vector<double> known;
  for (const double value : values)
    if (!std::isnan(value)) known.push_back(value);
  return known;
}

// Means over five frames that follow each other in a scene, frames of unknown agreement left out of them.
std::vector<double> over_five(const std::vector<double>& values, const DetectionRequest& request) {
  constexpr std::size_t kFrames = 5;
  const auto& samples = request.split.samples;
  const auto scene_of = [&](std::size_t i) { return request.dataset.tables().sample[samples[i]].scene; };
  std::vector<double> means;
  for (std::size_t last = kFrames - 1; last < values.size(); ++last) {
    if (scene_of(last) != scene_of(last + 1 - kFrames)) continue;
    const auto end = values.begin() + static_cast<std::ptrdiff_t>(last);
    means.push_back(detection::smoothed({end - (kFrames - 1), end}, values[last]));
  }
  return known_ones(means);
}

// Nothing can be said of a threshold before both of its ends are known.
void check_known(const std::string& frames, double mean) {
  if (std::isnan(mean))
    throw std::runtime_error(
        fmt::format("[agreement] the agreement of {} must be known, got no frame where it is: a sensor is absent, or "
                    "the dense heads show no object",
                    frames));
}

std::string column(double value, int width) {
  return std::isnan(value) ? fmt::format("{:>{}}", "-", width) : fmt::format("{:>{}.4f}", value, width);
}

}  // namespace

std::vector<sensors::Fault> calibration_faults() {
  return {sensors::parse_fault("frozen:5"), sensors::parse_fault("stale:5")};
}

std::vector<AgreementSeparation> agreement_separations(const DetectionRequest& request,
                                                       const std::vector<double>& clean,
                                                       const std::vector<std::string>& names,
                                                       const std::vector<std::vector<double>>& under) {
  std::vector<AgreementSeparation> all;
  const std::vector<double> sound = known_ones(clean), five = over_five(clean, request);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::vector<double> faulty = known_ones(under[i]);
    all.push_back({.fault = names[i],
                   .mean = mean_of(faulty),
                   .area = area_under_curve(faulty, sound),
                   .area_of_five = area_under_curve(over_five(under[i], request), five)});
  }
  return all;
}

AgreementCalibration calibrate_agreement(const detection::Detector& detector, const DetectionRequest& request,
                                         const std::vector<sensors::Fault>& faults) {
  if (!detector->options().head.dense_auxiliary)
    throw std::invalid_argument(
        "[agreement] the detector must have dense heads (head.dense_auxiliary), whose maps agreement comes from");
  std::vector<DetectionPass> passes(1 + faults.size());
  std::vector<std::string> names;
  for (std::size_t i = 0; i < passes.size(); ++i) {
    passes[i].policy = detection::TrustPolicy::kNone;
    if (i == 0) continue;
    passes[i].condition = {faults[i - 1]};
    names.push_back(faults[i - 1].text());
  }
  std::vector<std::vector<double>> agreement(passes.size());
  run_passes(detector, request, passes,
             {.frame = [&](DetectedFrame&& frame) { agreement[frame.pass].push_back(frame.agreement); }});
  const std::vector<double> clean = known_ones(agreement[0]);
  AgreementCalibration result{.clean_mean = mean_of(clean),
                              .frames = std::ssize(agreement[0]),
                              .not_known = std::ssize(agreement[0]) - std::ssize(clean)};
  result.faults = agreement_separations(request, agreement[0], names, {agreement.begin() + 1, agreement.end()});
  check_known("clean frames", result.clean_mean);
  for (const AgreementSeparation& one : result.faults) check_known("frames under " + one.fault, one.mean);
  double under = 0;
  for (const AgreementSeparation& one : result.faults) under += one.mean / static_cast<double>(result.faults.size());
  result.threshold = (result.clean_mean + under) / 2;
  if (!(result.clean_mean > under))
    throw std::runtime_error(
        fmt::format("[agreement] clean frames must agree more than those under faults, got {:.3f} and {:.3f}: this "
                    "detector's dense "
                    "heads cannot verify an alarm",
                    result.clean_mean, under));
  return result;
}

std::string AgreementCalibration::to_text() const {
  std::string text = fmt::format("threshold {:.4f}: halfway from clean frames ({:.4f}; {} frames, not known in {})\n\n",
                                 threshold, clean_mean, frames, not_known);
  text += fmt::format("{:<28}{:>12}{:>12}{:>16}\n", "fault", "agreement", "AUC", "AUC, 5 frames");
  for (const AgreementSeparation& one : faults)
    text += fmt::format("{:<28}{}{}{}\n", one.fault, column(one.mean, 12), column(one.area, 12),
                        column(one.area_of_five, 16));
  if (std::any_of(faults.begin(), faults.end(), [](const auto& one) { return std::isnan(one.area_of_five); }))
    text += "-: not known, for want of five frames in a row of one scene\n";
  if (!policy.empty()) text += fmt::format("policy: {} (before: {})\n", policy, policy_before);
  return text;
}

std::string AgreementCalibration::to_json() const {
  std::string rows;
  for (const AgreementSeparation& one : faults)
    rows += fmt::format("{}\"{}\": {{\"agreement\": {}, \"area_under_curve\": {}, \"area_under_curve_of_five\": {}}}",
                        rows.empty() ? "" : ", ", one.fault, json::number_text(one.mean), json::number_text(one.area),
                        json::number_text(one.area_of_five));
  const std::string kept =
      policy.empty() ? "" : fmt::format(", \"policy\": \"{}\", \"policy_before\": \"{}\"", policy, policy_before);
  return fmt::format("{{\"threshold\": {}, \"clean\": {}, \"frames\": {}, \"not_known\": {}, \"faults\": {{{}}}{}}}\n",
                     json::number_text(threshold), json::number_text(clean_mean), frames, not_known, rows, kept);
}

}  // namespace camber::runs
