#pragma once
#include <optional>
#include <string>
#include <vector>

#include "camber/drawing/colour.h"

/// Line charts as SVG text, without any dependency.
///
///   LineChart chart{.title = "precision and recall", .x = {.title = "recall"}, .y = {.title = "precision"}};
///   chart.series.push_back({.name = "car", .points = {{0, 1}, {0.5, 0.9}, {1, 0.2}}});
///   storage::write_file("curve.svg", to_svg({chart}));
namespace camber::drawing {

struct ChartPoint {
  double x = 0;
  double y = 0;
};

struct Series {
  std::string name{};                ///< its entry in the legend; empty: none
  std::vector<ChartPoint> points{};  ///< a point that is not finite interrupts the line
  std::optional<Colour> colour{};    ///< by default the next of series_colour()
  bool dashed = false;
  std::vector<ChartPoint> marks{};  ///< points shown as dots
};

/// A shaded band over a range of x.
struct Zone {
  double from = 0;
  double to = 0;
  std::string name{};
  Colour colour{};
};

/// A thin dashed line across the chart at one height.
struct Level {
  double y = 0;
  std::string name{};
};

struct Axis {
  std::string title{};
  std::optional<double> min{};  ///< by default what the series need
  std::optional<double> max{};
  bool logarithmic = false;  ///< then min must be above 0
};

struct LineChart {
  std::string title{};
  Axis x{};
  Axis y{};
  std::vector<Zone> zones{};
  std::vector<Level> levels{};
  std::vector<Series> series{};
  int width = 760;
  int height = 380;  ///< a legend of several lines adds to it
};

/// One image with the charts below each other. Throws std::invalid_argument for a logarithmic axis that reaches 0.
std::string to_svg(const std::vector<LineChart>& charts);

/// Where an axis from min to max has its marks: steps of 1, 2 or 5 times a power of ten, at most `count` of them.
std::vector<double> tick_positions(double min, double max, int count);

}  // namespace camber::drawing
