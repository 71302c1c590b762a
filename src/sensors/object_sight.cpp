#include "sensors/object_sight.h"

#include <algorithm>
#include <cmath>

#include "camber/sensors/sensor_frame.h"
#include "sensors/fixed_box.h"

namespace camber::sensors {
namespace {

constexpr int kPatchColumns = 8, kPatchRows = 12;
constexpr double kPatchPixels = 60;

struct Rectangle {
  double left = 1e9, top = 1e9, right = -1e9, bottom = -1e9;
  double width() const { return right - left; }
  double height() const { return bottom - top; }
  double area() const { return std::max(0.0, width()) * std::max(0.0, height()); }
};

// Where a box falls on an image; nothing when it reaches behind the lens.
bool project(const geometry::Box& box, const geometry::Camera& camera, Rectangle& rectangle) {
  for (const geometry::Vector3& corner : box.corners()) {
    const geometry::Projection p = camera.project(corner);
    if (p.depth < 0.5) return false;
    rectangle.left = std::min(rectangle.left, p.u), rectangle.right = std::max(rectangle.right, p.u);
    rectangle.top = std::min(rectangle.top, p.v), rectangle.bottom = std::max(rectangle.bottom, p.v);
  }
  return true;
}

Rectangle clipped(Rectangle r, const Image& image) {
  r.left = std::max(r.left, 0.0), r.right = std::min(r.right, static_cast<double>(image.width));
  r.top = std::max(r.top, 0.0), r.bottom = std::min(r.bottom, static_cast<double>(image.height));
  return r;
}

using Mean = std::array<double, 3>;

// The mean colour of a part of the image, and the mean distance of its pixels from `center`.
Mean mean_of(const Image& image, const Rectangle& part, const Mean* center, double& distance) {
  Mean sum{};
  double far = 0, count = 0;
  const Rectangle r = clipped(part, image);
  for (auto row = static_cast<std::int64_t>(r.top); row < static_cast<std::int64_t>(std::ceil(r.bottom)); ++row) {
    for (auto column = static_cast<std::int64_t>(r.left); column < static_cast<std::int64_t>(std::ceil(r.right));
         ++column) {
      const std::uint8_t* pixel = image.row(row) + 3 * column;
      for (std::size_t i = 0; i < 3; ++i) {
        sum[i] += pixel[i];
        if (center != nullptr) far += std::abs(pixel[i] - (*center)[i]) / 3;
      }
      ++count;
    }
  }
  if (count == 0) return {};
  for (double& value : sum) value /= count;
  distance = far / count;
  return sum;
}

// How much farther the pixels inside lie from the mean colour beside the box than the pixels beside it do.
double contrast_of(const Image& image, const Rectangle& box) {
  const double margin = 0.2 * box.width();
  const Rectangle inside{box.left + margin, box.top + 0.15 * box.height(), box.right - margin,
                         box.bottom - 0.1 * box.height()};
  const double strip = std::max(2.0, 0.4 * box.width());
  const Rectangle left{box.left - 1 - strip, inside.top, box.left - 1, inside.bottom};
  const Rectangle right{box.right + 1, inside.top, box.right + 1 + strip, inside.bottom};
  double best = 1e9;
  for (const Rectangle& beside : {left, right}) {
    if (clipped(beside, image).area() < 4) continue;
    double own = 0, other = 0;
    const Mean mean = mean_of(image, beside, nullptr, own);
    mean_of(image, beside, &mean, own);
    mean_of(image, inside, &mean, other);
    best = std::min(best, other - own);
  }
  return best == 1e9 ? 0 : std::max(0.0, best);
}

std::vector<float> patch_of(const Image& image, const Rectangle& box) {
  std::vector<float> patch;
  double sum = 0, squares = 0;
  for (int row = 0; row < kPatchRows; ++row) {
    for (int column = 0; column < kPatchColumns; ++column) {
      const double w = box.width() / kPatchColumns, h = box.height() / kPatchRows;
      const Rectangle cell{box.left + column * w, box.top + row * h, box.left + (column + 1) * w,
                           box.top + (row + 1) * h};
      double unused = 0;
      const Mean mean = mean_of(image, cell, nullptr, unused);
      const double gray = (mean[0] + mean[1] + mean[2]) / 3;
      patch.push_back(static_cast<float>(gray));
      sum += gray, squares += gray * gray;
    }
  }
  const double count = kPatchColumns * kPatchRows, mean = sum / count;
  const double deviation = std::sqrt(std::max(1e-6, squares / count - mean * mean));
  for (float& value : patch) value = static_cast<float>((value - mean) / deviation);
  return patch;
}

void look(ObjectSight& sight, const KeyFrame& frame, const FrameObject& object) {
  double largest = 0;
  for (const CameraView& view : frame.cameras) {
    Rectangle whole;
    if (!view.available || view.image.pixels.empty() || !project(object.box, view.camera, whole)) continue;
    const Rectangle seen = clipped(whole, view.image);
    if (seen.width() <= 0 || seen.height() <= 0) continue;
    sight.pixels += seen.area() * sight.visible;
    if (seen.area() <= largest) continue;
    largest = seen.area();
    double unused = 0;
    const Rectangle middle{seen.left + 0.2 * seen.width(), seen.top + 0.1 * seen.height(),
                           seen.right - 0.2 * seen.width(), seen.bottom - 0.1 * seen.height()};
    const Mean mean = mean_of(view.image, middle, nullptr, unused);
    for (std::size_t i = 0; i < 3; ++i) sight.color[i] = static_cast<float>(mean[i]);
    sight.contrast = contrast_of(view.image, whole);
    const bool enough = seen.area() >= kPatchPixels && seen.area() > 0.9 * whole.area();
    sight.patch = enough ? patch_of(view.image, middle) : std::vector<float>{};
  }
}

// Extents along the height and across, number and intensity of the returns: all without the box.
void measure(ObjectSight& sight, const KeyFrame& frame, const FrameObject& object) {
  const FixedBox box(object.box);
  std::vector<const LidarPoint*> inside;
  for (const LidarPoint& p : frame.points)
    if (p.time_lag <= kKeySweepLag && box.contains(p)) inside.push_back(&p);
  sight.points = static_cast<std::int64_t>(inside.size());
  if (inside.size() < 3) return;
  float low = 1e9F, high = -1e9F, widest = 0, intensity = 0;
  for (const LidarPoint* p : inside) {
    low = std::min(low, p->z), high = std::max(high, p->z);
    intensity += p->intensity;
    for (const LidarPoint* q : inside) widest = std::max(widest, std::hypot(p->x - q->x, p->y - q->y));
  }
  const double distance = std::hypot(object.box.center[0], object.box.center[1]);
  sight.cloud = {high - low, widest, high,
                 std::log1p(static_cast<float>(sight.points)) + 2 * std::log(static_cast<float>(distance)),
                 intensity / static_cast<float>(sight.points)};
}

}  // namespace

std::vector<ObjectSight> sights_of(const KeyFrame& frame, nuscenes::Index scene, double range) {
  std::vector<ObjectSight> sights;
  for (const FrameObject& object : frame.objects) {
    if (object.lidar_points + object.radar_points == 0) continue;
    if (std::hypot(object.box.center[0], object.box.center[1]) > range) continue;
    ObjectSight sight{.category = object.category, .scene = scene, .visible = object.visible_share.value_or(0)};
    sight.size = {static_cast<float>(object.box.length), static_cast<float>(object.box.width),
                  static_cast<float>(object.box.height)};
    measure(sight, frame, object);
    look(sight, frame, object);
    sights.push_back(std::move(sight));
  }
  return sights;
}

}  // namespace camber::sensors
