#pragma once
#include <array>

#include "camber/geometry/transform.h"

namespace camber::geometry {

/// A box with its gravity centre, its size along its own axes (length along the heading) and its heading about +z.
struct Box {
  Vector3 center{};
  double length = 0, width = 0, height = 0;
  double yaw = 0;

  /// The eight corners: the four of the front face (+x of the box), then the four of the back face.
  std::array<Vector3, 8> corners() const;
  /// Faces belong to the box.
  bool contains(const Vector3& point) const;
};

}  // namespace camber::geometry
