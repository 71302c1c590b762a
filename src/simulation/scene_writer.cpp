#include "simulation/scene_writer.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "camber/simulation/camera.h"
#include "camber/simulation/lidar.h"

namespace camber::simulation {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kFirstTimestamp = 1700000000000000;  // microseconds; scenes follow a minute apart
constexpr std::int64_t kSceneSpacing = 60000000;

double rounded(double value, double per_unit) {
  return std::round(value * per_unit) / per_unit;
}

geometry::Vector3 rounded_position(double x, double y, double z) {
  return {rounded(x, 1e4), rounded(y, 1e4), rounded(z, 1e4)};
}

geometry::Quaternion rounded_heading(double yaw) {
  const geometry::Quaternion q = geometry::Quaternion::from_yaw(std::remainder(yaw, 2 * 3.14159265358979323846));
  return {rounded(q.w, 1e7), 0, 0, rounded(q.z, 1e7)};
}

// Names sort as the actors are numbered, which is the order of their rows.
std::string object_name(std::size_t actor) {
  char name[24];
  std::snprintf(name, sizeof(name), "%06zu", actor);
  return name;
}

class SceneSimulation {
 public:
  SceneSimulation(const SimulationOptions& options, const ScenePosition& position, nuscenes::SceneWriter& writer)
      : options_(options),
        rig_(options.rig),
        position_(position),
        writer_(writer),
        lead_(lead_of(options.rig)),
        scene_(make_scene(options.world, lead_, position.night, position.stream.at("layout"))),
        annotated_(scene_.actors.size()) {}

  void write_frame(std::int64_t frame);
  std::string description_row() const;

 private:
  static double lead_of(const RigOptions& rig) {
    double lead = static_cast<double>(rig.lidar.sweeps - 1) * rig.lidar.sweep_interval;
    for (const CameraOptions& camera : rig.cameras) lead = std::max(lead, camera.delay);
    return lead * 1e-3;
  }
  std::int64_t timestamp(double seconds) const {
    return kFirstTimestamp + position_.number * kSceneSpacing + std::llround(seconds * 1e6);
  }
  nuscenes::WrittenPose pose_at(double seconds) const {
    const Pose ego = scene_.ego.at(seconds);
    return {.translation = rounded_position(ego.x, ego.y, 0), .rotation = rounded_heading(ego.yaw)};
  }
  std::vector<LidarReturn> write_sweep(std::int64_t frame, std::int64_t back, double key_seconds);
  void write_images(std::int64_t frame, double key_seconds, std::vector<double>& visible,
                    std::vector<double>& unoccluded);
  void annotate(double seconds, const std::vector<LidarReturn>& points, const std::vector<double>& visible,
                const std::vector<double>& unoccluded);

