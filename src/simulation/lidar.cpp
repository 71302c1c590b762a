#include "camber/simulation/lidar.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "camber/random/noise_field.h"
#include "simulation/actor.h"
#include "simulation/surface.h"

namespace camber::simulation {
namespace {

using random::NoiseField;

using std::numbers::pi;

// The position and heading of the LiDAR in the world.
struct Mount {
  double x, y, z, yaw;
};

Mount mount_of(const Scene& scene, const LidarOptions& lidar, double seconds) {
  const Pose ego = scene.ego.at(seconds);
  const double c = std::cos(ego.yaw), s = std::sin(ego.yaw);
  return {ego.x + c * lidar.x - s * lidar.y, ego.y + s * lidar.x + c * lidar.y, lidar.z,
          ego.yaw + lidar.yaw * LidarOptions::kDegree};
}

struct Hit {
  float range = kNoHit;
  std::int32_t actor = -1;
  std::int32_t part = 0;
};

// All rays of one sweep; a ray is (azimuth, ring), directions are of unit length and in the world's axes.
class Sweep {
 public:
  Sweep(const Scene& scene, const LidarOptions& lidar, double seconds, const random::Stream& stream)
      : lidar_(lidar),
        mount_(mount_of(scene, lidar, seconds)),
        noise_(stream.at("noise")),
        yaw_cosine_(static_cast<float>(std::cos(mount_.yaw))),
        yaw_sine_(static_cast<float>(std::sin(mount_.yaw))) {
    for (const Actor& actor : scene.actors) placed_.emplace_back(actor, seconds, mount_.x, mount_.y, mount_.z);
    for (std::int64_t ring = 0; ring < lidar.beams; ++ring) {
      rise_.push_back(static_cast<float>(std::sin(lidar.elevation(ring))));
      flat_.push_back(static_cast<float>(std::cos(lidar.elevation(ring))));
    }
    for (std::int64_t i = 0; i < lidar.azimuths; ++i) {
      const double angle = mount_.yaw + 2 * pi * static_cast<double>(i) / static_cast<double>(lidar.azimuths);
      cosine_.push_back(static_cast<float>(std::cos(angle)));
      sine_.push_back(static_cast<float>(std::sin(angle)));
    }
    hits_.resize(cosine_.size() * rise_.size());
  }

  void cast() {
    meet_ground();
    for (std::size_t i = 0; i < placed_.size(); ++i) meet_actor(static_cast<std::int32_t>(i));
  }
  // Returns of everything but dark actors, whose rays are listed apart.
  std::vector<LidarReturn> returns(std::vector<std::vector<std::uint32_t>>& dark_rays) const;
  LidarReturn return_of(std::uint32_t ray, const Hit& hit, float noise) const;
  // A return from any point of the actor that the LiDAR sees; false when everything hides it.
  bool glance(std::int32_t actor, LidarReturn& found) const;
  const Hit& hit(std::uint32_t ray) const { return hits_[ray]; }
  bool inside_box(const LidarReturn& point, std::size_t actor) const;

 private:
  Vector direction(std::uint32_t ray) const {
    const std::size_t azimuth = ray / rise_.size(), ring = ray % rise_.size();
    return {flat_[ring] * cosine_[azimuth], flat_[ring] * sine_[azimuth], rise_[ring]};
  }
  void meet_ground();
  void meet_actor(std::int32_t index);
  bool inside_any_box(const LidarReturn& point) const;
  Hit cast_one(Vector direction) const;
  LidarReturn make_return(Vector direction, const Hit& hit, float noise, std::int32_t ring) const;

