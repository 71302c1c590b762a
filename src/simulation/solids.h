#pragma once
#include <array>
#include <cmath>
#include <limits>

#include "camber/simulation/scene.h"

/// Rays and solids in float: the inner loops of both sensors.
namespace camber::simulation {

struct Vector {
  float x = 0, y = 0, z = 0;
};

inline Vector operator+(Vector a, Vector b) {
  return {a.x + b.x, a.y + b.y, a.z + b.z};
}
inline Vector operator-(Vector a, Vector b) {
  return {a.x - b.x, a.y - b.y, a.z - b.z};
}
inline Vector operator*(float s, Vector a) {
  return {s * a.x, s * a.y, s * a.z};
}
inline float dot(Vector a, Vector b) {
  return a.x * b.x + a.y * b.y + a.z * b.z;
}

constexpr float kNoHit = std::numeric_limits<float>::infinity();

/// The smallest t > 0 at which origin + t * direction enters the solid, or kNoHit. The direction need not be of unit
/// length; rays that begin inside are not met.
float enter(const Part& part, Vector origin, Vector direction);

/// The outward normal at a point on the solid's surface, of unit length.
Vector normal_at(const Part& part, Vector point);

/// An actor at one instant, seen from a sensor: turns rays of the world into the actor's own frame.
struct PlacedActor {
  const Actor* actor = nullptr;
  Vector center{};  ///< of the label box, relative to the sensor, world axes
  float cosine = 1, sine = 0;
  float reach = 0;  ///< radius of a sphere round the centre that holds every solid

  PlacedActor(const Actor& placed, double seconds, double sensor_x, double sensor_y, double sensor_z);

  Vector into(Vector world) const {
    return {cosine * world.x + sine * world.y, cosine * world.y - sine * world.x, world.z};
  }
  Vector out_of(Vector own) const { return {cosine * own.x - sine * own.y, sine * own.x + cosine * own.y, own.z}; }
  /// The sensor's position in the actor's frame.
  Vector sensor() const { return into(-1.0F * center); }
  /// Enters the nearest of the actor's solids; `part` receives its index.
  float enter_any(Vector origin, Vector direction, int& part) const;
};

}  // namespace camber::simulation