  const SimulationOptions& options_;
  const RigOptions& rig_;
  const ScenePosition& position_;
  nuscenes::SceneWriter& writer_;
  double lead_;
  Scene scene_;
  std::vector<bool> annotated_;  // per actor
};

std::vector<LidarReturn> SceneSimulation::write_sweep(std::int64_t frame, std::int64_t back, double key_seconds) {
  const double seconds = key_seconds - static_cast<double>(back) * rig_.lidar.sweep_interval * 1e-3;
  const random::Stream stream =
      position_.stream.at("lidar").at(static_cast<std::uint64_t>(frame * rig_.lidar.sweeps + back));
  std::vector<LidarReturn> points = sweep(scene_, rig_.lidar, seconds, back == 0, stream);
  std::vector<float> values;
  values.reserve(points.size() * 5);
  for (const LidarReturn& p : points)
    values.insert(values.end(), {p.x, p.y, p.z, p.intensity, static_cast<float>(p.ring)});
  writer_.add_points(rig_.lidar.name, timestamp(seconds), pose_at(seconds), values, back == 0);
  return points;
}

void SceneSimulation::write_images(std::int64_t frame, double key_seconds, std::vector<double>& visible,
                                   std::vector<double>& unoccluded) {
  for (std::size_t i = 0; i < rig_.cameras.size(); ++i) {
    const CameraOptions& camera = rig_.cameras[i];
    const double seconds = key_seconds - camera.delay * 1e-3;
    const random::Stream stream = position_.stream.at("camera").at(i).at(static_cast<std::uint64_t>(frame));
    const View view = render(scene_, camera, seconds, options_.world.image_noise, rig_.samples_per_side, stream);
    for (std::size_t actor = 0; actor < scene_.actors.size(); ++actor) {
      visible[actor] += view.visible[actor];
      unoccluded[actor] += view.unoccluded[actor];
    }
    writer_.add_image(camera.name, timestamp(seconds), pose_at(seconds), view.image.rgb);
  }
}

void SceneSimulation::annotate(double seconds, const std::vector<LidarReturn>& points,
                               const std::vector<double>& visible, const std::vector<double>& unoccluded) {
  const geometry::RigidTransform to_world = ego_to_world(scene_, seconds) * rig_.lidar.to_ego();
  std::vector<std::int64_t> count(scene_.actors.size());
  std::vector<geometry::Box> boxes;
  boxes.reserve(scene_.actors.size());
  for (const Actor& actor : scene_.actors) boxes.push_back(actor.box_at(seconds));
  for (const LidarReturn& point : points) {
    if (point.actor < 0) continue;
    const auto actor = static_cast<std::size_t>(point.actor);
    if (boxes[actor].contains(to_world.apply({point.x, point.y, point.z}))) ++count[actor];
  }
  for (std::size_t i = 0; i < scene_.actors.size(); ++i) {
    if (!scene_.actors[i].labelled()) continue;
    if (count[i] < options_.world.min_points && visible[i] < options_.world.min_pixels) continue;
    const double unhidden = unoccluded[i] > 0 ? visible[i] / unoccluded[i] : 0;
    const double share = unhidden > 0 ? unhidden * share_in_images(scene_, rig_, boxes[i], seconds) : 0;
    const Actor& actor = scene_.actors[i];
    const bool moves = actor.path.speed > 0;
    nuscenes::WrittenBox box{.object = object_name(i),
                             .category = std::string(category_of(actor.kind)),
                             .center = rounded_position(boxes[i].center[0], boxes[i].center[1], boxes[i].center[2]),
                             .width = rounded(boxes[i].width, 1e4),
                             .length = rounded(boxes[i].length, 1e4),
                             .height = rounded(boxes[i].height, 1e4),
                             .rotation = rounded_heading(boxes[i].yaw),
                             .visibility = share < 0.4   ? 1
                                           : share < 0.6 ? 2
                                           : share < 0.8 ? 3
                                                         : 4,
                             .lidar_points = count[i]};
    if (actor.kind <= ActorKind::kTruck) box.attributes = {moves ? "vehicle.moving" : "vehicle.parked"};
    if (actor.kind == ActorKind::kPedestrian) box.attributes = {moves ? "pedestrian.moving" : "pedestrian.standing"};
    writer_.add_box(box);
    annotated_[i] = true;
  }
}

void SceneSimulation::write_frame(std::int64_t frame) {
  const double seconds = key_time(options_.world, lead_, frame);
  writer_.begin_frame(timestamp(seconds));
  std::vector<LidarReturn> points;
  for (std::int64_t back = rig_.lidar.sweeps - 1; back >= 0; --back) points = write_sweep(frame, back, seconds);
  std::vector<double> visible(scene_.actors.size()), unoccluded(scene_.actors.size());
  write_images(frame, seconds, visible, unoccluded);
  annotate(seconds, points, visible, unoccluded);
}

std::string SceneSimulation::description_row() const {
  const nuscenes::TokenMaker tokens = scene_tokens(rig_, position_.stream);
  Json objects = Json::array();
  for (std::size_t i = 0; i < scene_.actors.size(); ++i) {
    if (!annotated_[i]) continue;
    char seed[20];
    std::snprintf(seed, sizeof(seed), "%016llx", static_cast<unsigned long long>(scene_.actors[i].texture_seed));
    objects.push_back({{"instance_token", tokens("instance", object_name(i), 0)},
                       {"texture_seed", seed},
                       {"dark", scene_.actors[i].dark},
                       {"camouflaged", scene_.actors[i].camouflaged}});
  }
  const Json row = {{"scene", position_.name()},
                    {"split", position_.split},
                    {"night", scene_.night},
                    {"light", rounded(scene_.light, 1e4)},
                    {"instances", objects}};
  return row.dump();
}

}  // namespace

std::string ScenePosition::name() const {
  char text[32];
  std::snprintf(text, sizeof(text), "scene-%04lld", static_cast<long long>(number));
  return text;
}

nuscenes::TokenMaker scene_tokens(const RigOptions& rig, const random::Stream& scene) {
  std::map<std::string, std::uint64_t> channels{{rig.lidar.name, 0}};
  for (std::size_t i = 0; i < rig.cameras.size(); ++i) channels[rig.cameras[i].name] = i + 1;
  return [channels, scene](std::string_view kind, const std::string& name, std::uint64_t index) {
    if (kind == "sample_data") index |= channels.at(name) << 32;
    if (kind == "annotation") index = index << 32 | std::stoull(name);
    if (kind == "instance") index = std::stoull(name);
    return nuscenes::token_of(scene.at(kind).at(index));
  };
}

std::string write_scene(const SimulationOptions& options, const ScenePosition& position, nuscenes::SceneWriter& writer,
                        const std::function<void(std::int64_t)>& frame_done) {
  SceneSimulation simulation(options, position, writer);
  for (std::int64_t frame = 0; frame < options.world.frames; ++frame) {
    simulation.write_frame(frame);
    if (frame_done) frame_done(1);
  }
  writer.finish();
  return simulation.description_row();
}

}  // namespace camber::simulation
