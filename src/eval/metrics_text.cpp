#include <cmath>
#include <string>

#include <fmt/format.h>

#include "camber/eval/metrics_report.h"

namespace camber::eval {
namespace {

constexpr std::array<std::string_view, kTpErrorCount> kMeanNames = {"mATE", "mASE", "mAOE", "mAVE", "mAAE"};
constexpr std::array<std::string_view, kTpErrorCount> kShortNames = {"ATE", "ASE", "AOE", "AVE", "AAE"};

std::string number_text(double value) {
  return std::isnan(value) ? fmt::format("{:>7}", "-") : fmt::format("{:7.4f}", value);
}

std::string with_interval(std::string_view name, double value, const Interval* interval) {
  std::string line = fmt::format("  {:<5}{}", name, number_text(value));
  if (interval != nullptr)
    line += fmt::format("   95 % over scenes: {} .. {}", number_text(interval->low), number_text(interval->high));
  return line + "\n";
}

std::string summary(const MetricsReport& report) {
  const DetectionMetrics& metrics = report.evaluation.metrics;
  const BootstrapIntervals* intervals = report.intervals ? &*report.intervals : nullptr;
  std::string text = with_interval("mAP", metrics.mean_ap, intervals ? &intervals->mean_ap : nullptr);
  for (std::size_t e = 0; e < kTpErrorCount; ++e)
    text += with_interval(kMeanNames[e], metrics.tp_errors[e], intervals ? &intervals->tp_errors[e] : nullptr);
  return text + with_interval("NDS", metrics.nd_score, intervals ? &intervals->nd_score : nullptr);
}

std::string class_table(const MetricsReport& report) {
  std::string text = fmt::format("\n{:<22}{:>7}", "class", "AP");
  for (const double distance : report.config.distance_thresholds) text += fmt::format("{:>6g} m", distance);
  for (const std::string_view name : kShortNames) text += fmt::format("{:>8}", name);
  text += '\n';
  for (const ClassMetrics& entry : report.evaluation.metrics.classes) {
    text += fmt::format("{:<22}{}", name_of(entry.label), number_text(entry.mean_average_precision));
    for (const double precision : entry.average_precisions) text += " " + number_text(precision);
    for (const double error : entry.errors) text += " " + number_text(error);
    text += '\n';
  }
  return text;
}

std::string bin_table(std::string_view title, const std::vector<BinMetrics>& bins) {
  if (bins.empty()) return {};
  std::string text = fmt::format("\n{:<16}{:>9}{:>9}{:>8}", title, "objects", "found", "mAP");
  for (const std::string_view name : kMeanNames) text += fmt::format("{:>8}", name);
  text += '\n';
  for (const BinMetrics& bin : bins) {
    const std::string range =
        std::isinf(bin.to) ? fmt::format("{:g} and more", bin.from) : fmt::format("{:g} to {:g}", bin.from, bin.to);
    text += fmt::format("{:<16}{:>9}{:>9} {}", range, bin.true_objects, bin.found, number_text(bin.mean_ap));
    for (const double error : bin.tp_errors) text += " " + number_text(error);
    text += '\n';
  }
  return text;
}

}  // namespace

std::string to_text(const MetricsReport& report) {
  std::string text =
      fmt::format("{}, {} ({}): {} samples\n", report.config.name, report.split, report.split_source, report.samples);
  const auto line = [](std::string_view what, const FilterCounts& counts) {
    return fmt::format("  {:<13}{:>9} boxes, {} in range, {} of them with points, {} outside of bicycle racks\n", what,
                       counts.total, counts.in_range, counts.with_points, counts.outside_racks);
  };
  text += line("ground truth", report.truth) + line("predictions", report.predictions) + "\n" + summary(report);
  text += class_table(report);
  text += bin_table("distance, m", report.by_distance);
  text += bin_table("points inside", report.by_points);
  return text;
}

std::string to_csv(const MetricsReport& report) {
  std::string text = "class,ap";
  for (const double distance : report.config.distance_thresholds) text += fmt::format(",ap_{}", distance);
  for (const std::string_view name : kTpErrorNames) text += "," + std::string(name);
  text += '\n';
  for (const ClassMetrics& entry : report.evaluation.metrics.classes) {
    text += fmt::format("{},{}", name_of(entry.label), entry.mean_average_precision);
    for (const double precision : entry.average_precisions) text += fmt::format(",{}", precision);
    for (const double error : entry.errors) text += std::isnan(error) ? "," : fmt::format(",{}", error);
    text += '\n';
  }
  return text;
}

}  // namespace camber::eval
