#pragma once
#include <string>
#include <utility>
#include <vector>

#include "camber/drawing/chart.h"

namespace camber::drawing {

struct Tick {
  double value = 0;
  std::string label{};
};

/// An axis with its range decided: turns a value into a pixel.
class Scale {
 public:
  /// `first` and `last` are the pixels of min and max.
  Scale(const Axis& axis, std::pair<double, double> data_range, double first, double last);

  double pixel(double value) const;
  double min() const { return min_; }
  double max() const { return max_; }
  /// At most `count` marks, each with as many decimals as the step between them needs.
  std::vector<Tick> ticks(int count) const;

 private:
  bool logarithmic_;
  double min_, max_;
  double first_, last_;
};

/// The smallest range that holds every finite number; (0, 1) when there is none.
std::pair<double, double> finite_range(const std::vector<double>& values);

}  // namespace camber::drawing
