#pragma once
#include <array>

/// Points, rotations and rigid transforms in double precision. Matrices are row-major.
namespace camber::geometry {

using Vector3 = std::array<double, 3>;
using Matrix3 = std::array<double, 9>;
using Matrix4 = std::array<double, 16>;

constexpr Matrix3 kIdentity3 = {1, 0, 0, 0, 1, 0, 0, 0, 1};
constexpr Matrix4 kIdentity4 = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};

/// Quaternion (w, x, y, z), the order of the nuScenes tables.
struct Quaternion {
  double w = 1, x = 0, y = 0, z = 0;

  static Quaternion from_yaw(double yaw);
  /// The unit quaternion of a rotation matrix; of the two the one whose largest part is positive.
  static Quaternion from_matrix(const Matrix3& rotation);
  /// Refuses a quaternion of length zero or with a part that is not finite.
  Quaternion normalized() const;
  Matrix3 matrix() const;
  /// Heading about +z of the rotated x axis, in (-pi, pi]: atan2(R[1][0], R[0][0]) of the normalised quaternion.
  double yaw() const;
};

/// The product of two rotations: first `b`, then `a`.
Quaternion operator*(const Quaternion& a, const Quaternion& b);

/// x -> R x + t.
struct RigidTransform {
  Matrix3 rotation = kIdentity3;
  Vector3 translation{};

  static RigidTransform from(const Quaternion& rotation, const Vector3& translation);
  Vector3 apply(const Vector3& point) const;
  Vector3 rotate(const Vector3& direction) const;
  RigidTransform inverse() const;
  Matrix4 matrix() const;
};

/// The composition: first `b`, then `a`.
RigidTransform operator*(const RigidTransform& a, const RigidTransform& b);

Matrix3 multiply(const Matrix3& a, const Matrix3& b);
Matrix4 multiply(const Matrix4& a, const Matrix4& b);
/// Inverse by Gauss-Jordan elimination with pivoting; refuses a singular matrix.
Matrix4 inverse(const Matrix4& matrix);

}  // namespace camber::geometry
