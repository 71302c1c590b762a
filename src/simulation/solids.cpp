#include "simulation/solids.h"

#include <algorithm>

namespace camber::simulation {
namespace {

float enter_box(const Part& part, Vector o, Vector d) {
  // Slabs; a zero direction gives infinities of the right sign, except 0/0, which the comparisons drop.
  const float tx1 = (-part.half[0] - o.x) / d.x, tx2 = (part.half[0] - o.x) / d.x;
  const float ty1 = (-part.half[1] - o.y) / d.y, ty2 = (part.half[1] - o.y) / d.y;
  const float tz1 = (-part.half[2] - o.z) / d.z, tz2 = (part.half[2] - o.z) / d.z;
  const float near = std::max({std::min(tx1, tx2), std::min(ty1, ty2), std::min(tz1, tz2)});
  const float far = std::min({std::max(tx1, tx2), std::max(ty1, ty2), std::max(tz1, tz2)});
  return near > 0 && near <= far ? near : kNoHit;
}

// The entering root of a t^2 + 2 b t + c = 0.
float entering_root(float a, float b, float c) {
  const float discriminant = b * b - a * c;
  if (discriminant < 0 || a <= 0) return kNoHit;
  return (-b - std::sqrt(discriminant)) / a;
}

float enter_cylinder(const Part& part, Vector o, Vector d) {
  const float ix = 1 / part.half[0], iy = 1 / part.half[1], h = part.half[2];
  const float ox = o.x * ix, oy = o.y * iy, dx = d.x * ix, dy = d.y * iy;
  const float side = entering_root(dx * dx + dy * dy, ox * dx + oy * dy, ox * ox + oy * oy - 1);
  if (side > 0 && side < kNoHit && std::abs(o.z + side * d.z) <= h) return side;
  // The lid towards the ray.
  const float lid = ((d.z < 0 ? h : -h) - o.z) / d.z;
  if (!(lid > 0)) return kNoHit;
  const float px = ox + lid * dx, py = oy + lid * dy;
  return px * px + py * py <= 1 ? lid : kNoHit;
}

float enter_ellipsoid(const Part& part, Vector o, Vector d) {
  const Vector so{o.x / part.half[0], o.y / part.half[1], o.z / part.half[2]};
  const Vector sd{d.x / part.half[0], d.y / part.half[1], d.z / part.half[2]};
  const float t = entering_root(dot(sd, sd), dot(so, sd), dot(so, so) - 1);
  return t > 0 ? t : kNoHit;
}

Vector center_of(const Part& part) {
  return {part.center[0], part.center[1], part.center[2]};
}

Vector unit(Vector v) {
  return (1 / std::sqrt(dot(v, v))) * v;
}

}  // namespace

float enter(const Part& part, Vector origin, Vector direction) {
  const Vector o = origin - center_of(part);
  switch (part.shape) {
    case PartShape::kBox:
      return enter_box(part, o, direction);
    case PartShape::kCylinder:
      return enter_cylinder(part, o, direction);
    case PartShape::kEllipsoid:
      return enter_ellipsoid(part, o, direction);
  }
  return kNoHit;
}

Vector normal_at(const Part& part, Vector point) {
  const Vector p = point - center_of(part);
  const float x = p.x / part.half[0], y = p.y / part.half[1], z = p.z / part.half[2];
  if (part.shape == PartShape::kEllipsoid) return unit({x / part.half[0], y / part.half[1], z / part.half[2]});
  const auto sign = [](float value) { return value < 0 ? -1.0F : 1.0F; };
  if (part.shape == PartShape::kCylinder) {
    if (z * z >= x * x + y * y) return {0, 0, sign(z)};
    return unit({x / part.half[0], y / part.half[1], 0});
  }
  const float ax = std::abs(x), ay = std::abs(y), az = std::abs(z);
  if (ax >= ay && ax >= az) return {sign(x), 0, 0};
  if (ay >= az) return {0, sign(y), 0};
  return {0, 0, sign(z)};
}

PlacedActor::PlacedActor(const Actor& placed, double seconds, double sensor_x, double sensor_y, double sensor_z)
    : actor(&placed) {
  const Pose pose = placed.path.at(seconds);
  center = {static_cast<float>(pose.x - sensor_x), static_cast<float>(pose.y - sensor_y),
            static_cast<float>(placed.height / 2 - sensor_z)};
  cosine = static_cast<float>(std::cos(pose.yaw));
  sine = static_cast<float>(std::sin(pose.yaw));
  reach = static_cast<float>(
      std::sqrt(placed.length * placed.length + placed.width * placed.width + placed.height * placed.height) / 2);
}

float PlacedActor::enter_any(Vector origin, Vector direction, int& part) const {
  float nearest = kNoHit;
  for (std::size_t i = 0; i < actor->parts.size(); ++i) {
    const float t = enter(actor->parts[i], origin, direction);
    if (t < nearest) {
      nearest = t;
      part = static_cast<int>(i);
    }
  }
  return nearest;
}

}  // namespace camber::simulation
