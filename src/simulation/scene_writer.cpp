#include "simulation/scene_writer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "camber/drawing/jpeg.h"
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

Json position_json(double x, double y, double z) {
  return Json::array({rounded(x, 1e4), rounded(y, 1e4), rounded(z, 1e4)});
}

Json heading_json(double yaw) {
  const geometry::Quaternion q = geometry::Quaternion::from_yaw(std::remainder(yaw, 2 * 3.14159265358979323846));
  return Json::array({rounded(q.w, 1e7), 0.0, 0.0, rounded(q.z, 1e7)});
}

void append(std::string& rows, const Json& row) {
  if (!rows.empty()) rows += ",\n";
  rows += row.dump();
}

// Without the flush of storage::write_file, which would cost more than the ray casting: the tables that name these
// files appear last.
std::int64_t write_file(const std::filesystem::path& path, const char* data, std::size_t size) {
  std::ofstream file(path, std::ios::binary);
  file.write(data, static_cast<std::streamsize>(size));
  file.close();
  if (!file) throw std::runtime_error("[simulate] " + path.string() + " could not be written");
  return static_cast<std::int64_t>(size);
}

// One row of sample_data whose neighbours are filled in once the scene is complete.
struct SampleData {
  std::string token{}, sample_token{}, calibration{}, filename{}, format{};
  double seconds = 0;
  std::int64_t width = 0, height = 0;
  bool key_frame = true;
};

struct Annotation {
  std::string token{}, sample_token{};
  double seconds = 0;
  std::int64_t points = 0;
  int visibility = 1;
};

class SceneWriter {
 public:
  SceneWriter(const SimulationOptions& options, const SharedTokens& shared, const ScenePosition& position,
              const std::filesystem::path& out)
      : options_(options),
        rig_(options.rig),
        shared_(shared),
        position_(position),
        out_(out),
        lead_(lead_of(options.rig)),
        scene_(make_scene(options.world, lead_, position.night, position.stream.at("layout"))),
        channels_(rig_.cameras.size() + 1),
        annotations_(scene_.actors.size()) {
    char name[32];
    std::snprintf(name, sizeof(name), "scene-%04lld", static_cast<long long>(position.number));
    name_ = name;
  }

  void write_frame(std::int64_t frame);
  SceneRows rows();

 private:
  static double lead_of(const RigOptions& rig) {
    double lead = static_cast<double>(rig.lidar.sweeps - 1) * rig.lidar.sweep_interval;
    for (const CameraOptions& camera : rig.cameras) lead = std::max(lead, camera.delay);
    return lead * 1e-3;
  }
  std::int64_t timestamp(double seconds) const {
    return kFirstTimestamp + position_.number * kSceneSpacing + std::llround(seconds * 1e6);
  }
  std::string token(const char* kind, std::uint64_t index) const {
    return token_of(position_.stream.at(kind).at(index));
  }
  SampleData& add(std::size_t channel, const std::string& name, const char* format, double seconds, bool key_frame);
  std::vector<LidarReturn> write_sweep(std::int64_t frame, std::int64_t back, double key_seconds);
  void write_images(std::int64_t frame, double key_seconds, std::vector<double>& visible,
                    std::vector<double>& unoccluded);
  void annotate(std::int64_t frame, double seconds, const std::vector<LidarReturn>& points,
                const std::vector<double>& visible, const std::vector<double>& unoccluded);
  void add_rows(const std::vector<SampleData>& channel);
  void add_instance(std::size_t index);

  const SimulationOptions& options_;
  const RigOptions& rig_;
  const SharedTokens& shared_;
  const ScenePosition& position_;
  const std::filesystem::path& out_;
  double lead_;
  Scene scene_;
  std::string name_;
  std::string sample_token_;
  std::vector<std::string> samples_;
  std::vector<std::vector<SampleData>> channels_;     // the LiDAR's first, then the cameras'
  std::vector<std::vector<Annotation>> annotations_;  // per actor
  SceneRows rows_;
};

SampleData& SceneWriter::add(std::size_t channel, const std::string& name, const char* format, double seconds,
                             bool key_frame) {
  std::vector<SampleData>& list = channels_[channel];
  SampleData data{.sample_token = sample_token_, .format = format, .seconds = seconds, .key_frame = key_frame};
  data.token = token("sample_data", channel << 32 | list.size());
  data.filename = std::string(key_frame ? "samples/" : "sweeps/") + name + "/simulated-" + position_.split + "-" +
                  name_ + "__" + name + "__" + std::to_string(timestamp(seconds)) +
                  (std::string_view(format) == "jpg" ? ".jpg" : ".pcd.bin");
  list.push_back(std::move(data));
  return list.back();
}

