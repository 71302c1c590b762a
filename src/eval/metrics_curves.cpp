#include <string>

#include <fmt/format.h>

#include "camber/drawing/chart.h"
#include "camber/eval/metrics_report.h"

namespace camber::eval {

std::string curves_to_svg(const MetricsReport& report) {
  const std::size_t distances = report.config.distance_thresholds.size();
  std::vector<drawing::LineChart> charts;
  for (std::size_t d = 0; d < distances; ++d) {
    drawing::LineChart chart{.title = fmt::format("precision over recall, centres within {} m ({}, {})",
                                                  report.config.distance_names[d], report.split, report.config.name),
                             .x = {.title = "recall", .min = 0, .max = 1},
                             .y = {.title = "precision", .min = 0, .max = 1}};
    chart.zones.push_back(
        {.from = 0, .to = report.config.min_recall, .name = "not counted", .colour = {200, 200, 200}});
    chart.levels.push_back({.y = report.config.min_precision, .name = "counted above"});
    for (std::size_t c = 0; c < report.evaluation.metrics.classes.size(); ++c) {
      const ClassMetrics& entry = report.evaluation.metrics.classes[c];
      const MetricCurve& curve = report.evaluation.curves[c * distances + d];
      drawing::Series series{.name = fmt::format("{} {:.3f}", name_of(entry.label), entry.average_precisions[d]),
                             .dashed = c >= 8};
      for (std::size_t i = 0; i < kCurvePoints; ++i)
        series.points.push_back({static_cast<double>(i) / 100, curve.precision[i]});
      chart.series.push_back(std::move(series));
    }
    charts.push_back(std::move(chart));
  }
  return drawing::to_svg(charts);
}

}  // namespace camber::eval
