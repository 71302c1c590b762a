#include "camber/nuscenes/dataset_writer.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <stdexcept>

#include "camber/drawing/canvas.h"
#include "camber/storage/atomic_file.h"
#include "nuscenes/dataset_writer_work.h"

namespace camber::nuscenes {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWriting = ".writing";  // the lock of a folder that further tables are added to

// Readers want a map's file, whatever is on it: a square of white.
std::int64_t write_map(const fs::path& path) {
  constexpr int kSide = 16;
  const std::vector<std::uint8_t> white(std::size_t{kSide} * kSide * 3, 255);
  const std::string bytes = drawing::encode_png(white, kSide, kSide);
  storage::write_file(path, bytes);
  return static_cast<std::int64_t>(bytes.size());
}

void write_small(const fs::path& folder, const char* name, const RowJson& rows) {
  storage::write_file(folder / (std::string(name) + ".json"), rows.dump(1) + "\n");
}

std::string joined(const std::vector<SceneRows>& scenes, std::string SceneRows::*rows) {
  std::string text = "[\n";
  for (const SceneRows& scene : scenes) {
    if ((scene.*rows).empty()) continue;
    if (text.size() > 2) text += ",\n";
    text += scene.*rows;
  }
  return text + "\n]\n";
}

// Those of the options first, then what the scenes bring, each once.
RowJson named_rows(const DatasetWriter::Work& work, std::string_view kind,
                   const std::vector<std::pair<std::string, std::string>>& stated,
                   std::vector<std::string> SceneRows::*brought) {
  RowJson rows = RowJson::array();
  std::set<std::string> known;
  const auto add = [&](const std::string& name, const std::string& description) {
    if (known.insert(name).second)
      rows.push_back({{"token", work.tokens(kind, name, 0)}, {"name", name}, {"description", description}});
  };
  for (const auto& [name, description] : stated) add(name, description);
  for (const SceneRows& scene : work.scenes)
    for (const std::string& name : scene.*brought) add(name, name);
  return rows;
}

RowJson visibility_rows() {
  RowJson rows = RowJson::array();
  constexpr const char* kLevels[] = {"v0-40", "v40-60", "v60-80", "v80-100"};
  for (int i = 0; i < 4; ++i)
    rows.push_back({{"token", std::to_string(i + 1)},
                    {"level", kLevels[i]},
                    {"description", std::string("visibility of whole object, ") + kLevels[i]}});
  return rows;
}

RowJson calibration_rows(const DatasetWriter::Work& work) {
  RowJson rows = RowJson::array();
  if (work.shared_calibration)
    for (const RigSensor& sensor : work.options.sensors)
      rows.push_back(calibration_row(sensor, work.tokens("calibrated_sensor", sensor.channel, 0),
                                     work.tokens("sensor", sensor.channel, 0)));
  std::set<std::string> known;
  for (const SceneRows& scene : work.scenes)
    for (const RowJson& row : scene.calibrations)
      if (known.insert(row["token"].get<std::string>()).second) rows.push_back(row);
  return rows;
}

void write_shared_tables(const DatasetWriter::Work& work, const fs::path& folder, const std::string& map_token) {
  const DatasetWriterOptions& options = work.options;
  RowJson sensors = RowJson::array(), logs = RowJson::array(), log_tokens = RowJson::array();
  for (const RigSensor& sensor : options.sensors)
    sensors.push_back({{"token", work.tokens("sensor", sensor.channel, 0)},
                       {"channel", sensor.channel},
                       {"modality", sensor.modality == Modality::kCamera ? "camera" : "lidar"}});
  for (const std::string& log : options.logs) {
    logs.push_back({{"token", work.tokens("log", log, 0)},
                    {"logfile", log},
                    {"vehicle", options.vehicle},
                    {"date_captured", options.date},
                    {"location", options.location}});
    log_tokens.push_back(logs.back()["token"]);
  }
  write_small(folder, "sensor", sensors);
  write_small(folder, "calibrated_sensor", calibration_rows(work));
  write_small(folder, "category", named_rows(work, "category", options.categories, &SceneRows::categories));
  write_small(folder, "attribute", named_rows(work, "attribute", options.attributes, &SceneRows::attributes));
  write_small(folder, "visibility", visibility_rows());
  write_small(folder, "log", logs);
  write_small(folder, "map",
              RowJson::array({{{"token", map_token},
                               {"log_tokens", log_tokens},
                               {"category", "semantic_prior"},
                               {"filename", "maps/" + map_token + ".png"}}}));
}

void check_split(const std::string& name, const std::vector<std::string>& scenes, const std::set<std::string>& known) {
  const auto unknown =
      std::find_if(scenes.begin(), scenes.end(), [&](const auto& scene) { return !known.contains(scene); });
  if (unknown != scenes.end())
    throw std::invalid_argument("[DatasetWriter] split '" + name + "' must name scenes of the data set, got '" +
                                *unknown + "'");
}

RowJson splits_json(const DatasetWriter::Work& work,
                    const std::vector<std::pair<std::string, std::vector<std::string>>>& splits) {
  std::set<std::string> known;
  for (const SceneRows& scene : work.scenes) known.insert(scene.name);
  RowJson json = RowJson::object();
  for (const auto& [name, scenes] : splits) {
    check_split(name, scenes, known);
    json[name] = scenes;
  }
  return json;
}

}  // namespace