std::vector<LidarReturn> SceneWriter::write_sweep(std::int64_t frame, std::int64_t back, double key_seconds) {
  const double seconds = key_seconds - static_cast<double>(back) * rig_.lidar.sweep_interval * 1e-3;
  const random::Stream stream =
      position_.stream.at("lidar").at(static_cast<std::uint64_t>(frame * rig_.lidar.sweeps + back));
  std::vector<LidarReturn> points = sweep(scene_, rig_.lidar, seconds, back == 0, stream);
  std::vector<float> values;
  values.reserve(points.size() * 5);
  for (const LidarReturn& p : points)
    values.insert(values.end(), {p.x, p.y, p.z, p.intensity, static_cast<float>(p.ring)});
  SampleData& data = add(0, rig_.lidar.name, "pcd", seconds, back == 0);
  data.calibration = shared_.lidar;
  rows_.bytes +=
      write_file(out_ / data.filename, reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  rows_.points += static_cast<std::int64_t>(points.size());
  return points;
}

void SceneWriter::write_images(std::int64_t frame, double key_seconds, std::vector<double>& visible,
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
    SampleData& data = add(i + 1, camera.name, "jpg", seconds, true);
    data.calibration = shared_.cameras[i];
    data.width = camera.width;
    data.height = camera.height;
    const std::vector<std::uint8_t> file = drawing::encode_jpeg(view.image.rgb.data(), camera.width, camera.height,
                                                                static_cast<int>(options_.world.jpeg_quality));
    rows_.bytes += write_file(out_ / data.filename, reinterpret_cast<const char*>(file.data()), file.size());
  }
}

void SceneWriter::annotate(std::int64_t frame, double seconds, const std::vector<LidarReturn>& points,
                           const std::vector<double>& visible, const std::vector<double>& unoccluded) {
  const geometry::RigidTransform to_world = ego_to_world(scene_, seconds) * rig_.lidar.to_ego();
  std::vector<std::int64_t> count(scene_.actors.size());
  std::vector<geometry::Box> boxes;
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
    annotations_[i].push_back({.token = token("annotation", static_cast<std::uint64_t>(frame) << 32 | i),
                               .sample_token = sample_token_,
                               .seconds = seconds,
                               .points = count[i],
                               .visibility = share < 0.4   ? 1
                                             : share < 0.6 ? 2
                                             : share < 0.8 ? 3
                                                           : 4});
  }
}

void SceneWriter::write_frame(std::int64_t frame) {
  const double seconds = key_time(options_.world, lead_, frame);
  sample_token_ = token("sample", static_cast<std::uint64_t>(frame));
  samples_.push_back(sample_token_);
  std::vector<LidarReturn> points;
  for (std::int64_t back = rig_.lidar.sweeps - 1; back >= 0; --back) points = write_sweep(frame, back, seconds);
  std::vector<double> visible(scene_.actors.size()), unoccluded(scene_.actors.size());
  write_images(frame, seconds, visible, unoccluded);
  annotate(frame, seconds, points, visible, unoccluded);
}

void SceneWriter::add_rows(const std::vector<SampleData>& channel) {
  for (std::size_t i = 0; i < channel.size(); ++i) {
    const SampleData& d = channel[i];
    const Pose ego = scene_.ego.at(d.seconds);
    append(rows_.ego_pose, {{"token", d.token},
                            {"timestamp", timestamp(d.seconds)},
                            {"rotation", heading_json(ego.yaw)},
                            {"translation", position_json(ego.x, ego.y, 0)}});
    append(rows_.sample_data, {{"token", d.token},
                               {"sample_token", d.sample_token},
                               {"ego_pose_token", d.token},
                               {"calibrated_sensor_token", d.calibration},
                               {"timestamp", timestamp(d.seconds)},
                               {"fileformat", d.format},
                               {"is_key_frame", d.key_frame},
                               {"height", d.height},
                               {"width", d.width},
                               {"filename", d.filename},
                               {"prev", i == 0 ? "" : channel[i - 1].token},
                               {"next", i + 1 == channel.size() ? "" : channel[i + 1].token}});
  }
}

