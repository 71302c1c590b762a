#include "camber/simulation/camera.h"

#include <algorithm>
#include <cmath>

#include "camber/geometry/camera.h"
#include "camber/random/noise_field.h"
#include "simulation/surface.h"

namespace camber::simulation {
namespace {

using random::NoiseField;

constexpr float kNear = 0.2F;  // metres before the lens that are never drawn

Vector vector_of(const geometry::Vector3& v) {
  return {static_cast<float>(v[0]), static_cast<float>(v[1]), static_cast<float>(v[2])};
}

// Rays of an image: direction = corner + u * right + v * down, in the world's axes and with depth 1 along the axis.
struct Rays {
  Vector corner, right, down;
  Vector at(float u, float v) const { return corner + u * right + v * down; }
};

struct Sample {
  float depth = kNoHit;
  std::int16_t actor = -1;
  std::int16_t part = 0;
};

struct Rectangle {
  std::int64_t left, top, right, bottom;  // right and bottom excluded
};

class Renderer {
 public:
  Renderer(const Scene& scene, const CameraOptions& camera, double seconds, std::int64_t samples_per_side)
      : scene_(scene),
        camera_(camera),
        side_(samples_per_side),
        columns_(camera.width * side_),
        rows_(camera.height * side_) {
    const geometry::RigidTransform pose = ego_to_world(scene, seconds) * camera.to_ego();
    const geometry::Matrix3 k = camera.intrinsic();
    origin_ = pose.translation;
    focal_ = static_cast<float>(k[0]);
    // Sample (i, j) lies at pixel ((i + 0.5) / side, (j + 0.5) / side).
    const double step = 1 / (k[0] * static_cast<double>(side_)), half = 0.5 / static_cast<double>(side_);
    rays_.corner = vector_of(pose.rotate({(half - k[2]) / k[0], (half - k[5]) / k[4], 1}));
    rays_.right = vector_of(pose.rotate({step, 0, 0}));
    rays_.down = vector_of(pose.rotate({0, step, 0}));
    to_camera_ = pose.inverse();
    for (const Actor& actor : scene.actors) placed_.emplace_back(actor, seconds, origin_[0], origin_[1], origin_[2]);
    const Pose& road = scene.ego.anchor;
    const double c = std::cos(road.yaw), s = std::sin(road.yaw), dx = origin_[0] - road.x, dy = origin_[1] - road.y;
    road_cosine_ = static_cast<float>(c);
    road_sine_ = static_cast<float>(s);
    along_ = static_cast<float>(c * dx + s * dy);
    across_ = static_cast<float>(c * dy - s * dx);
    samples_.resize(static_cast<std::size_t>(columns_ * rows_));
    if (!scene.night) find_casters();
  }

  void draw_actors(View& view) {
    const double share = 1.0 / static_cast<double>(side_ * side_);
    view.visible.assign(placed_.size(), 0);
    view.unoccluded.assign(placed_.size(), 0);
    for (std::size_t i = 0; i < placed_.size(); ++i)
      view.unoccluded[i] = share * static_cast<double>(draw_actor(static_cast<std::int16_t>(i)));
    for (const Sample& sample : samples_)
      if (sample.actor >= 0) view.visible[static_cast<std::size_t>(sample.actor)] += share;
  }
  void shade(View& view, double noise_level, const random::Stream& stream) const;

 private:
  void find_casters();
  std::int64_t draw_actor(std::int16_t index);
  bool bounds(const PlacedActor& placed, Rectangle& rectangle) const;
  Color pixel_color(std::int64_t u, std::int64_t v) const;
  Color color_of(const Sample& sample, Vector direction) const;
  Color actor_color(const Sample& sample, Vector direction) const;
  float sunlight(Vector position) const;

