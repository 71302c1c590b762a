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

double mass_after(double mass, double bias) {
  // Divided by e^b, so that a large bias does not overflow.
  return mass / (mass + (1 - mass) * std::exp(-bias));
}

double most_moved(double bias) {
  return std::tanh(bias / 4);
}

double mass_before(double moved, double bias) {
  if (!(bias > 0) || !(moved > 0) || moved > most_moved(bias)) return std::nan("");
  // mass_after(m) - m rises from 0 to its largest value at m = 1 / (1 + e^(bias/2)).
  double low = 0, high = 1 / (1 + std::exp(bias / 2));
  for (int i = 0; i < 60; ++i) {
    const double middle = 0.5 * (low + high);
    (mass_after(middle, bias) - middle < moved ? low : high) = middle;
  }
  return 0.5 * (low + high);
}

double window_mass(std::int64_t keys, std::int64_t window, double bias) {
  return mass_after(static_cast<double>(window) / static_cast<double>(keys), bias);
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
