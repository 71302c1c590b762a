#include "eval/arithmetic.h"

#include <limits>
#include <numbers>
#include <vector>

namespace camber::eval {

double pairwise_sum(std::span<const double> values) {
  const std::size_t count = values.size();
  if (count < 8) {
    double sum = 0;
    for (const double value : values) sum += value;
    return sum;
  }
  if (count <= 128) {
    std::array<double, 8> sums{};
    for (std::size_t lane = 0; lane < 8; ++lane) sums[lane] = values[lane];
    const std::size_t whole = count - count % 8;
    for (std::size_t i = 8; i < whole; i += 8)
      for (std::size_t lane = 0; lane < 8; ++lane) sums[lane] += values[i + lane];
    double sum = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
    for (std::size_t i = whole; i < count; ++i) sum += values[i];
    return sum;
  }
  std::size_t half = count / 2;
  half -= half % 8;
  return pairwise_sum(values.first(half)) + pairwise_sum(values.subspan(half));
}

double mean(std::span<const double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  return pairwise_sum(values) / static_cast<double>(values.size());
}

double mean_without_nan(std::span<const double> values) {
  std::vector<double> filled(values.begin(), values.end());
  std::size_t count = 0;
  for (double& value : filled)
    if (std::isnan(value))
      value = 0;
    else
      ++count;
  if (count == 0) return std::numeric_limits<double>::quiet_NaN();
  return pairwise_sum(filled) / static_cast<double>(count);
}

std::array<double, 9> rotation_matrix(const std::array<double, 4>& quaternion) {
  std::array<double, 4> q = quaternion;
  const double squares = ((q[0] * q[0] + q[1] * q[1]) + q[2] * q[2]) + q[3] * q[3];
  if (!(std::abs(1.0 - squares) < 1e-14)) {
    const double length = std::sqrt(squares);
    if (length > 0)
      for (double& part : q) part = part / length;
  }
  // The rotation is the lower right 3 x 3 of left(q) * right(q)^T.
  const double left[3][4] = {{q[1], q[0], -q[3], q[2]}, {q[2], q[3], q[0], -q[1]}, {q[3], -q[2], q[1], q[0]}};
  const double right[3][4] = {{q[1], q[0], q[3], -q[2]}, {q[2], -q[3], q[0], q[1]}, {q[3], q[2], -q[1], q[0]}};
  std::array<double, 9> matrix{};
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 3; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < 4; ++k) sum = std::fma(left[i][k], right[j][k], sum);
      matrix[3 * i + j] = sum;
    }
  }
  return matrix;
}

double quaternion_yaw(const std::array<double, 4>& quaternion) {
  const std::array<double, 9> matrix = rotation_matrix(quaternion);
  return std::atan2(matrix[3] + 0.0, matrix[0] + 0.0);  // no negative zero, as after numpy's product with (1, 0, 0)
}

double angle_difference(double x, double y, double period) {
  double remainder = std::fmod(x - y + period / 2, period);
  if (remainder < 0) remainder += period;
  double difference = remainder - period / 2;
  if (difference > std::numbers::pi) difference = difference - 2 * std::numbers::pi;
  return std::abs(difference);
}

}  // namespace camber::eval
