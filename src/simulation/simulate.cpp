#include "camber/simulation/simulate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "camber/drawing/canvas.h"
#include "camber/storage/atomic_file.h"
#include "camber/threads/tasks.h"
#include "simulation/scene_writer.h"

namespace camber::simulation {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

struct SharedTables {
  Json sensor = Json::array(), calibrated_sensor = Json::array(), category = Json::array(), attribute = Json::array(),
       visibility = Json::array(), log = Json::array(), map = Json::array();
  SharedTokens tokens{};
  std::array<std::string, 3> logs{};
  std::string map_file{};
};

Json matrix_json(const geometry::Matrix3& m) {
  return Json::array({{m[0], m[1], m[2]}, {m[3], m[4], m[5]}, {m[6], m[7], m[8]}});
}

std::string add_sensor(SharedTables& tables, const std::string& channel, const char* modality,
                       const geometry::Quaternion& rotation, const geometry::Vector3& position, const Json& intrinsic,
                       const random::Stream& stream) {
  const std::string sensor = token_of(stream.at("sensor").at(channel));
  std::string calibration = token_of(stream.at("calibrated_sensor").at(channel));
  tables.sensor.push_back({{"token", sensor}, {"channel", channel}, {"modality", modality}});
  tables.calibrated_sensor.push_back({{"token", calibration},
                                      {"sensor_token", sensor},
                                      {"translation", position},
                                      {"rotation", {rotation.w, rotation.x, rotation.y, rotation.z}},
                                      {"camera_intrinsic", intrinsic}});
  return calibration;
}

void add_sensors(SharedTables& tables, const RigOptions& rig, const random::Stream& stream) {
  const LidarOptions& lidar = rig.lidar;
  tables.tokens.lidar =
      add_sensor(tables, lidar.name, "lidar", lidar.rotation(), {lidar.x, lidar.y, lidar.z}, Json::array(), stream);
  for (const CameraOptions& camera : rig.cameras)
    tables.tokens.cameras.push_back(add_sensor(tables, camera.name, "camera", camera.rotation(),
                                               {camera.x, camera.y, camera.z}, matrix_json(camera.intrinsic()),
                                               stream));
}

void add_vocabulary(SharedTables& tables, const random::Stream& stream) {
  for (const ActorKind kind : {ActorKind::kCar, ActorKind::kTruck, ActorKind::kPedestrian, ActorKind::kTrafficCone}) {
    const std::string name(category_of(kind));
    tables.tokens.categories.push_back(token_of(stream.at("category").at(name)));
    tables.category.push_back(
        {{"token", tables.tokens.categories.back()}, {"name", name}, {"description", "simulated " + name}});
  }
  const auto attribute = [&](const char* name) {
    std::string token = token_of(stream.at("attribute").at(name));
    tables.attribute.push_back({{"token", token}, {"name", name}, {"description", name}});
    return token;
  };
  tables.tokens.vehicle_moving = attribute("vehicle.moving");
  attribute("vehicle.stopped");
  tables.tokens.vehicle_parked = attribute("vehicle.parked");
  tables.tokens.pedestrian_moving = attribute("pedestrian.moving");
  tables.tokens.pedestrian_standing = attribute("pedestrian.standing");
  constexpr const char* kLevels[] = {"v0-40", "v40-60", "v60-80", "v80-100"};
  for (int i = 0; i < 4; ++i)
    tables.visibility.push_back({{"token", std::to_string(i + 1)},
                                 {"level", kLevels[i]},
                                 {"description", std::string("visibility of whole object, ") + kLevels[i]}});
}

void add_logs(SharedTables& tables, const SimulationOptions& options, const random::Stream& stream) {
  Json log_tokens = Json::array();
  const auto splits = options.splits();
  for (std::size_t i = 0; i < splits.size(); ++i) {
    tables.logs[i] = token_of(stream.at("log").at(splits[i].name));
    tables.log.push_back({{"token", tables.logs[i]},
                          {"logfile", std::string("simulated-") + splits[i].name},
                          {"vehicle", "simulated"},
                          {"date_captured", "2023-11-14"},
                          {"location", "simulated-plain"}});
    log_tokens.push_back(tables.logs[i]);
  }
  const std::string token = token_of(stream.at("map"));
  tables.map_file = "maps/" + token + ".png";
  tables.map.push_back(
      {{"token", token}, {"log_tokens", log_tokens}, {"category", "semantic_prior"}, {"filename", tables.map_file}});
}

// The plain has no map to show, but readers want the file: a square of white.
std::int64_t write_map(const fs::path& path) {
  constexpr int kSide = 16;
  const std::vector<std::uint8_t> white(std::size_t{kSide} * kSide * 3, 255);
  const std::string bytes = drawing::encode_png(white, kSide, kSide);
  storage::write_file(path, bytes);
  return static_cast<std::int64_t>(bytes.size());
}

void make_folders(const RigOptions& rig, const fs::path& out) {
  fs::create_directories(out / "maps");
  fs::create_directories(out / "samples" / rig.lidar.name);
  fs::create_directories(out / "sweeps" / rig.lidar.name);
  for (const CameraOptions& camera : rig.cameras) fs::create_directories(out / "samples" / camera.name);
}

// Each split under two names: the devkit takes "train", "val" and "test" for the official ones, whatever the file says.
Json splits_json(const SimulationOptions& options) {
  Json splits = Json::object();
  std::int64_t number = 0;
  for (const auto& split : options.splits()) {
    Json names = Json::array();
    for (std::int64_t i = 0; i < split.scenes; ++i) {
      char name[32];
      std::snprintf(name, sizeof(name), "scene-%04lld", static_cast<long long>(++number));
      names.push_back(name);
    }
    splits[split.name] = names;
    splits[std::string("simulated_") + split.name] = names;
  }
  return splits;
}

void write_tables(const SimulationOptions& options, std::uint64_t seed, const SharedTables& shared,
                  const std::vector<SceneRows>& scenes, const fs::path& out) {
  const fs::path folder = out / (options.version + ".partial");
  fs::remove_all(folder);
  fs::create_directories(folder);
  const std::pair<const char*, std::string SceneRows::*> tables[] = {
      {"scene", &SceneRows::scene},
      {"sample", &SceneRows::sample},
      {"sample_data", &SceneRows::sample_data},
      {"ego_pose", &SceneRows::ego_pose},
      {"instance", &SceneRows::instance},
      {"sample_annotation", &SceneRows::sample_annotation}};
  const auto joined = [&scenes](std::string SceneRows::*rows) {
    std::string text = "[\n";
    for (const SceneRows& scene : scenes) {
      if ((scene.*rows).empty()) continue;
      if (text.size() > 2) text += ",\n";
      text += scene.*rows;
    }
    return text + "\n]\n";
  };
  for (const auto& [name, rows] : tables) storage::write_file(folder / (std::string(name) + ".json"), joined(rows));
  const std::pair<const char*, const Json*> small[] = {{"sensor", &shared.sensor},
                                                       {"calibrated_sensor", &shared.calibrated_sensor},
                                                       {"category", &shared.category},
                                                       {"attribute", &shared.attribute},
                                                       {"visibility", &shared.visibility},
                                                       {"log", &shared.log},
                                                       {"map", &shared.map}};
  for (const auto& [name, rows] : small)
    storage::write_file(folder / (std::string(name) + ".json"), rows->dump(1) + "\n");
  storage::write_file(folder / "splits.json", splits_json(options).dump(1) + "\n");
  storage::write_file(folder / "simulation.json",
                      "{\"seed\": " + std::to_string(seed) + ", \"scenes\": " + joined(&SceneRows::simulation) + "}\n");
  fs::rename(folder, out / options.version);
}

std::vector<ScenePosition> indices_of(const SimulationOptions& options, const SharedTables& shared,
                                      const random::Stream& stream) {
  std::vector<ScenePosition> positions;
  const auto splits = options.splits();
  for (std::size_t s = 0; s < splits.size(); ++s) {
    const random::Stream split = stream.at(splits[s].name);
    const double offset = split.at("night").uniform();
    for (std::int64_t i = 0; i < splits[s].scenes; ++i)
      positions.push_back({.split = splits[s].name,
                           .number = static_cast<std::int64_t>(positions.size()) + 1,
                           .stream = split.at(static_cast<std::uint64_t>(i)),
                           .night = is_night(options.world.night_share, offset, i),
                           .log_token = shared.logs[s]});
  }
  return positions;
}

}  // namespace

