#pragma once
#include <cmath>
#include <span>
#include <vector>

#include "camber/geometry/box.h"
#include "camber/sensors/points.h"

namespace camber::sensors {

/// A box made ready to be asked about many points: its sine and cosine are taken once.
class FixedBox {
 public:
  explicit FixedBox(const geometry::Box& box)
      : x_(box.center[0]),
        y_(box.center[1]),
        z_(box.center[2]),
        cosine_(std::cos(box.yaw)),
        sine_(std::sin(box.yaw)),
        half_length_(box.length / 2),
        half_width_(box.width / 2),
        half_height_(box.height / 2) {}

  /// The same answer as geometry::Box::contains.
  bool contains(const LidarPoint& p) const {
    const double dx = p.x - x_, dy = p.y - y_;
    return std::abs(cosine_ * dx + sine_ * dy) <= half_length_ && std::abs(cosine_ * dy - sine_ * dx) <= half_width_ &&
           std::abs(p.z - z_) <= half_height_;
  }

  static std::vector<FixedBox> of(std::span<const geometry::Box> boxes) { return {boxes.begin(), boxes.end()}; }

 private:
  double x_, y_, z_, cosine_, sine_, half_length_, half_width_, half_height_;
};

}  // namespace camber::sensors
