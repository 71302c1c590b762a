#include "camber/geometry/transform.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace camber::geometry {
namespace {

template <std::size_t N>
std::array<double, N * N> multiply_square(const std::array<double, N * N>& a, const std::array<double, N * N>& b) {
  std::array<double, N * N> product{};
  for (std::size_t i = 0; i < N; ++i)
    for (std::size_t j = 0; j < N; ++j)
      for (std::size_t k = 0; k < N; ++k) product[i * N + j] += a[i * N + k] * b[k * N + j];
  return product;
}

}  // namespace

Quaternion Quaternion::from_yaw(double yaw) {
  return {std::cos(yaw / 2), 0, 0, std::sin(yaw / 2)};
}

Quaternion Quaternion::from_matrix(const Matrix3& r) {
  // Four times the squares of w, x, y, z, less one part each: the largest one is divided by.
  const std::array<double, 4> squares = {1 + r[0] + r[4] + r[8], 1 + r[0] - r[4] - r[8], 1 - r[0] + r[4] - r[8],
                                         1 - r[0] - r[4] + r[8]};
  const double wx = r[7] - r[5], wy = r[2] - r[6], wz = r[3] - r[1];
  const double xy = r[1] + r[3], xz = r[2] + r[6], yz = r[5] + r[7];
  switch (std::max_element(squares.begin(), squares.end()) - squares.begin()) {
    case 0:
      return Quaternion{squares[0], wx, wy, wz}.normalized();
    case 1:
      return Quaternion{wx, squares[1], xy, xz}.normalized();
    case 2:
      return Quaternion{wy, xy, squares[2], yz}.normalized();
    default:
      return Quaternion{wz, xz, yz, squares[3]}.normalized();
  }
}

Quaternion Quaternion::normalized() const {
  const double length = std::sqrt(w * w + x * x + y * y + z * z);
  if (!(length > 0) || !std::isfinite(length))
    throw std::invalid_argument("[Quaternion] rotation must have a finite length above zero, got " +
                                std::to_string(length));
  return {w / length, x / length, y / length, z / length};
}

Matrix3 Quaternion::matrix() const {
  const auto [qw, qx, qy, qz] = normalized();
  return {1 - 2 * (qy * qy + qz * qz), 2 * (qx * qy - qw * qz),     2 * (qx * qz + qw * qy),
          2 * (qx * qy + qw * qz),     1 - 2 * (qx * qx + qz * qz), 2 * (qy * qz - qw * qx),
          2 * (qx * qz - qw * qy),     2 * (qy * qz + qw * qx),     1 - 2 * (qx * qx + qy * qy)};
}

double Quaternion::yaw() const {
  const Matrix3 rotation = matrix();
  return std::atan2(rotation[3], rotation[0]);
}

Quaternion operator*(const Quaternion& a, const Quaternion& b) {
  return {a.w * b.w - a.x * b.x - a.y * b.y - a.z * b.z, a.w * b.x + a.x * b.w + a.y * b.z - a.z * b.y,
          a.w * b.y - a.x * b.z + a.y * b.w + a.z * b.x, a.w * b.z + a.x * b.y - a.y * b.x + a.z * b.w};
}

RigidTransform RigidTransform::from(const Quaternion& rotation, const Vector3& translation) {
  return {rotation.matrix(), translation};
}

Vector3 RigidTransform::rotate(const Vector3& d) const {
  const Matrix3& r = rotation;
  return {r[0] * d[0] + r[1] * d[1] + r[2] * d[2], r[3] * d[0] + r[4] * d[1] + r[5] * d[2],
          r[6] * d[0] + r[7] * d[1] + r[8] * d[2]};
}

Vector3 RigidTransform::apply(const Vector3& point) const {
  const Vector3 p = rotate(point);
  return {p[0] + translation[0], p[1] + translation[1], p[2] + translation[2]};
}

RigidTransform RigidTransform::inverse() const {
  const Matrix3& r = rotation;
  RigidTransform result{{r[0], r[3], r[6], r[1], r[4], r[7], r[2], r[5], r[8]}, {}};
  const Vector3 t = result.rotate(translation);
  result.translation = {-t[0], -t[1], -t[2]};
  return result;
}

Matrix4 RigidTransform::matrix() const {
  const Matrix3& r = rotation;
  const Vector3& t = translation;
  return {r[0], r[1], r[2], t[0], r[3], r[4], r[5], t[1], r[6], r[7], r[8], t[2], 0, 0, 0, 1};
}

RigidTransform operator*(const RigidTransform& a, const RigidTransform& b) {
  return {multiply(a.rotation, b.rotation), a.apply(b.translation)};
}

Matrix3 multiply(const Matrix3& a, const Matrix3& b) {
  return multiply_square<3>(a, b);
}
Matrix4 multiply(const Matrix4& a, const Matrix4& b) {
  return multiply_square<4>(a, b);
}

Matrix4 inverse(const Matrix4& matrix) {
  Matrix4 a = matrix, result = kIdentity4;
  for (std::size_t column = 0; column < 4; ++column) {
    std::size_t pivot = column;
    for (std::size_t row = column + 1; row < 4; ++row)
      if (std::abs(a[row * 4 + column]) > std::abs(a[pivot * 4 + column])) pivot = row;
    const double divisor = a[pivot * 4 + column];
    if (!(std::abs(divisor) > 0) || !std::isfinite(divisor))
      throw std::invalid_argument("[inverse] matrix must be invertible, got a singular one");
    for (std::size_t j = 0; j < 4; ++j) {
      std::swap(a[pivot * 4 + j], a[column * 4 + j]);
      std::swap(result[pivot * 4 + j], result[column * 4 + j]);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      a[column * 4 + j] /= divisor;
      result[column * 4 + j] /= divisor;
    }
    for (std::size_t row = 0; row < 4; ++row) {
      if (row == column) continue;
      const double factor = a[row * 4 + column];
      for (std::size_t j = 0; j < 4; ++j) {
        a[row * 4 + j] -= factor * a[column * 4 + j];
        result[row * 4 + j] -= factor * result[column * 4 + j];
      }
    }
  }
  return result;
}

}  // namespace camber::geometry