  const LidarOptions& lidar_;
  Mount mount_;
  NoiseField noise_;
  std::vector<PlacedActor> placed_;
  std::vector<float> rise_, flat_, cosine_, sine_;
  float yaw_cosine_, yaw_sine_;
  std::vector<Hit> hits_;
};

void Sweep::meet_ground() {
  for (std::size_t ring = 0; ring < rise_.size(); ++ring) {
    const float range = rise_[ring] < 0 ? static_cast<float>(mount_.z) / -rise_[ring] : kNoHit;
    for (std::size_t azimuth = 0; azimuth < cosine_.size(); ++azimuth)
      hits_[azimuth * rise_.size() + ring].range = range;
  }
}

void Sweep::meet_actor(std::int32_t index) {
  const PlacedActor& placed = placed_[static_cast<std::size_t>(index)];
  const float distance = std::hypot(placed.center.x, placed.center.y);
  if (distance - placed.reach > static_cast<float>(lidar_.max_range)) return;
  const auto count = static_cast<std::int64_t>(cosine_.size());
  const double step = 2 * pi / static_cast<double>(count);
  const double middle = (std::atan2(placed.center.y, placed.center.x) - mount_.yaw) / step;
  const double half =
      distance > placed.reach ? std::asin(placed.reach / distance) / step : static_cast<double>(count) / 2;
  const auto first = static_cast<std::int64_t>(std::floor(middle - half));
  const auto last = std::min(first + count - 1, static_cast<std::int64_t>(std::ceil(middle + half)));
  const Vector origin = placed.sensor();
  for (std::int64_t i = first; i <= last; ++i) {
    const auto azimuth = static_cast<std::size_t>((i % count + count) % count);
    const Vector flat = placed.into({cosine_[azimuth], sine_[azimuth], 0});
    for (std::size_t ring = 0; ring < rise_.size(); ++ring) {
      int part = 0;
      const float range = placed.enter_any(origin, {flat_[ring] * flat.x, flat_[ring] * flat.y, rise_[ring]}, part);
      Hit& hit = hits_[azimuth * rise_.size() + ring];
      if (range < hit.range) hit = {range, index, part};
    }
  }
}

Hit Sweep::cast_one(Vector direction) const {
  Hit nearest;
  if (direction.z < 0) nearest.range = static_cast<float>(mount_.z) / -direction.z;
  for (std::size_t i = 0; i < placed_.size(); ++i) {
    int part = 0;
    const float range = placed_[i].enter_any(placed_[i].sensor(), placed_[i].into(direction), part);
    if (range < nearest.range) nearest = {range, static_cast<std::int32_t>(i), part};
  }
  return nearest;
}

LidarReturn Sweep::make_return(Vector d, const Hit& hit, float noise, std::int32_t ring) const {
  float reflectivity = 0.25F, incidence = std::abs(d.z);
  if (hit.actor >= 0) {
    const PlacedActor& placed = placed_[static_cast<std::size_t>(hit.actor)];
    const Vector own = placed.into(d), point = placed.sensor() + hit.range * own;
    reflectivity = material_at(*placed.actor, hit.part, point, 0).reflectivity;
    incidence = std::abs(dot(normal_at(placed.actor->parts[static_cast<std::size_t>(hit.part)], point), own));
  }
  const float range = hit.range + static_cast<float>(lidar_.range_noise) * noise;
  const Vector p = range * d;
  LidarReturn result{.x = yaw_cosine_ * p.x + yaw_sine_ * p.y,
                     .y = yaw_cosine_ * p.y - yaw_sine_ * p.x,
                     .z = p.z,
                     .ring = ring,
                     .actor = hit.actor};
  result.intensity =
      std::round(std::clamp(255 * reflectivity * (0.3F + 0.7F * incidence) * (1 + 0.1F * noise), 1.0F, 255.0F));
  return result;
}

LidarReturn Sweep::return_of(std::uint32_t ray, const Hit& hit, float noise) const {
  return make_return(direction(ray), hit, noise, static_cast<std::int32_t>(ray % rise_.size()));
}

std::vector<LidarReturn> Sweep::returns(std::vector<std::vector<std::uint32_t>>& dark_rays) const {
  std::vector<LidarReturn> result;
  result.reserve(hits_.size());
  dark_rays.assign(placed_.size(), {});
  for (std::uint32_t ray = 0; ray < hits_.size(); ++ray) {
    const Hit& hit = hits_[ray];
    if (hit.range > static_cast<float>(lidar_.max_range)) continue;
    const auto words = noise_.words(ray);
    auto drop_out = static_cast<float>(lidar_.drop_out);
    float spread = 1;
    if (hit.actor >= 0) {
      const PlacedActor& placed = placed_[static_cast<std::size_t>(hit.actor)];
      if (placed.actor->dark) {
        dark_rays[static_cast<std::size_t>(hit.actor)].push_back(ray);
        continue;
      }
      const Vector point = placed.sensor() + hit.range * placed.into(direction(ray));
      drop_out = material_at(*placed.actor, hit.part, point, drop_out).drop_out;
      if (placed.actor->kind == ActorKind::kBush) spread = 3;  // leaves at several depths
    }
    if (NoiseField::uniform(words[0]) < drop_out) continue;
    const LidarReturn point = return_of(ray, hit, spread * NoiseField::normal(words[1]));
    // A strip of ground under the rim of a label box would count as the object's.
    if (hit.actor >= 0 || !inside_any_box(point)) result.push_back(point);
  }
  return result;
}

bool Sweep::glance(std::int32_t index, LidarReturn& found) const {
  const PlacedActor& placed = placed_[static_cast<std::size_t>(index)];
  const Actor& actor = *placed.actor;
  for (const float up : {0.1F, 0.3F, -0.2F, 0.45F}) {
    for (const float aside : {0.0F, 0.35F, -0.35F}) {
      for (const float ahead : {0.0F, 0.35F, -0.35F}) {
        const Vector aim = placed.center + placed.out_of({ahead * static_cast<float>(actor.length),
                                                          aside * static_cast<float>(actor.width),
                                                          up * static_cast<float>(actor.height)});
        const Vector d = (1 / std::sqrt(dot(aim, aim))) * aim;
        const Hit hit = cast_one(d);
        if (hit.actor != index || hit.range > static_cast<float>(lidar_.max_range)) continue;
        const auto nearest = std::min_element(rise_.begin(), rise_.end(),
                                              [&d](float a, float b) { return std::abs(a - d.z) < std::abs(b - d.z); });
        found = make_return(d, hit, 0, static_cast<std::int32_t>(nearest - rise_.begin()));
        return true;
      }
    }
  }
  return false;
}

bool Sweep::inside_box(const LidarReturn& point, std::size_t index) const {
  const PlacedActor& placed = placed_[index];
  const Vector world{yaw_cosine_ * point.x - yaw_sine_ * point.y, yaw_sine_ * point.x + yaw_cosine_ * point.y, point.z};
  const Vector own = placed.into(world - placed.center);
  return std::abs(own.x) <= static_cast<float>(placed.actor->length / 2) &&
         std::abs(own.y) <= static_cast<float>(placed.actor->width / 2) &&
         std::abs(own.z) <= static_cast<float>(placed.actor->height / 2);
}

bool Sweep::inside_any_box(const LidarReturn& point) const {
  for (std::size_t i = 0; i < placed_.size(); ++i)
    if (placed_[i].actor->labelled() && inside_box(point, i)) return true;
  return false;
}

}  // namespace

std::vector<LidarReturn> sweep(const Scene& scene, const LidarOptions& lidar, double seconds, bool key_frame,
                               const random::Stream& stream) {
  Sweep cast(scene, lidar, seconds, stream);
  cast.cast();
  std::vector<std::vector<std::uint32_t>> dark_rays;
  std::vector<LidarReturn> result = cast.returns(dark_rays);
  std::vector<int> inside(scene.actors.size());
  for (const LidarReturn& point : result)
    if (point.actor >= 0 && cast.inside_box(point, static_cast<std::size_t>(point.actor)))
      ++inside[static_cast<std::size_t>(point.actor)];
  for (std::size_t i = 0; i < scene.actors.size(); ++i) {
    random::Stream draw = stream.at("dark").at(i);
    const auto rays = static_cast<std::int64_t>(dark_rays[i].size());
    const std::uint64_t kept = key_frame ? 1 + draw.integer(4) : draw.integer(2);
    const std::vector<std::int64_t> order = draw.permutation(rays);
    for (std::int64_t k = 0; k < std::min(rays, static_cast<std::int64_t>(kept)); ++k) {
      const std::uint32_t ray = dark_rays[i][static_cast<std::size_t>(order[static_cast<std::size_t>(k)])];
      // Without range noise the return lies on the solid and so inside the label box.
      result.push_back(cast.return_of(ray, cast.hit(ray), 0));
      ++inside[i];
    }
    LidarReturn found;
    if (key_frame && inside[i] == 0 && scene.actors[i].labelled() && cast.glance(static_cast<std::int32_t>(i), found))
      result.push_back(found);
  }
  return result;
}

}  // namespace camber::simulation
