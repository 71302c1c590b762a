#include <cmath>
#include <string>

#include <fmt/format.h>

#include "camber/eval/metrics_report.h"
#include "camber/json/text.h"

namespace camber::eval {

namespace {

// Lines of an object or a list, joined and indented.
class Lines {
 public:
  explicit Lines(char open) : text_(1, open), close_(open == '{' ? '}' : ']') {}
  void add(const std::string& line) {
    text_ += (text_.size() > 1 ? ",\n  " : "\n  ");
    for (const char c : line) {
      text_ += c;
      if (c == '\n') text_ += "  ";
    }
  }
  void add(std::string_view key, const std::string& value) { add(json::quoted(key) + ": " + value); }
  std::string close() const { return text_.size() > 1 ? text_ + "\n" + close_ : text_ + close_; }

 private:
  std::string text_;
  char close_;
};

std::string errors_object(const TpErrors& errors) {
  Lines lines('{');
  for (std::size_t e = 0; e < kTpErrorCount; ++e) lines.add(kTpErrorNames[e], json::number_text(errors[e]));
  return lines.close();
}

std::string config_object(const EvaluationConfig& config) {
  Lines ranges('{');
  for (const ClassRange& entry : config.class_ranges)
    ranges.add(name_of(entry.label), json::number_text(entry.range, true));
  std::string distances = "[";
  for (const std::string& name : config.distance_names) distances += (distances.size() > 1 ? ", " : "") + name;
  Lines lines('{');
  lines.add("class_range", ranges.close());
  lines.add("dist_fcn", "\"center_distance\"");
  lines.add("dist_ths", distances + "]");
  lines.add("dist_th_tp", json::number_text(config.tp_threshold));
  lines.add("min_recall", json::number_text(config.min_recall));
  lines.add("min_precision", json::number_text(config.min_precision));
  lines.add("max_boxes_per_sample", std::to_string(config.max_boxes_per_sample));
  lines.add("mean_ap_weight", json::number_text(config.mean_ap_weight, true));
  return lines.close();
}

std::string bins_list(const std::vector<BinMetrics>& bins) {
  Lines list('[');
  for (const BinMetrics& bin : bins) {
    Lines lines('{');
    lines.add("from", json::number_text(bin.from));
    lines.add("to", std::isinf(bin.to) ? "null" : json::number_text(bin.to));
    lines.add("true_objects", std::to_string(bin.true_objects));
    lines.add("found", std::to_string(bin.found));
    lines.add("mean_ap", json::number_text(bin.mean_ap));
    lines.add("tp_errors", errors_object(bin.tp_errors));
    list.add(lines.close());
  }
  return list.close();
}

std::string counts_object(const FilterCounts& counts) {
  return fmt::format("{{\"total\": {}, \"in_range\": {}, \"with_points\": {}, \"evaluated\": {}}}", counts.total,
                     counts.in_range, counts.with_points, counts.outside_racks);
}

std::string interval(const Interval& values) {
  return "[" + json::number_text(values.low) + ", " + json::number_text(values.high) + "]";
}

std::string bootstrap_object(const MetricsReport& report) {
  const BootstrapIntervals& intervals = *report.intervals;
  Lines errors('{'), classes('{'), lines('{');
  for (std::size_t e = 0; e < kTpErrorCount; ++e) errors.add(kTpErrorNames[e], interval(intervals.tp_errors[e]));
  for (std::size_t c = 0; c < intervals.class_ap.size(); ++c)
    classes.add(name_of(report.evaluation.metrics.classes[c].label), interval(intervals.class_ap[c]));
  lines.add("replicates", std::to_string(intervals.replicates));
  lines.add("scenes", std::to_string(intervals.scenes));
  lines.add("mean_ap", interval(intervals.mean_ap));
  lines.add("nd_score", interval(intervals.nd_score));
  lines.add("tp_errors", errors.close());
  lines.add("mean_dist_aps", classes.close());
  return lines.close();
}

}  // namespace

std::string to_json(const MetricsReport& report) {
  const DetectionMetrics& metrics = report.evaluation.metrics;
  Lines label_aps('{'), mean_dist_aps('{'), label_tp_errors('{'), lines('{');
  for (const ClassMetrics& entry : metrics.classes) {
    Lines aps('{');
    for (std::size_t d = 0; d < entry.average_precisions.size(); ++d)
      aps.add(report.config.distance_names[d], json::number_text(entry.average_precisions[d]));
    label_aps.add(name_of(entry.label), aps.close());
    mean_dist_aps.add(name_of(entry.label), json::number_text(entry.mean_average_precision));
    label_tp_errors.add(name_of(entry.label), errors_object(entry.errors));
  }
  lines.add("label_aps", label_aps.close());
  lines.add("mean_dist_aps", mean_dist_aps.close());
  lines.add("mean_ap", json::number_text(metrics.mean_ap));
  lines.add("label_tp_errors", label_tp_errors.close());
  lines.add("tp_errors", errors_object(metrics.tp_errors));
  lines.add("tp_scores", errors_object(metrics.tp_scores));
  lines.add("nd_score", json::number_text(metrics.nd_score));
  lines.add("eval_time", json::number_text(report.seconds));
  lines.add("cfg", config_object(report.config));
  lines.add("meta", report.meta.empty() ? "{}" : report.meta);
  lines.add("configuration", json::quoted(report.config.name));
  lines.add("split", fmt::format("{{\"name\": {}, \"source\": {}, \"samples\": {}}}", json::quoted(report.split),
                                 json::quoted(report.split_source), report.samples));
  lines.add("counts", fmt::format("{{\"ground_truth\": {}, \"predictions\": {}}}", counts_object(report.truth),
                                  counts_object(report.predictions)));
  lines.add("by_distance", bins_list(report.by_distance));
  lines.add("by_points", bins_list(report.by_points));
  if (report.intervals) lines.add("bootstrap", bootstrap_object(report));
  return lines.close() + "\n";
}

std::string details_to_json(const MetricsReport& report) {
  const auto list = [](const auto& values) {
    std::string text = "[";
    for (const double value : values) text += (text.size() > 1 ? ", " : "") + json::number_text(value);
    return text + "]";
  };
  std::array<double, kCurvePoints> recall{};
  for (std::size_t i = 0; i < kCurvePoints; ++i) recall[i] = i + 1 == kCurvePoints ? 1 : static_cast<double>(i) * 0.01;
  const std::size_t distances = report.config.distance_names.size();
  Lines lines('{');
  for (std::size_t i = 0; i < report.evaluation.curves.size(); ++i) {
    const MetricCurve& curve = report.evaluation.curves[i];
    const ClassMatches& matches = report.evaluation.matches[i];
    Lines entry('{');
    entry.add("recall", list(recall));
    entry.add("precision", list(curve.precision));
    entry.add("confidence", list(curve.confidence));
    for (const std::size_t e : {0, 3, 1, 2, 4})
      entry.add(kTpErrorNames[e], list(curve.errors[e]));  // the devkit's order
    lines.add(std::string(name_of(matches.label)) + ":" + report.config.distance_names[i % distances], entry.close());
  }
  return lines.close() + "\n";
}

}  // namespace camber::eval
