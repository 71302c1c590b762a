#include <cmath>
#include <iomanip>
#include <sstream>

#include <camber/config/numbers.h>
#include <camber/runs/detector_evaluation.h>

#include "camber/json/text.h"

namespace camber::runs {
namespace {

constexpr const char* kErrorNames[] = {"mATE", "mASE", "mAOE", "mAVE", "mAAE"};
constexpr const char* kErrorColumns[] = {"trans_err", "scale_err", "orient_err", "vel_err", "attr_err"};

std::string number_text(double value) {
  std::ostringstream text;
  text << std::setw(8);
  if (std::isnan(value))
    text << "-";
  else
    text << std::fixed << std::setprecision(4) << value;
  return text.str();
}

std::string trust_table(const FaultReport& report, int width) {
  const TrustRecord& clean = report.conditions.front().trust;
  if (clean.lidar.empty()) return {};
  std::ostringstream text;
  text << "\n"
       << std::left << std::setw(width) << "trust" << std::right << std::setw(8) << "LiDAR" << std::setw(8) << "AUC"
       << std::setw(8) << "cameras" << std::setw(8) << "AUC"
       << "   (at the 20 best boxes a frame; AUC: clean above the fault)\n";
  for (const ConditionReport& condition : report.conditions) {
    const TrustRecord& trust = condition.trust;
    text << std::left << std::setw(width) << condition.name << std::right;
    if (trust.lidar.empty()) {
      text << std::setw(8) << "-"
           << "\n";
      continue;
    }
    text << number_text(mean_of(trust.lidar)) << number_text(area_under_curve(trust.lidar, clean.lidar))
         << number_text(mean_of(trust.camera)) << number_text(area_under_curve(trust.camera, clean.camera)) << "\n";
  }
  return text.str();
}

// Frames whose agreement is not known are left out.
std::vector<double> known_agreement(const ConditionReport& condition) {
  std::vector<double> known;
  for (const double value : condition.agreement)
    if (!std::isnan(value)) known.push_back(value);
  return known;
}

std::string agreement_table(const FaultReport& report, int width) {
  const std::vector<double> clean = known_agreement(report.conditions.front());
  if (clean.empty()) return {};
  std::ostringstream text;
  text << "\n"
       << std::left << std::setw(width) << "agreement" << std::right << std::setw(8) << "mean" << std::setw(8) << "AUC"
       << "   (of the sensors, frame by frame; AUC: clean above the fault)\n";
  for (const ConditionReport& condition : report.conditions) {
    const std::vector<double> known = known_agreement(condition);
    text << std::left << std::setw(width) << condition.name << std::right << number_text(mean_of(known))
         << number_text(area_under_curve(known, clean)) << "\n";
  }
  return text.str();
}

std::string agreement_json(const FaultReport& report) {
  const std::vector<double> clean = known_agreement(report.conditions.front());
  if (clean.empty()) return {};
  std::string text;
  for (const ConditionReport& condition : report.conditions) {
    const std::vector<double> known = known_agreement(condition);
    text += (text.empty() ? "" : ", ") + json::quoted(condition.name) +
            ": {\"mean\": " + json::number_text(mean_of(known)) +
            ", \"area_under_curve\": " + json::number_text(area_under_curve(known, clean)) + "}";
  }
  return ",\n  \"agreement\": {" + text + "}";
}

// Average precision of every class in every condition.
std::string class_table(const FaultReport& report, int width) {
  if (report.conditions.size() < 2) return {};  // the clean condition's own report has it
  std::ostringstream text;
  text << "\n" << std::left << std::setw(width) << "AP" << std::right;
  const auto column = [](std::string_view name) { return static_cast<int>(std::max<std::size_t>(8, name.size() + 2)); };
  for (const eval::ClassMetrics& entry : report.clean().classes)
    text << std::setw(column(eval::name_of(entry.label))) << eval::name_of(entry.label);
  text << "\n";
  for (const ConditionReport& condition : report.conditions) {
    text << std::left << std::setw(width) << condition.name << std::right;
    for (const eval::ClassMetrics& entry : condition.metrics.evaluation.metrics.classes) {
      const std::string value = number_text(entry.mean_average_precision);
      text << std::setw(column(eval::name_of(entry.label))) << value.substr(value.find_first_not_of(' '));
    }
    text << "\n";
  }
  return text.str();
}

std::string trust_json(const FaultReport& report) {
  const TrustRecord& clean = report.conditions.front().trust;
  std::string text;
  for (const ConditionReport& condition : report.conditions) {
    const TrustRecord& trust = condition.trust;
    if (trust.lidar.empty()) continue;
    const auto sensor = [](const std::vector<double>& values, const std::vector<double>& sound) {
      return "{\"mean\": " + json::number_text(mean_of(values)) +
             ", \"area_under_curve\": " + json::number_text(area_under_curve(values, sound)) + "}";
    };
    text += (text.empty() ? "\n    \"" : ",\n    \"") + condition.name +
            "\": {\"lidar\": " + sensor(trust.lidar, clean.lidar) +
            ", \"camera\": " + sensor(trust.camera, clean.camera) + "}";
  }
  return text.empty() ? text : ",\n  \"trust\": {" + text + "}";
}

// Every line of a JSON object one step further in.
std::string indented(const std::string& json) {
  std::string text;
  for (const char letter : json) {
    text += letter;
    if (letter == '\n') text += "  ";
  }
  return text.substr(0, text.find_last_not_of(" \n") + 1);
}

}  // namespace

std::string FaultReport::to_text() const {
  std::size_t width = 12;
  for (const ConditionReport& condition : conditions) width = std::max(width, condition.name.size() + 2);
  std::ostringstream text;
  const eval::MetricsReport& first = conditions.front().metrics;
  text << std::left << std::setw(static_cast<int>(width)) << "condition" << std::right << std::setw(8) << "mAP"
       << std::setw(8) << "NDS";
  for (const char* name : kErrorNames) text << std::setw(8) << name;
  text << std::setw(12) << "resilience"
       << "\n";
  for (const ConditionReport& condition : conditions) {
    const eval::DetectionMetrics& metrics = condition.metrics.evaluation.metrics;
    text << std::left << std::setw(static_cast<int>(width)) << condition.name << std::right
         << number_text(metrics.mean_ap) << number_text(metrics.nd_score);
    for (const double error : metrics.tp_errors) text << number_text(error);
    text << std::setw(12)
         << (&condition == &conditions.front() ? std::string("-") : number_text(resilience(condition)).substr(2))
         << "\n";
  }
  if (conditions.size() > 1) {
    text << "mean resilience " << number_text(mean_resilience()).substr(2) << " over " << conditions.size() - 1
         << " faults (NDS under the fault over clean NDS)\n";
  }
  if (cue_errors.any()) text << "the cues of every condition err: " << cue_errors.text() << "\n";
  text << class_table(*this, static_cast<int>(width)) << trust_table(*this, static_cast<int>(width))
       << agreement_table(*this, static_cast<int>(width));
  text << "\nThe clean condition: " << eval::to_text(first);
  return text.str();
}

std::string FaultReport::to_csv() const {
  std::ostringstream text;
  text << "condition,mean_ap,nd_score";
  for (const char* name : kErrorColumns) text << "," << name;
  text << ",resilience";
  for (const eval::ClassMetrics& entry : clean().classes) text << ",ap_" << eval::name_of(entry.label);
  const TrustRecord& sound = conditions.front().trust;
  const std::vector<double> agreed = known_agreement(conditions.front());
  if (!sound.lidar.empty()) text << ",trust_lidar,trust_lidar_auc,trust_camera,trust_camera_auc";
  if (!agreed.empty()) text << ",agreement,agreement_auc";
  text << "\n";
  const auto number = [](double value) { return std::isnan(value) ? std::string() : config::write_number(value); };
  for (const ConditionReport& condition : conditions) {
    const eval::DetectionMetrics& metrics = condition.metrics.evaluation.metrics;
    text << condition.name << "," << number(metrics.mean_ap) << "," << number(metrics.nd_score);
    for (const double error : metrics.tp_errors) text << "," << number(error);
    text << "," << number(resilience(condition));
    for (const eval::ClassMetrics& entry : metrics.classes) text << "," << number(entry.mean_average_precision);
    const TrustRecord& trust = condition.trust;
    if (!sound.lidar.empty()) {
      if (trust.lidar.empty())
        text << ",,,,";
      else
        text << "," << number(mean_of(trust.lidar)) << "," << number(area_under_curve(trust.lidar, sound.lidar)) << ","
             << number(mean_of(trust.camera)) << "," << number(area_under_curve(trust.camera, sound.camera));
    }
    if (!agreed.empty()) {
      const std::vector<double> known = known_agreement(condition);
      text << "," << number(mean_of(known)) << "," << number(area_under_curve(known, agreed));
    }
    text << "\n";
  }
  return text.str();
}

std::string FaultReport::to_json() const {
  std::string text = "{\n  \"clean\": " + indented(eval::to_json(conditions.front().metrics)) + ",\n  \"faults\": {";
  for (std::size_t i = 1; i < conditions.size(); ++i) {
    text +=
        (i == 1 ? "\n  \"" : ",\n  \"") + conditions[i].name + "\": " + indented(eval::to_json(conditions[i].metrics));
  }
  text += '}';
  if (conditions.size() > 1) text += ",\n  \"mean_resilience\": " + json::number_text(mean_resilience());
  text += trust_json(*this) + agreement_json(*this);
  if (cue_errors.any()) text += ",\n  \"cue_errors\": " + json::quoted(cue_errors.text());
  return text + "\n}\n";
}

}  // namespace camber::runs