std::string token_of(random::Stream stream) {
  char text[33];
  const std::uint64_t high = stream.bits64(), low = stream.bits64();
  std::snprintf(text, sizeof(text), "%016llx%016llx", static_cast<unsigned long long>(high),
                static_cast<unsigned long long>(low));
  return text;
}

std::string reference_of(const std::vector<RigSensor>& sensors) {
  for (const RigSensor& sensor : sensors)
    if (sensor.channel == "LIDAR_TOP") return sensor.channel;
  for (const Modality modality : {Modality::kLidar, Modality::kCamera})
    for (const RigSensor& sensor : sensors)
      if (sensor.modality == modality) return sensor.channel;
  return {};
}

std::string calibration_name(const RigSensor& sensor) {
  return sensor.channel + " " + RowJson(sensor.translation).dump() + RowJson(sensor.rotation).dump() +
         RowJson(sensor.intrinsic).dump();
}

RowJson calibration_row(const RigSensor& sensor, const std::string& token, const std::string& sensor_token) {
  RowJson intrinsic = RowJson::array();
  if (sensor.modality == Modality::kCamera)
    for (std::size_t row = 0; row < 3; ++row)
      intrinsic.push_back({sensor.intrinsic[3 * row], sensor.intrinsic[3 * row + 1], sensor.intrinsic[3 * row + 2]});
  return {{"token", token},
          {"sensor_token", sensor_token},
          {"translation", sensor.translation},
          {"rotation", sensor.rotation},
          {"camera_intrinsic", intrinsic}};
}

void DatasetWriterOptions::validate() const {
  if (version.empty() || version.find('/') != std::string::npos || version.front() == '.')
    throw std::invalid_argument("[DatasetWriter] version must be the name of a folder, got '" + version + "'");
  if (sensors.empty()) throw std::invalid_argument("[DatasetWriter] sensors must not be empty");
  Rig{sensors}.validate();
  for (const RigSensor& sensor : sensors) {
    if (sensor.modality != Modality::kCamera && sensor.modality != Modality::kLidar)
      throw std::invalid_argument("[DatasetWriter] modality of " + sensor.channel + " must be camera or lidar");
    if (sensor.channel.find('/') != std::string::npos || sensor.channel.starts_with('.'))
      throw std::invalid_argument("[DatasetWriter] channel must be the name of a folder, got '" + sensor.channel + "'");
  }
  if (logs.empty()) throw std::invalid_argument("[DatasetWriter] logs must not be empty");
  if (jpeg_quality < 1 || jpeg_quality > 100)
    throw std::invalid_argument("[DatasetWriter] jpeg_quality must be 1 to 100, got " + std::to_string(jpeg_quality));
}

DatasetWriter::Work::Work(fs::path folder, DatasetWriterOptions given)
    : out(std::move(folder)), options(std::move(given)), tokens(options.tokens) {
  options.validate();
  if (storage::can_be_output(out)) {
    output_.emplace(out, "DatasetWriter", "out");
  } else {
    if (!fs::is_directory(out))
      throw std::invalid_argument("[DatasetWriter] out must be a folder, got " + out.string() + ", which is a file");
    if (fs::exists(out / options.version))
      throw std::invalid_argument("[DatasetWriter] out must not hold " + options.version + " already, got " +
                                  out.string());
    lock_.emplace(out / kWriting);
  }
  if (!tokens)
    tokens = [root = random::Stream(0, options.version)](std::string_view kind, const std::string& name,
                                                         std::uint64_t index) {
      return token_of(root.at(kind).at(name).at(index));
    };
  fs::create_directories(out / "maps");
  for (const RigSensor& sensor : options.sensors) {
    fs::create_directories(out / "samples" / sensor.channel);
    if (sensor.modality == Modality::kLidar) fs::create_directories(out / "sweeps" / sensor.channel);
  }
}

