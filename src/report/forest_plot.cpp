#include <algorithm>
#include <cmath>
#include <tuple>

#include <fmt/format.h>

#include "camber/drawing/chart.h"
#include "report/page_parts.h"
#include "report/study_parts.h"

namespace camber::report {
namespace {

constexpr double kPlot = 420, kWords = 250, kRow = 22, kTop = 40, kBottom = 40;
constexpr double kLetter = 6.7;  // mean width of a letter at the size of the labels

std::string label_of(const study::StudyPlan& plan, const study::Comparison& one) {
  return fmt::format("{} - {}, {}", plan.arm(one.arm).shown(), plan.arm(one.against).shown(), one.measure);
}

std::string words_of(const study::Comparison& one) {
  return one.conclusion ? one.conclusion->short_words() : fmt::format("exploratory, {} seeds", one.difference.pairs);
}

// Room for the longest label.
double width_of_labels(const Intervals& plot) {
  std::size_t letters = 0;
  for (const Interval& one : plot.rows) letters = std::max(letters, one.label.size());
  return 20 + kLetter * static_cast<double>(letters);
}

// Left and right end in points that hold every interval, the margin and zero.
std::pair<double, double> range_of(const std::vector<study::Comparison>& comparisons, double margin) {
  double low = -1.5 * margin, high = 1.5 * margin;
  for (const study::Comparison& one : comparisons)
    for (const double value : {one.difference.low, one.difference.high, one.difference.mean}) {
      if (!std::isfinite(value)) continue;
      low = std::min(low, 100 * value);
      high = std::max(high, 100 * value);
    }
  const double room = 0.04 * (high - low);
  return {low - room, high + room};
}

}  // namespace

std::vector<study::Comparison> main_comparisons(const study::StudyAnalysis& analysis) {
  std::vector<study::Comparison> main;
  if (analysis.primary) main.push_back(*analysis.primary);
  main.insert(main.end(), analysis.secondary.begin(), analysis.secondary.end());
  return main;
}

Intervals intervals_of(const study::StudyPlan& plan, const std::vector<study::Comparison>& comparisons) {
  Intervals plot{.title = "Difference of mAP in points, 95 % interval; shaded: equivalent",
                 .margin = 100 * plan.margin};
  std::tie(plot.from, plot.to) = range_of(comparisons, plot.margin);
  plot.ticks = drawing::tick_positions(plot.from, plot.to, 8);
  for (const study::Comparison& one : comparisons)
    plot.rows.push_back({.label = label_of(plan, one),
                         .low = 100 * one.difference.low,
                         .mean = 100 * one.difference.mean,
                         .high = 100 * one.difference.high,
                         .words = fmt::format("{}  {}", study::signed_points(one.difference.mean, 2), words_of(one))});
  return plot;
}

std::string forest_plot(const study::StudyPlan& plan, const std::vector<study::Comparison>& comparisons) {
  const Intervals plot = intervals_of(plan, comparisons);
  const double names = width_of_labels(plot);
  const auto x_of = [&](double value) { return names + kPlot * (value - plot.from) / (plot.to - plot.from); };
  const double height = kTop + kRow * static_cast<double>(comparisons.size()) + kBottom;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n",
      names + kPlot + kWords, height);
  svg += fmt::format("<rect x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"#e8eef5\"/>\n",
                     x_of(-plot.margin), kTop - 8, x_of(plot.margin) - x_of(-plot.margin), height - kTop - kBottom + 8);
  for (const double tick : plot.ticks)
    svg += fmt::format(
        "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2:.1f}\" stroke=\"{3}\"/>"
        "<text x=\"{0:.1f}\" y=\"{4:.1f}\" text-anchor=\"middle\" fill=\"#555555\">{5:g}</text>\n",
        x_of(tick), kTop - 8, height - kBottom, tick == 0 ? "#333333" : "#dddddd", height - kBottom + 16, tick);
  svg += fmt::format(
      "<text x=\"{:.1f}\" y=\"20\" text-anchor=\"middle\" fill=\"#222222\">difference of mAP in points, "
      "95 % interval; shaded: equivalent</text>\n",
      names + kPlot / 2);
  double y = kTop + 0.5 * kRow;
  for (const Interval& one : plot.rows) {
    svg += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\" fill=\"#222222\">{}</text>\n", names - 10,
                       y + 4, escaped(one.label));
    if (std::isfinite(one.low))
      svg += fmt::format(
          "<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#1f5fa8\" "
          "stroke-width=\"2\"/>\n",
          x_of(one.low), x_of(one.high), y, y);
    svg += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"#1f5fa8\"/>\n", x_of(one.mean), y);
    svg += fmt::format("<text x=\"{}\" y=\"{:.1f}\" fill=\"#222222\">{}</text>\n", names + kPlot + 10, y + 4,
                       escaped(one.words));
    y += kRow;
  }
  return svg + "</svg>\n";
}

}  // namespace camber::report
