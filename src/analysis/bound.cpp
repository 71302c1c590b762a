#include "camber/analysis/bound.h"

#include <cmath>
#include <stdexcept>

#include <fmt/format.h>

namespace camber::analysis {

void BoundOptions::validate() const {
  if (keys < 2) throw std::invalid_argument(fmt::format("[analyze bound] keys must be at least 2, got {}", keys));
  if (window < 1 || window >= keys)
    throw std::invalid_argument(
        fmt::format("[analyze bound] window must lie between 1 and keys - 1 = {}, got {}", keys - 1, window));
  if (!(mass > 0 && mass < 1))
    throw std::invalid_argument(
        fmt::format("[analyze bound] mass must lie between 0 and 1, both excluded, got {}", mass));
}

double window_mass(std::int64_t keys, std::int64_t window, double bias) {
  const auto inside = static_cast<double>(window);
  const auto outside = static_cast<double>(keys - window);
  // Divided by e^b, so that a large bias does not overflow.
  return inside / (inside + outside * std::exp(-bias));
}

double bias_for_mass(std::int64_t keys, std::int64_t window, double mass) {
  const auto inside = static_cast<double>(window);
  const auto outside = static_cast<double>(keys - window);
  return std::log(mass / (1 - mass) * (outside / inside));
}

BoundAnalysis analyze_bound(const BoundOptions& options) {
  options.validate();
  BoundAnalysis analysis{.keys = options.keys, .window = options.window, .mass = options.mass, .mass_at = {}};
  analysis.bias = bias_for_mass(options.keys, options.window, options.mass);
  analysis.scale_max = analysis.bias;
  for (const double bias : options.biases)
    analysis.mass_at.push_back({.bias = bias, .mass = window_mass(options.keys, options.window, bias)});
  return analysis;
}

}  // namespace camber::analysis
