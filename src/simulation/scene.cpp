#include "camber/simulation/scene.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <stdexcept>
#include <string>

#include "simulation/actor.h"

namespace camber::simulation {
namespace {

using std::numbers::pi;

constexpr double kClearance = 0.4;     // metres between two objects
constexpr double kCarClearance = 1.0;  // metres between an object and the car
constexpr double kCheckInterval = 0.25;
constexpr int kPlacementTries = 40;
constexpr int kMaxActors = 400;

struct Footprint {
  double x, y, yaw, half_length, half_width;
};

Footprint footprint_of(const Pose& pose, double length, double width, double clearance) {
  return {pose.x, pose.y, pose.yaw, length / 2 + clearance / 2, width / 2 + clearance / 2};
}

// Half the extent of a rectangle along a direction.
double extent(const Footprint& r, double dx, double dy) {
  const double c = std::cos(r.yaw), s = std::sin(r.yaw);
  return r.half_length * std::abs(c * dx + s * dy) + r.half_width * std::abs(c * dy - s * dx);
}

bool overlap(const Footprint& a, const Footprint& b) {
  const double dx = b.x - a.x, dy = b.y - a.y;
  const double reach = std::hypot(a.half_length, a.half_width) + std::hypot(b.half_length, b.half_width);
  if (dx * dx + dy * dy > reach * reach) return false;
  for (const double yaw : {a.yaw, a.yaw + pi / 2, b.yaw, b.yaw + pi / 2}) {
    const double ax = std::cos(yaw), ay = std::sin(yaw);
    if (std::abs(dx * ax + dy * ay) > extent(a, ax, ay) + extent(b, ax, ay)) return false;
  }
  return true;
}

// The car itself: its frame begins below the rear axle.
Footprint car_at(const Path& ego, double time) {
  Pose pose = ego.at(time);
  pose.x += 1.4 * std::cos(pose.yaw);
  pose.y += 1.4 * std::sin(pose.yaw);
  return footprint_of(pose, 4.1, 1.75, kCarClearance);
}

bool collides(const Scene& scene, const Actor& actor) {
  for (double time = 0; time <= scene.duration; time += kCheckInterval) {
    const Footprint mine = footprint_of(actor.path.at(time), actor.length, actor.width, kClearance);
    if (overlap(mine, car_at(scene.ego, time))) return true;
    for (const Actor& other : scene.actors)
      if (overlap(mine, footprint_of(other.path.at(time), other.length, other.width, kClearance))) return true;
  }
  return false;
}

Path draw_path(ActorKind kind, const Pose& road, random::Stream& stream) {
  struct Motion {
    double standing, slowest, fastest, turn;
  };
  const Motion motion = kind == ActorKind::kCar          ? Motion{0.45, 2, 8, 0.06}
                        : kind == ActorKind::kTruck      ? Motion{0.40, 2, 7, 0.04}
                        : kind == ActorKind::kPedestrian ? Motion{0.30, 0.6, 1.8, 0.2}
                                                         : Motion{1, 0, 0, 0};
  Path path;
  const bool follows_road = kind <= ActorKind::kTruck && stream.chance(0.75);
  const double along = road.yaw + (stream.chance(0.5) ? pi : 0) + stream.normal(0, 0.12);
  const double anyhow = stream.uniform(-pi, pi);
  path.anchor.yaw = follows_road ? along : anyhow;
  const bool stands = stream.chance(motion.standing);
  const double speed = stream.uniform(motion.slowest, motion.fastest), turn = motion.turn * stream.normal();
  if (!stands) {
    path.speed = speed;
    path.yaw_rate = std::clamp(turn, -0.4, 0.4);
  }
  return path;
}

// How many labelled (or unlabelled) actors lie within the radius at each key frame.
struct Census {
  const WorldOptions& options;
  double lead;
  std::vector<std::int64_t> count;

  Census(const WorldOptions& world, double lead_seconds)
      : options(world), lead(lead_seconds), count(static_cast<std::size_t>(world.frames)) {}

