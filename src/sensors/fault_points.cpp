#include <algorithm>
#include <cmath>
#include <numbers>

#include "camber/sensors/fault_effects.h"
#include "sensors/fixed_box.h"

namespace camber::sensors {
namespace {

using std::numbers::pi;

bool inside_any(const std::vector<FixedBox>& boxes, const LidarPoint& p) {
  return std::any_of(
      boxes.begin(), boxes.end(), [&p](const FixedBox& box) { return box.contains(p); });
}

void keep_rings(std::vector<LidarPoint>& points, int step) {
  std::erase_if(
      points, [step](const LidarPoint& p) { return static_cast<int>(p.ring) % step != 1 % step; });
}

void limit_view(std::vector<LidarPoint>& points, const geometry::Vector3& ahead, double degrees) {
  const double limit = std::cos(degrees * pi / 180), length = std::hypot(ahead[0], ahead[1]);
  std::erase_if(points, [&](const LidarPoint& p) {
    return p.x * ahead[0] + p.y * ahead[1] < limit * length * std::hypot(p.x, p.y);
  });
}

void drop_points(std::vector<LidarPoint>& points, double share, random::Stream stream) {
  std::erase_if(
      points, [&](const LidarPoint&) { return stream.chance(share); });
}

void drop_objects(std::vector<LidarPoint>& points, std::span<const geometry::Box> objects, double share,
                  random::Stream stream) {
  std::vector<FixedBox> lost;
  for (const geometry::Box& box : objects)
    if (stream.chance(share)) lost.emplace_back(box);
  std::erase_if(points, [&lost](const LidarPoint& p) { return inside_any(lost, p); });
}

void shift_objects(std::vector<LidarPoint>& points, std::span<const geometry::Box> objects, double metres,
                   random::Stream scene) {
  const double angle = scene.at("shift").uniform(-pi, pi);
  const auto dx = static_cast<float>(metres * std::cos(angle)), dy = static_cast<float>(metres * std::sin(angle));
  const std::vector<FixedBox> boxes = FixedBox::of(objects);
  for (LidarPoint& p : points) {
    if (!inside_any(boxes, p)) continue;
    p.x += dx;
    p.y += dy;
  }
}

// Clusters stand on the ground, which is where the lowest twentieth of the points lies.
float ground_of(const std::vector<LidarPoint>& points) {
  if (points.empty()) return -1.8F;
  std::vector<float> heights;
  heights.reserve(points.size());
  for (const LidarPoint& p : points) heights.push_back(p.z);
  const auto middle = heights.begin() + static_cast<std::ptrdiff_t>(heights.size() / 20);
  std::nth_element(heights.begin(), middle, heights.end());
  return *middle;
}

void add_ghosts(std::vector<LidarPoint>& points, int clusters, random::Stream stream) {
  const float ground = ground_of(points);
  const std::size_t real = points.size();
  for (int c = 0; c < clusters; ++c) {
    const double distance = stream.uniform(4, 22), angle = stream.uniform(-pi, pi), yaw = stream.uniform(-pi, pi);
    const bool car = stream.chance(0.4);
    const double length = car ? stream.uniform(3.8, 5) : stream.uniform(0.5, 0.8);
    const double width = car ? stream.uniform(1.7, 2.1) : length, height = stream.uniform(1.4, 1.8);
    const auto count = 8 + static_cast<int>(stream.integer(23));
    const auto intensity = static_cast<float>(stream.uniform(20, 150));
    for (int i = 0; i < count; ++i) {
      // On one of the two sides that face the sensor: a corner seen from outside.
      const double along = stream.uniform(-0.5, 0.5) * length, across = stream.uniform(-0.5, 0.5) * width;
      const bool side = stream.chance(0.5);
      const double x = side ? along : (std::cos(angle - yaw) > 0 ? -0.5 : 0.5) * length;
      const double y = side ? (std::sin(angle - yaw) > 0 ? -0.5 : 0.5) * width : across;
      LidarPoint point;
      point.x = static_cast<float>(distance * std::cos(angle) + std::cos(yaw) * x - std::sin(yaw) * y);
      point.y = static_cast<float>(distance * std::sin(angle) + std::sin(yaw) * x + std::cos(yaw) * y);
      point.z = ground + static_cast<float>(stream.uniform(0.1, height));
      point.intensity = std::round(intensity);
      point.ring = real > 0 ? points[stream.integer(real)].ring : 0;
      points.push_back(point);
    }
  }
}

}  // namespace

void degrade_points(std::vector<LidarPoint>& points, const Fault& fault, const CloudSurroundings& surroundings,
                    const random::Stream& scene, const random::Stream& frame) {
  switch (fault.kind) {
    case FaultKind::kEmpty:
      points.clear();
      return;
    case FaultKind::kGhost:
      return add_ghosts(points, static_cast<int>(fault.value()), frame.at("ghost"));
    case FaultKind::kBeams:
      return keep_rings(points, static_cast<int>(fault.value()));
    case FaultKind::kLimitedView:
      return limit_view(points, surroundings.ahead, fault.value());
    case FaultKind::kDroppedObjects:
      return drop_objects(points, surroundings.objects, fault.value(), frame.at("objects"));
    case FaultKind::kDroppedPoints:
      return drop_points(points, fault.value(), frame.at("points"));
    case FaultKind::kShift:
      return shift_objects(points, surroundings.objects, fault.value(), scene);
    default:
      return;
  }
}

}  // namespace camber::sensors
