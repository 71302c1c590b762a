#include "drawing/chart_layout.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include <fmt/format.h>

namespace camber::drawing {
namespace {

double nice_step(double span, int count) {
  const double rough = span / std::max(count, 1);
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

}  // namespace

std::vector<double> tick_positions(double min, double max, int count) {
  const double step = nice_step(max - min, count);
  std::vector<double> ticks;
  for (double index = std::ceil(min / step - 1e-9); index * step <= max + step * 1e-9; ++index)
    ticks.push_back(index == 0 ? 0.0 : index * step);
  return ticks;
}

std::pair<double, double> finite_range(const std::vector<double>& values) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  if (low > high) return {0, 1};
  return {low, high};
}

Scale::Scale(const Axis& axis, std::pair<double, double> data_range, double first, double last)
    : logarithmic_(axis.logarithmic),
      min_(axis.min.value_or(data_range.first)),
      max_(axis.max.value_or(data_range.second)),
      first_(first),
      last_(last) {
  if (logarithmic_ && !(min_ > 0))
    throw std::invalid_argument(
        fmt::format("[drawing] a logarithmic axis must begin above 0, got {} for '{}'", min_, axis.title));
  if (!(min_ < max_)) {
    // One value alone gets some room on both sides.
    const double room = logarithmic_ ? 0 : std::max(std::fabs(min_) * 0.1, 0.5);
    max_ = logarithmic_ ? min_ * 10 : min_ + room;
    min_ -= room;
  }
}

double Scale::pixel(double value) const {
  const double share = logarithmic_ ? std::log(value / min_) / std::log(max_ / min_) : (value - min_) / (max_ - min_);
  return first_ + share * (last_ - first_);
}

std::vector<Tick> Scale::ticks(int count) const {
  std::vector<Tick> ticks;
  if (logarithmic_) {
    for (double power = std::pow(10.0, std::ceil(std::log10(min_) - 1e-9)); power <= max_ * (1 + 1e-9); power *= 10)
      ticks.push_back({power, fmt::format("{:g}", power)});
    return ticks;
  }
  const double step = nice_step(max_ - min_, count);
  const int decimals = std::max(static_cast<int>(-std::floor(std::log10(step) + 1e-9)), 0);
  for (const double value : tick_positions(min_, max_, count)) {
    const bool plain = decimals <= 6 && std::fabs(value) < 1e6;
    ticks.push_back({value, plain ? fmt::format("{:.{}f}", value, decimals) : fmt::format("{:.4g}", value)});
  }
  return ticks;
}

}  // namespace camber::drawing
