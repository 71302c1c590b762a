#include "camber/simulation/simulate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

#include "camber/storage/file.h"
#include "camber/threads/tasks.h"
#include "simulation/scene_writer.h"

namespace camber::simulation {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLogPrefix = "simulated-";

std::vector<nuscenes::RigSensor> sensors_of(const RigOptions& rig) {
  const auto numbers = [](const geometry::Quaternion& q) { return std::vector<double>{q.w, q.x, q.y, q.z}; };
  std::vector<nuscenes::RigSensor> sensors{{.channel = rig.lidar.name,
                                            .modality = nuscenes::Modality::kLidar,
                                            .translation = {rig.lidar.x, rig.lidar.y, rig.lidar.z},
                                            .rotation = numbers(rig.lidar.rotation())}};
  for (const CameraOptions& camera : rig.cameras) {
    const geometry::Matrix3 intrinsic = camera.intrinsic();
    sensors.push_back({.channel = camera.name,
                       .modality = nuscenes::Modality::kCamera,
                       .translation = {camera.x, camera.y, camera.z},
                       .rotation = numbers(camera.rotation()),
                       .intrinsic = {intrinsic.begin(), intrinsic.end()},
                       .width = camera.width,
                       .height = camera.height});
  }
  return sensors;
}

nuscenes::DatasetWriterOptions writer_options(const SimulationOptions& options, const random::Stream& stream) {
  nuscenes::DatasetWriterOptions writer{.version = options.version,
                                        .sensors = sensors_of(options.rig),
                                        .location = "simulated-plain",
                                        .vehicle = "simulated",
                                        .date = "2023-11-14",
                                        .logs = {},
                                        .jpeg_quality = static_cast<int>(options.world.jpeg_quality)};
  for (const ActorKind kind : {ActorKind::kCar, ActorKind::kTruck, ActorKind::kPedestrian, ActorKind::kTrafficCone}) {
    const std::string name(category_of(kind));
    writer.categories.emplace_back(name, "simulated " + name);
  }
  for (const char* name :
       {"vehicle.moving", "vehicle.stopped", "vehicle.parked", "pedestrian.moving", "pedestrian.standing"})
    writer.attributes.emplace_back(name, name);
  for (const auto& split : options.splits()) writer.logs.push_back(std::string(kLogPrefix) + split.name);
  writer.tokens = [stream](std::string_view kind, const std::string& name, std::uint64_t) {
    if (kind == "map") return nuscenes::token_of(stream.at(kind));
    return nuscenes::token_of(stream.at(kind).at(kind == "log" ? name.substr(kLogPrefix.size()) : name));
  };
  return writer;
}

std::vector<ScenePosition> indices_of(const SimulationOptions& options, const random::Stream& stream) {
  std::vector<ScenePosition> positions;
  const auto splits = options.splits();
  for (std::size_t s = 0; s < splits.size(); ++s) {
    const random::Stream split = stream.at(splits[s].name);
    const double offset = split.at("night").uniform();
    for (std::int64_t i = 0; i < splits[s].scenes; ++i)
      positions.push_back({.split = splits[s].name,
                           .split_number = s,
                           .number = static_cast<std::int64_t>(positions.size()) + 1,
                           .stream = split.at(static_cast<std::uint64_t>(i)),
                           .night = is_night(options.world.night_share, offset, i)});
  }
  return positions;
}

// Each split under two names: the devkit takes "train", "val" and "test" for the official ones, whatever the file says.
std::vector<std::pair<std::string, std::vector<std::string>>> split_lists(const SimulationOptions& options,
                                                                          const std::vector<ScenePosition>& positions) {
  std::vector<std::pair<std::string, std::vector<std::string>>> lists;
  for (const auto& split : options.splits()) {
    std::vector<std::string> names;
    for (const ScenePosition& position : positions)
      if (position.split == split.name) names.push_back(position.name());
    lists.emplace_back(split.name, names);
    lists.emplace_back(std::string("simulated_") + split.name, std::move(names));
  }
  return lists;
}

// What no table of the schema has a field for.
std::string simulation_json(std::uint64_t seed, const std::vector<std::string>& rows) {
  std::string text = "{\"seed\": " + std::to_string(seed) + ", \"scenes\": [\n";
  for (std::size_t i = 0; i < rows.size(); ++i) text += (i == 0 ? "" : ",\n") + rows[i];
  return text + "\n]\n}\n";
}

}  // namespace

void SimulationOptions::validate() const {
  world.validate();
  rig.validate();
  if (scenes < 1 || scenes > 9999)
    throw std::invalid_argument("[simulate] scenes must be 1 to 9999, got " + std::to_string(scenes));
  if (version.empty() || version.find('/') != std::string::npos || version.front() == '.')
    throw std::invalid_argument("[simulate] version must be the name of a folder, got '" + version + "'");
  if (static_cast<double>(rig.lidar.sweeps - 1) * rig.lidar.sweep_interval >= world.frame_interval)
    throw std::invalid_argument("[simulate] rig.lidar.sweeps must fit between two key frames, got " +
                                std::to_string(rig.lidar.sweeps) + " sweeps " +
                                std::to_string(rig.lidar.sweep_interval) + " ms apart in " +
                                std::to_string(world.frame_interval) + " ms");
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
  storage::check_new_folder(out, "simulate", "out");
  const random::Stream stream(seed, "simulation");
  nuscenes::DatasetWriter writer(out, writer_options(options, stream));
  const std::vector<ScenePosition> positions = indices_of(options, stream);
  std::vector<nuscenes::SceneWriter> scenes;
  scenes.reserve(positions.size());
  for (const ScenePosition& position : positions)
    scenes.push_back(writer.scene({.name = position.name(),
                                   .description = position.night ? "simulated, night" : "simulated, day",
                                   .log = position.split_number,
                                   .tokens = scene_tokens(options.rig, position.stream)}));
  std::vector<std::string> rows(positions.size());
  threads::for_each_task(positions.size(), threads,
                         [&](std::size_t i) { rows[i] = write_scene(options, positions[i], scenes[i], frame_done); });
  const nuscenes::WrittenCounts counts =
      writer.finish(split_lists(options, positions), {{"simulation.json", simulation_json(seed, rows)}});
  return {.scenes = counts.scenes,
          .frames = counts.frames,
          .annotations = counts.boxes,
          .instances = counts.objects,
          .points = counts.points,
          .bytes = counts.bytes};
}

}  // namespace camber::simulation
