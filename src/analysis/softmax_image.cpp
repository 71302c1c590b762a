#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "camber/analysis/softmax.h"
#include "camber/drawing/chart.h"

namespace camber::analysis {
namespace {

constexpr int kSamples = 240;
constexpr drawing::Colour kSensitive{225, 243, 232}, kSafe{237, 246, 221}, kEdge{253, 240, 214},
    kSaturated{250, 224, 220};

drawing::LineChart response_chart(const SoftmaxAnalysis& analysis) {
  double low = 0, high = 10;
  for (const ResponsePoint& point : analysis.curve) {
    low = std::min(low, point.difference);
    high = std::max(high, point.difference);
  }
  const double never = std::numeric_limits<double>::infinity();
  drawing::LineChart chart{.title = "How a softmax answers to a difference between two scores",
                           .x = {.title = "difference of the scores", .min = low, .max = high},
                           .y = {.title = "weight, gradient", .min = 0, .max = 1}};
  chart.zones = {{-never, -5, "saturated", kSaturated}, {-5, -3, "edge", kEdge}, {-3, -2, "safe", kSafe},
                 {-2, 2, "sensitive", kSensitive},      {2, 3, "safe", kSafe},   {3, 5, "edge", kEdge},
                 {5, never, "saturated", kSaturated}};
  drawing::Series weight{.name = "weight of the larger score"}, gradient{.name = "gradient", .dashed = true};
  if (low < 0) weight.name = "weight";
  for (int i = 0; i <= kSamples; ++i) {
    const ResponsePoint point = softmax_response(low + (high - low) * i / kSamples);
    weight.points.push_back({point.difference, point.weight});
    gradient.points.push_back({point.difference, point.gradient});
  }
  for (const ResponsePoint& point : analysis.curve) {
    weight.marks.push_back({point.difference, point.weight});
    gradient.marks.push_back({point.difference, point.gradient});
  }
  chart.series = {weight, gradient};
  return chart;
}

drawing::LineChart scale_chart(const SoftmaxAnalysis& analysis) {
  const SoftmaxOptions& options = analysis.options;
  double low = 0, high = 0;
  for (const double scale : options.scales) {
    low = std::min(low, scale);
    high = std::max(high, scale);
  }
  if (low == high) high = low + 1;
  drawing::LineChart chart{.title = "Attention of each key against the scale of the bias",
                           .x = {.title = "scale", .min = low, .max = high},
                           .y = {.title = "attention", .min = 0, .max = 1}};
  chart.levels = {{0.9, "saturated over 0.9"}, {0.7, "nearly over 0.7"}};
  for (std::size_t key = 0; key < options.weights.size(); ++key) {
    drawing::Series series{.name = fmt::format("key {}, weight {:g}", key + 1, options.weights[key])};
    if (options.scores[key] != 0) series.name += fmt::format(", score {:g}", options.scores[key]);
    for (const AttentionAtScale& row : analysis.scales) series.marks.push_back({row.scale, row.attention[key]});
    chart.series.push_back(std::move(series));
  }
  for (int i = 0; i <= kSamples; ++i) {
    const AttentionAtScale row = attention_at(options, low + (high - low) * i / kSamples);
    for (std::size_t key = 0; key < chart.series.size(); ++key)
      chart.series[key].points.push_back({row.scale, row.attention[key]});
  }
  return chart;
}

}  // namespace

std::string to_svg(const SoftmaxAnalysis& analysis) {
  return drawing::to_svg({response_chart(analysis), scale_chart(analysis)});
}

}  // namespace camber::analysis