void SceneWriter::add_instance(std::size_t index) {
  const std::vector<Annotation>& seen = annotations_[index];
  if (seen.empty()) return;
  const Actor& actor = scene_.actors[index];
  const std::string instance = token("instance", index);
  Json attributes = Json::array();
  const bool moves = actor.path.speed > 0;
  if (actor.kind <= ActorKind::kTruck) attributes.push_back(moves ? shared_.vehicle_moving : shared_.vehicle_parked);
  if (actor.kind == ActorKind::kPedestrian)
    attributes.push_back(moves ? shared_.pedestrian_moving : shared_.pedestrian_standing);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const geometry::Box box = actor.box_at(seen[i].seconds);
    append(rows_.sample_annotation, {{"token", seen[i].token},
                                     {"sample_token", seen[i].sample_token},
                                     {"instance_token", instance},
                                     {"visibility_token", std::to_string(seen[i].visibility)},
                                     {"attribute_tokens", attributes},
                                     {"translation", position_json(box.center[0], box.center[1], box.center[2])},
                                     {"size", position_json(box.width, box.length, box.height)},
                                     {"rotation", heading_json(box.yaw)},
                                     {"prev", i == 0 ? "" : seen[i - 1].token},
                                     {"next", i + 1 == seen.size() ? "" : seen[i + 1].token},
                                     {"num_lidar_pts", seen[i].points},
                                     {"num_radar_pts", 0}});
  }
  append(rows_.instance, {{"token", instance},
                          {"category_token", shared_.categories[static_cast<std::size_t>(actor.kind)]},
                          {"nbr_annotations", seen.size()},
                          {"first_annotation_token", seen.front().token},
                          {"last_annotation_token", seen.back().token}});
  rows_.annotations += static_cast<std::int64_t>(seen.size());
  ++rows_.instances;
}

SceneRows SceneWriter::rows() {
  const std::string scene_token = token("scene", 0);
  for (const auto& channel : channels_) add_rows(channel);
  for (std::size_t i = 0; i < scene_.actors.size(); ++i) add_instance(i);
  for (std::size_t i = 0; i < samples_.size(); ++i)
    append(rows_.sample, {{"token", samples_[i]},
                          {"timestamp", timestamp(key_time(options_.world, lead_, static_cast<std::int64_t>(i)))},
                          {"prev", i == 0 ? "" : samples_[i - 1]},
                          {"next", i + 1 == samples_.size() ? "" : samples_[i + 1]},
                          {"scene_token", scene_token}});
  append(rows_.scene, {{"token", scene_token},
                       {"log_token", position_.log_token},
                       {"nbr_samples", samples_.size()},
                       {"first_sample_token", samples_.front()},
                       {"last_sample_token", samples_.back()},
                       {"name", name_},
                       {"description", scene_.night ? "simulated, night" : "simulated, day"}});
  Json objects = Json::array();
  for (std::size_t i = 0; i < scene_.actors.size(); ++i) {
    if (annotations_[i].empty()) continue;
    char seed[20];
    std::snprintf(seed, sizeof(seed), "%016llx", static_cast<unsigned long long>(scene_.actors[i].texture_seed));
    objects.push_back({{"instance_token", token("instance", i)},
                       {"texture_seed", seed},
                       {"dark", scene_.actors[i].dark},
                       {"camouflaged", scene_.actors[i].camouflaged}});
  }
  append(rows_.simulation, {{"scene", name_},
                            {"split", position_.split},
                            {"night", scene_.night},
                            {"light", rounded(scene_.light, 1e4)},
                            {"instances", objects}});
  return std::move(rows_);
}

}  // namespace

std::string token_of(random::Stream stream) {
  char text[33];
  const std::uint64_t high = stream.bits64(), low = stream.bits64();
  std::snprintf(text, sizeof(text), "%016llx%016llx", static_cast<unsigned long long>(high),
                static_cast<unsigned long long>(low));
  return text;
}

SceneRows write_scene(const SimulationOptions& options, const SharedTokens& shared, const ScenePosition& position,
                      const std::filesystem::path& out, const std::function<void(std::int64_t)>& frame_done) {
  SceneWriter writer(options, shared, position, out);
  for (std::int64_t frame = 0; frame < options.world.frames; ++frame) {
    writer.write_frame(frame);
    if (frame_done) frame_done(1);
  }
  return writer.rows();
}

}  // namespace camber::simulation
