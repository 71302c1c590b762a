#include "camber/geometry/box.h"

#include <cmath>

namespace camber::geometry {

std::array<Vector3, 8> Box::corners() const {
  const double c = std::cos(yaw), s = std::sin(yaw);
  std::array<Vector3, 8> result{};
  constexpr double kY[] = {1, -1, -1, 1};
  constexpr double kZ[] = {1, 1, -1, -1};
  for (std::size_t i = 0; i < 8; ++i) {
    const double x = (i < 4 ? 0.5 : -0.5) * length, y = 0.5 * kY[i % 4] * width, z = 0.5 * kZ[i % 4] * height;
    result[i] = {center[0] + c * x - s * y, center[1] + s * x + c * y, center[2] + z};
  }
  return result;
}

bool Box::contains(const Vector3& point) const {
  const double c = std::cos(yaw), s = std::sin(yaw);
  const double dx = point[0] - center[0], dy = point[1] - center[1], dz = point[2] - center[2];
  return std::abs(c * dx + s * dy) <= length / 2 && std::abs(c * dy - s * dx) <= width / 2 &&
         std::abs(dz) <= height / 2;
}

}  // namespace camber::geometry
