#include "camber/random/noise_field.h"

#include <cmath>
#include <numbers>

namespace camber::random {
namespace {

// The x with normal distribution function p, by Newton's method from a neighbour's answer.
double quantile(double p, double start) {
  double x = start;
  for (int i = 0; i < 50; ++i) {
    const double error = 0.5 * std::erfc(-x / std::numbers::sqrt2) - p;
    const double step = error / (std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi));
    x -= step;
    if (std::abs(step) < 1e-12) break;
  }
  return x;
}

std::array<float, 4096> make_quantiles() {
  std::array<float, 4096> table{};
  double x = 0;
  for (std::size_t i = 2048; i < 4096; ++i) {
    x = quantile((static_cast<double>(i) + 0.5) / 4096, x);
    table[i] = static_cast<float>(x);
    table[4095 - i] = -table[i];
  }
  return table;
}

}  // namespace

const std::array<float, 4096>& NoiseField::quantiles() {
  static const std::array<float, 4096> kTable = make_quantiles();
  return kTable;
}

}  // namespace camber::random
