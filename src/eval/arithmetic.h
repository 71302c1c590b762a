#pragma once
#include <array>
#include <cstddef>
#include <span>

/// The arithmetic that numpy runs under the devkit, operation by operation: the order of additions and the rounding of
/// each step decide the last digits. This room is compiled without contraction of a * b + c.
namespace camber::eval {

/// The sum in numpy's pairwise order: plain below 8 elements, eight running sums up to 128, halves beyond.
double pairwise_sum(std::span<const double> values);

/// numpy.mean; NaN for no values.
double mean(std::span<const double> values);
/// numpy.nanmean: NaN for nothing but NaN.
double mean_without_nan(std::span<const double> values);

/// numpy.interp(x, xp, fp, right = right): xp ascending, of several equal xp the last counts, slope * (x - xp) + fp in
/// between. `xp` and `fp` give element i.
template <class Abscissa, class Ordinate>
double interpolate(double x, std::size_t count, Abscissa&& xp, Ordinate&& fp, double right);

/// The heading of a quaternion as pyquaternion and numpy compute it: normalised unless it has length one within 1e-14,
/// the rotation matrix as a matrix product with fused steps, then atan2. A quaternion of zeros gives 0.
double quaternion_yaw(const std::array<double, 4>& quaternion);
/// The first two columns and all rows of that matrix: its x axis, y axis, z axis as columns.
std::array<double, 9> rotation_matrix(const std::array<double, 4>& quaternion);

/// |the smallest angle from y to x|, modulo period, with Python's remainder.
double angle_difference(double x, double y, double period);

}  // namespace camber::eval

#include <cmath>

namespace camber::eval {

template <class Abscissa, class Ordinate>
double interpolate(double x, std::size_t count, Abscissa&& xp, Ordinate&& fp, double right) {
  if (count == 1) return x < xp(0) ? fp(0) : x > xp(0) ? right : fp(0);
  if (std::isnan(x)) return x;
  if (x > xp(count - 1)) return right;
  if (x < xp(0)) return fp(0);
  // The last index whose xp is not above x.
  std::size_t low = 0, high = count;
  while (high - low > 1) {
    const std::size_t middle = low + (high - low) / 2;
    if (x >= xp(middle))
      low = middle;
    else
      high = middle;
  }
  if (low == count - 1 || xp(low) == x) return fp(low);
  const double slope = (fp(low + 1) - fp(low)) / (xp(low + 1) - xp(low));
  double result = slope * (x - xp(low)) + fp(low);
  if (std::isnan(result)) {
    result = slope * (x - xp(low + 1)) + fp(low + 1);
    if (std::isnan(result) && fp(low) == fp(low + 1)) result = fp(low);
  }
  return result;
}

}  // namespace camber::eval