void SimulationOptions::validate() const {
  world.validate();
  rig.validate();
  if (scenes < 1 || scenes > 9999)
    throw std::invalid_argument("[simulate] scenes must be 1 to 9999, got " + std::to_string(scenes));
  if (version.empty() || version.find('/') != std::string::npos || version.front() == '.')
    throw std::invalid_argument("[simulate] version must be the name of a folder, got '" + version + "'");
  if (val_share + test_share >= 1)
    throw std::invalid_argument("[simulate] val_share + test_share must be below 1, got " +
                                std::to_string(val_share + test_share));
}

std::array<SimulationOptions::Split, 3> SimulationOptions::splits() const {
  const auto part = [this](double share) {
    const std::int64_t rounded = std::llround(share * static_cast<double>(scenes));
    return share > 0 && scenes >= 3 ? std::max<std::int64_t>(1, rounded) : rounded;
  };
  const std::int64_t test = std::min(part(test_share), scenes - 1);
  const std::int64_t val = std::min(part(val_share), scenes - 1 - test);
  return {{{"train", scenes - val - test}, {"val", val}, {"test", test}}};
}

SimulationSummary simulate(const SimulationOptions& options, std::uint64_t seed, int threads, const fs::path& out,
                           const std::function<void(std::int64_t)>& frame_done) {
  options.validate();
  if (threads < 1) throw std::invalid_argument("[simulate] threads must be at least 1, got " + std::to_string(threads));
  if (fs::exists(out / options.version))
    throw std::invalid_argument("[simulate] out must not hold " + options.version + " already, got " + out.string());
  const random::Stream stream(seed, "simulation");
  SharedTables shared;
  add_sensors(shared, options.rig, stream);
  add_vocabulary(shared, stream);
  add_logs(shared, options, stream);
  make_folders(options.rig, out);

  const std::vector<ScenePosition> positions = indices_of(options, shared, stream);
  std::vector<SceneRows> scenes(positions.size());
  threads::for_each_task(positions.size(), threads, [&](std::size_t i) {
    scenes[i] = write_scene(options, shared.tokens, positions[i], out, frame_done);
  });

  SimulationSummary summary{.scenes = options.scenes, .frames = options.scenes * options.world.frames};
  summary.bytes = write_map(out / shared.map_file);
  write_tables(options, seed, shared, scenes, out);
  for (const SceneRows& rows : scenes) {
    summary.annotations += rows.annotations;
    summary.instances += rows.instances;
    summary.points += rows.points;
    summary.bytes += rows.bytes;
  }
  for (const auto& file : fs::directory_iterator(out / options.version))
    summary.bytes += static_cast<std::int64_t>(file.file_size());
  return summary;
}

}  // namespace camber::simulation