  const Scene& scene_;
  const CameraOptions& camera_;
  std::int64_t side_, columns_, rows_;
  geometry::Vector3 origin_{};
  float focal_ = 1;
  Rays rays_{};
  geometry::RigidTransform to_camera_{};
  std::vector<PlacedActor> placed_;
  float road_cosine_ = 1, road_sine_ = 0, along_ = 0, across_ = 0;
  std::vector<Sample> samples_;
  std::vector<const PlacedActor*> casters_;  // of shadows that may fall into the image
};

// A sphere's shadow on the ground is an ellipse, longest along the sun's azimuth; those beside the image are left
// out.
void Renderer::find_casters() {
  const geometry::Matrix3 k = camera_.intrinsic();
  const double left = k[2] / k[0], right = (static_cast<double>(camera_.width) - k[2]) / k[0];
  for (const PlacedActor& placed : placed_) {
    const float drop = (placed.center.z + static_cast<float>(origin_[2])) / scene_.sun[2];
    const geometry::Vector3 c = to_camera_.rotate(
        {placed.center.x - drop * scene_.sun[0], placed.center.y - drop * scene_.sun[1], -origin_[2]});
    const double radius = placed.reach / scene_.sun[2];
    const bool beside =
        c[0] + left * c[2] < -radius * std::hypot(1, left) || right * c[2] - c[0] < -radius * std::hypot(1, right);
    if (c[2] > -radius && !beside) casters_.push_back(&placed);
  }
}

// The samples that an actor can cover, from its label box's corners; everything when it reaches behind the lens.
bool Renderer::bounds(const PlacedActor& placed, Rectangle& rectangle) const {
  const geometry::Matrix3 k = camera_.intrinsic();
  double left = 1e9, right = -1e9, top = 1e9, bottom = -1e9, nearest = 1e9, farthest = -1e9;
  const Actor& actor = *placed.actor;
  for (int corner = 0; corner < 8; ++corner) {
    const auto sign = [corner](int bit) { return (corner >> bit & 1) == 0 ? -0.5F : 0.5F; };
    const Vector p = placed.center + placed.out_of({sign(0) * static_cast<float>(actor.length),
                                                    sign(1) * static_cast<float>(actor.width),
                                                    sign(2) * static_cast<float>(actor.height)});
    const geometry::Vector3 c = to_camera_.rotate({p.x, p.y, p.z});
    nearest = std::min(nearest, c[2]);
    farthest = std::max(farthest, c[2]);
    const double depth = std::max(c[2], 1e-3), u = k[0] * c[0] / depth + k[2], v = k[4] * c[1] / depth + k[5];
    left = std::min(left, u), right = std::max(right, u), top = std::min(top, v), bottom = std::max(bottom, v);
  }
  if (farthest < kNear) return false;
  rectangle = {0, 0, columns_, rows_};
  if (nearest < kNear) return true;
  const auto sample = [this](double pixel, std::int64_t limit) {
    return static_cast<std::int64_t>(std::clamp(pixel * static_cast<double>(side_), 0.0, static_cast<double>(limit)));
  };
  rectangle = {sample(left, columns_), sample(top, rows_), std::min(columns_, sample(right, columns_) + 1),
               std::min(rows_, sample(bottom, rows_) + 1)};
  return rectangle.left < rectangle.right && rectangle.top < rectangle.bottom;
}

std::int64_t Renderer::draw_actor(std::int16_t index) {
  const PlacedActor& placed = placed_[static_cast<std::size_t>(index)];
  Rectangle area{};
  if (!bounds(placed, area)) return 0;
  const Vector origin = placed.sensor();
  const Rays own{placed.into(rays_.corner), placed.into(rays_.right), placed.into(rays_.down)};
  std::int64_t covered = 0;
  for (std::int64_t row = area.top; row < area.bottom; ++row) {
    for (std::int64_t column = area.left; column < area.right; ++column) {
      int part = 0;
      const float depth = placed.enter_any(origin, own.at(static_cast<float>(column), static_cast<float>(row)), part);
      if (depth == kNoHit || depth < kNear) continue;
      ++covered;
      Sample& sample = samples_[static_cast<std::size_t>(row * columns_ + column)];
      if (depth < sample.depth) sample = {depth, index, static_cast<std::int16_t>(part)};
    }
  }
  return covered;
}

// 1 in the open, less in the shadow of an actor; `point` is on the ground, relative to the camera.
float Renderer::sunlight(Vector position) const {
  const Vector sun{scene_.sun[0], scene_.sun[1], scene_.sun[2]};
  for (const PlacedActor* placed : casters_) {
    const Vector to = placed->center - position;
    const float along = dot(to, sun);
    if (along < -placed->reach || dot(to, to) - along * along > placed->reach * placed->reach) continue;
    int part = 0;
    if (placed->enter_any(placed->into(position - placed->center), placed->into(sun), part) < kNoHit) return 0.25F;
  }
  return 1;
}

Color Renderer::actor_color(const Sample& sample, Vector direction) const {
  const PlacedActor& placed = placed_[static_cast<std::size_t>(sample.actor)];
  const Vector point = placed.sensor() + sample.depth * placed.into(direction);
  const Vector normal = normal_at(placed.actor->parts[static_cast<std::size_t>(sample.part)], point);
  const Look look = look_at(scene_, *placed.actor, sample.part, point, normal);
  float light = scene_.light;
  if (!scene_.night) {
    const Vector sun = placed.into({scene_.sun[0], scene_.sun[1], scene_.sun[2]});
    light *= 0.55F + 0.15F * normal.z + 0.4F * std::max(0.0F, dot(normal, sun));
  }
  Color color{};
  for (std::size_t i = 0; i < 3; ++i) color[i] = look.albedo[i] * (light + (scene_.night ? look.emission : 0));
  return color;
}

Color Renderer::color_of(const Sample& sample, Vector direction) const {
  if (sample.actor >= 0) return actor_color(sample, direction);
  Color color{};
  float light = scene_.light;
  if (direction.z < -1e-4F) {
    const float depth = static_cast<float>(origin_[2]) / -direction.z;
    const Vector position = depth * direction;
    const float along = along_ + road_cosine_ * position.x + road_sine_ * position.y;
    const float across = across_ + road_cosine_ * position.y - road_sine_ * position.x;
    const float footprint = depth * depth / (static_cast<float>(origin_[2]) * focal_);
    color = ground_color(scene_, along, across, footprint);
    if (!scene_.night) light *= 0.65F + 0.35F * sunlight(position);
  } else {
    color = sky_color(scene_, direction);
  }
  for (float& channel : color) channel *= light;
  return color;
}

// The mean of a pixel's rays; where only ground and sky are met, which change slowly, one ray in the middle stands for
// all of them.
Color Renderer::pixel_color(std::int64_t u, std::int64_t v) const {
  const auto sample = [&](std::int64_t i, std::int64_t j) -> const Sample& {
    return samples_[static_cast<std::size_t>((v * side_ + j) * columns_ + u * side_ + i)];
  };
  bool background = true;
  for (std::int64_t j = 0; j < side_; ++j)
    for (std::int64_t i = 0; i < side_; ++i) background = background && sample(i, j).actor < 0;
  const auto middle = 0.5F * static_cast<float>(side_ - 1);
  const auto left = static_cast<float>(u * side_), top = static_cast<float>(v * side_);
  if (background) return color_of(sample(0, 0), rays_.at(left + middle, top + middle));
  Color sum{};
  const float weight = 1.0F / static_cast<float>(side_ * side_);
  for (std::int64_t j = 0; j < side_; ++j) {
    for (std::int64_t i = 0; i < side_; ++i) {
      const Color color = color_of(sample(i, j), rays_.at(left + static_cast<float>(i), top + static_cast<float>(j)));
      for (std::size_t k = 0; k < 3; ++k) sum[k] += weight * color[k];
    }
  }
  return sum;
}

void Renderer::shade(View& view, double noise_level, const random::Stream& stream) const {
  const NoiseField noise(stream.at("noise"));
  Image& image = view.image;
  const auto pixels = static_cast<std::size_t>(camera_.width * camera_.height);
  image = {camera_.width, camera_.height, std::vector<std::uint8_t>(3 * pixels)};
  view.actor.resize(pixels);
  const auto grain = static_cast<float>(noise_level);
  for (std::int64_t v = 0; v < camera_.height; ++v) {
    for (std::int64_t u = 0; u < camera_.width; ++u) {
      const Color color = pixel_color(u, v);
      const auto pixel = static_cast<std::size_t>(v * camera_.width + u);
      const auto words = noise.words(static_cast<std::uint32_t>(pixel));
      for (std::size_t i = 0; i < 3; ++i) {
        const float value = color[i] + grain * NoiseField::normal(words[i]);
        image.rgb[3 * pixel + i] = static_cast<std::uint8_t>(std::clamp(255 * value + 0.5F, 0.0F, 255.0F));
      }
      view.actor[pixel] =
          samples_[static_cast<std::size_t>((v * side_ + side_ / 2) * columns_ + u * side_ + side_ / 2)].actor;
    }
  }
}

}  // namespace

View render(const Scene& scene, const CameraOptions& camera, double seconds, double noise,
            std::int64_t samples_per_side, const random::Stream& stream) {
  View view;
  Renderer renderer(scene, camera, seconds, samples_per_side);
  renderer.draw_actors(view);
  renderer.shade(view, noise, stream);
  return view;
}

geometry::RigidTransform ego_to_world(const Scene& scene, double seconds) {
  const Pose pose = scene.ego.at(seconds);
  return geometry::RigidTransform::from(geometry::Quaternion::from_yaw(pose.yaw), {pose.x, pose.y, 0});
}

double share_in_images(const Scene& scene, const RigOptions& rig, const geometry::Box& box, double seconds) {
  constexpr int kLattice = 5;
  std::vector<geometry::RigidTransform> to_camera;
  to_camera.reserve(rig.cameras.size());
  for (const CameraOptions& camera : rig.cameras)
    to_camera.push_back((ego_to_world(scene, seconds - camera.delay * 1e-3) * camera.to_ego()).inverse());
  const auto seen = [&](const geometry::Vector3& point) {
    for (std::size_t i = 0; i < to_camera.size(); ++i) {
      const CameraOptions& camera = rig.cameras[i];
      const geometry::Matrix3 k = camera.intrinsic();
      const geometry::Vector3 c = to_camera[i].apply(point);
      if (c[2] < geometry::kMinimumDepth) continue;
      const double u = k[0] * c[0] / c[2] + k[2], v = k[4] * c[1] / c[2] + k[5];
      if (u >= 0 && u < static_cast<double>(camera.width) && v >= 0 && v < static_cast<double>(camera.height))
        return true;
    }
    return false;
  };
  const double cosine = std::cos(box.yaw), sine = std::sin(box.yaw);
  int inside = 0;
  for (int i = 0; i < kLattice * kLattice * kLattice; ++i) {
    const auto share = [](int step) { return static_cast<double>(step) / (kLattice - 1) - 0.5; };
    const double x = share(i % kLattice) * box.length, y = share(i / kLattice % kLattice) * box.width;
    inside += seen({box.center[0] + cosine * x - sine * y, box.center[1] + sine * x + cosine * y,
                    box.center[2] + share(i / kLattice / kLattice) * box.height})
                  ? 1
                  : 0;
  }
  return static_cast<double>(inside) / (kLattice * kLattice * kLattice);
}

}  // namespace camber::simulation