std::size_t DatasetWriter::Work::begin(const SceneDescription& description) {
  const std::string where = "[DatasetWriter] scene '" + description.name + "': ";
  if (description.name.empty() || description.name.find('/') != std::string::npos)
    throw std::invalid_argument("[DatasetWriter] a scene's name must be text without '/', got '" + description.name +
                                "'");
  if (description.log >= options.logs.size())
    throw std::invalid_argument(where + "log must be below " + std::to_string(options.logs.size()) + ", got " +
                                std::to_string(description.log));
  if (!description.sensors.empty()) {
    Rig{description.sensors}.validate();
    const auto same = [](const RigSensor& a, const RigSensor& b) {
      return a.channel == b.channel && a.modality == b.modality;
    };
    if (!std::equal(description.sensors.begin(), description.sensors.end(), options.sensors.begin(),
                    options.sensors.end(), same))
      throw std::invalid_argument(where + "sensors must be the data set's channels in their order");
  }
  const std::lock_guard lock(mutex_);
  for (const SceneRows& scene : scenes)
    if (scene.name == description.name) throw std::invalid_argument(where + "another scene must not have this name");
  shared_calibration = shared_calibration || description.sensors.empty();
  scenes.push_back({.name = description.name});
  return scenes.size() - 1;
}

DatasetWriter::Work::~Work() {
  std::error_code ignored;
  if (lock_) fs::remove(out / kWriting, ignored);
}

void DatasetWriter::Work::finish() {
  if (output_) output_->finish();
}

void DatasetWriter::Work::take(std::size_t number, SceneRows&& rows) {
  const std::lock_guard lock(mutex_);
  scenes[number] = std::move(rows);
}

DatasetWriter::DatasetWriter(fs::path out, DatasetWriterOptions options)
    : work_(std::make_unique<Work>(std::move(out), std::move(options))) {}
DatasetWriter::~DatasetWriter() = default;

WrittenCounts DatasetWriter::finish(const std::vector<std::pair<std::string, std::vector<std::string>>>& splits,
                                    const std::map<std::string, std::string>& further) {
  std::sort(work_->scenes.begin(), work_->scenes.end(),
            [](const SceneRows& a, const SceneRows& b) { return a.name < b.name; });
  const Work& work = *work_;
  if (work.scenes.empty()) throw std::invalid_argument("[DatasetWriter] a data set must have a scene");
  for (const SceneRows& scene : work.scenes)
    if (!scene.finished)
      throw std::invalid_argument("[DatasetWriter] scene '" + scene.name + "' must be finished before the data set");
  const RowJson split_lists = splits_json(work, splits);
  const fs::path folder = work.out / (work.options.version + ".partial");
  fs::remove_all(folder);
  fs::create_directories(folder);
  const std::string map_token = work.tokens("map", "", 0);
  WrittenCounts counts{.bytes = write_map(work.out / "maps" / (map_token + ".png"))};
  const std::pair<const char*, std::string SceneRows::*> tables[] = {
      {"scene", &SceneRows::scene},
      {"sample", &SceneRows::sample},
      {"sample_data", &SceneRows::sample_data},
      {"ego_pose", &SceneRows::ego_pose},
      {"instance", &SceneRows::instance},
      {"sample_annotation", &SceneRows::sample_annotation}};
  for (const auto& [name, rows] : tables)
    storage::write_file(folder / (std::string(name) + ".json"), joined(work.scenes, rows));
  write_shared_tables(work, folder, map_token);
  if (!splits.empty()) write_small(folder, "splits", split_lists);
  for (const auto& [name, bytes] : further) storage::write_file(folder / name, bytes);
  fs::rename(folder, work.out / work.options.version);
  work_->finish();
  for (const SceneRows& scene : work.scenes) {
    counts.scenes += scene.counts.scenes;
    counts.frames += scene.counts.frames;
    counts.files += scene.counts.files;
    counts.points += scene.counts.points;
    counts.boxes += scene.counts.boxes;
    counts.objects += scene.counts.objects;
    counts.bytes += scene.counts.bytes;
  }
  for (const auto& file : fs::directory_iterator(work.out / work.options.version))
    counts.bytes += static_cast<std::int64_t>(file.file_size());
  return counts;
}

}  // namespace camber::nuscenes