  bool present(const Scene& scene, const Actor& actor, std::size_t frame) const {
    const double time = key_time(options, lead, static_cast<std::int64_t>(frame));
    const Pose a = actor.path.at(time), e = scene.ego.at(time);
    return std::hypot(a.x - e.x, a.y - e.y) < options.radius;
  }
  bool has_room(const Scene& scene, const Actor& actor, std::int64_t most) const {
    for (std::size_t frame = 0; frame < count.size(); ++frame)
      if (count[frame] >= most && present(scene, actor, frame)) return false;
    return true;
  }
  void add(const Scene& scene, const Actor& actor) {
    for (std::size_t frame = 0; frame < count.size(); ++frame) count[frame] += present(scene, actor, frame) ? 1 : 0;
  }
  std::size_t emptiest() const {
    return static_cast<std::size_t>(std::min_element(count.begin(), count.end()) - count.begin());
  }
  double mean() const {
    double sum = 0;
    for (const std::int64_t n : count) sum += static_cast<double>(n);
    return sum / static_cast<double>(count.size());
  }
};

ActorKind draw_kind(const WorldOptions& options, random::Stream& stream) {
  const double shares[] = {options.car_share, options.truck_share, options.pedestrian_share, options.cone_share};
  double left = stream.uniform() * (shares[0] + shares[1] + shares[2] + shares[3]);
  int kind = 0;
  while (kind < 3 && left >= shares[kind]) left -= shares[kind++];
  return static_cast<ActorKind>(kind);
}

// Places one actor near the car at the key frame with the fewest; false when no free place was found.
bool place_actor(Scene& scene, Actor actor, Census& census, std::int64_t most, random::Stream stream) {
  const double time = key_time(census.options, census.lead, static_cast<std::int64_t>(census.emptiest()));
  const Pose ego = scene.ego.at(time);
  for (int attempt = 0; attempt < kPlacementTries; ++attempt) {
    actor.path = draw_path(actor.kind, ego, stream);
    const double distance = census.options.radius * std::sqrt(stream.uniform()), angle = stream.uniform(-pi, pi);
    actor.path.anchor.x = ego.x + distance * std::cos(angle);
    actor.path.anchor.y = ego.y + distance * std::sin(angle);
    actor.path.anchor_time = time;
    if (!census.has_room(scene, actor, most) || collides(scene, actor)) continue;
    census.add(scene, actor);
    scene.actors.push_back(std::move(actor));
    return true;
  }
  return false;
}

void populate(Scene& scene, const WorldOptions& options, double lead, const random::Stream& stream) {
  random::Stream counts = stream.at("counts");
  const auto between = [&counts](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(counts.integer(static_cast<std::uint64_t>(high - low + 1)));
  };
  const std::int64_t objects = between(options.min_objects, options.max_objects);
  const std::int64_t bushes = between(0, options.max_bushes);
  Census labelled(options, lead), unlabelled(options, lead);
  for (std::uint64_t i = 0; i < kMaxActors; ++i) {
    const bool enough =
        labelled.mean() >= static_cast<double>(objects) && labelled.count[labelled.emptiest()] >= options.min_objects;
    if (enough || objects == 0) break;
    const random::Stream own = stream.at("actor").at(i);
    random::Stream kind = own.at("kind");
    place_actor(scene, make_actor(draw_kind(options, kind), options, scene.ground, own), labelled, options.max_objects,
                own.at("path"));
  }
  for (std::uint64_t i = 0; i < kMaxActors && unlabelled.mean() < static_cast<double>(bushes); ++i) {
    const random::Stream own = stream.at("bush").at(i);
    place_actor(scene, make_actor(ActorKind::kBush, options, scene.ground, own), unlabelled, options.max_bushes,
                own.at("path"));
  }
}

void draw_light(Scene& scene, bool is_dark, random::Stream stream) {
  scene.night = is_dark;
  const double night = stream.uniform(0.08, 0.2), day = stream.uniform(0.8, 1.1);
  scene.light = static_cast<float>(scene.night ? night : day);
  const double height = stream.uniform(0.45, 1.0), side = stream.uniform(-pi, pi);
  scene.sun = {static_cast<float>(std::cos(height) * std::cos(side)),
               static_cast<float>(std::cos(height) * std::sin(side)), static_cast<float>(std::sin(height))};
}

GroundLook draw_ground(random::Stream stream) {
  GroundLook ground;
  const auto gray = static_cast<float>(stream.uniform(0.28, 0.5));
  for (float& channel : ground.color) channel = gray * static_cast<float>(stream.uniform(0.9, 1.1));
  ground.lane_offset = static_cast<float>(stream.uniform(1.5, 2.0));
  const auto haze = static_cast<float>(stream.uniform(0.6, 0.9));
  ground.sky = {0.8F * haze, 0.9F * haze, haze};
  ground.skyline_seed = stream.bits64();
  return ground;
}

Path draw_drive(const WorldOptions& options, random::Stream stream) {
  Path ego;
  ego.anchor = {stream.uniform(200, 1800), stream.uniform(200, 1800), stream.uniform(-pi, pi)};
  const bool stands = stream.chance(options.standing_share);
  const double speed = stream.uniform(1, 7), turn = stream.uniform(-0.08, 0.08);
  if (!stands) {
    ego.speed = speed;
    ego.yaw_rate = turn;
  }
  return ego;
}

}  // namespace

void WorldOptions::validate() const {
  const auto refuse = [](const std::string& what) { throw std::invalid_argument("[world] " + what); };
  if (min_objects > max_objects)
    refuse("min_objects must be at most max_objects (" + std::to_string(max_objects) + "), got " +
           std::to_string(min_objects));
  constexpr double kAreaOfAnObject = 20;  // square metres: a car and the room to drive round it
  const double room = std::acos(-1.0) * radius * radius / kAreaOfAnObject;
  if (static_cast<double>(max_objects) > room)
    refuse("max_objects must be at most " + std::to_string(static_cast<std::int64_t>(room)) + " within a radius of " +
           std::to_string(radius) + " m, got " + std::to_string(max_objects));
  if (dark_share + camouflage_share > 1)
    refuse("dark_share + camouflage_share must be at most 1, got " + std::to_string(dark_share + camouflage_share));
  if (!(car_share + truck_share + pedestrian_share + cone_share > 0))
    refuse("the shares of the classes must not all be 0");
}

std::string_view category_of(ActorKind kind) {
  switch (kind) {
    case ActorKind::kCar:
      return "vehicle.car";
    case ActorKind::kTruck:
      return "vehicle.truck";
    case ActorKind::kPedestrian:
      return "human.pedestrian.adult";
    case ActorKind::kTrafficCone:
      return "movable_object.trafficcone";
    case ActorKind::kBush:
      break;
  }
  throw std::invalid_argument("[category_of] kind must be a labelled one, got a bush");
}

Pose Path::at(double seconds) const {
  const double elapsed = seconds - anchor_time, turned = yaw_rate * elapsed;
  // The chord of the arc; sin(x)/x stays exact for a straight line.
  const double half = turned / 2, shrink = std::abs(half) < 1e-9 ? 1 : std::sin(half) / half;
  const double chord = speed * elapsed * shrink;
  return {anchor.x + chord * std::cos(anchor.yaw + half), anchor.y + chord * std::sin(anchor.yaw + half),
          anchor.yaw + turned};
}

geometry::Box Actor::box_at(double seconds) const {
  const Pose pose = path.at(seconds);
  return {{pose.x, pose.y, height / 2}, length, width, height, pose.yaw};
}

bool is_night(double share, double offset, std::int64_t index) {
  const auto before = static_cast<double>(index);
  return std::floor((before + 1) * share + offset) > std::floor(before * share + offset);
}

Scene make_scene(const WorldOptions& options, double lead, bool night, const random::Stream& stream) {
  Scene scene;
  scene.duration = key_time(options, lead, options.frames - 1);
  scene.ego = draw_drive(options, stream.at("ego"));
  scene.ground = draw_ground(stream.at("ground"));
  scene.texture = std::make_shared<NoiseTile>(stream.at("noise"));
  draw_light(scene, night, stream.at("light"));
  populate(scene, options, lead, stream);
  return scene;
}

}  // namespace camber::simulation
