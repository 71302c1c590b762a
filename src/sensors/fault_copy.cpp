#include "camber/sensors/fault_copy.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <stdexcept>
#include <unordered_map>

#include <nlohmann/json.hpp>

#include "camber/drawing/jpeg.h"
#include "camber/json/scanner.h"
#include "camber/sensors/fault_effects.h"
#include "camber/sensors/sensor_frame.h"
#include "camber/storage/atomic_file.h"
#include "camber/storage/file.h"
#include "camber/storage/output_folder.h"
#include "camber/threads/tasks.h"
#include "sensors/fault_occasion.h"

namespace camber::sensors {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int kJpegQuality = 95;

// What becomes of one row of sample_data.
struct RowChange {
  nuscenes::Index same_as = nuscenes::kNone;  // deliver this row's file instead
  bool changed = false;                       // deliver `points` or `image`
  std::vector<LidarPoint> points{};
  Image image{};
  std::int64_t timestamp = 0;  // 0: as it was
  std::string calibration{};   // empty: as it was
};

struct SensorNote {
  bool available = true;
  double quality = 1;
};

// Everything the threads add to.
struct Shared {
  std::mutex mutex;
  std::unordered_map<std::string, Json> edits;  // sample_data token -> fields to overwrite
  std::map<std::string, Json> calibrations;     // new rows of calibrated_sensor by token
  std::map<std::string, Json> notes;            // sample token -> channel -> note
  FaultCopySummary summary;
};

void write_bytes(const fs::path& path, const void* data, std::size_t size) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
  file.close();
  if (!file) throw std::runtime_error("[faults] " + path.string() + " could not be written");
}

void link_or_copy(const fs::path& from, const fs::path& to) {
  std::error_code failed;
  if (!fs::is_regular_file(from, failed))
    throw std::runtime_error("[faults] " + from.string() + " must be a regular file to be copied, and is none");
  fs::remove(to, failed);
  fs::create_hard_link(from, to, failed);
  if (failed) fs::copy_file(from, to, fs::copy_options::overwrite_existing, failed);
  if (failed) throw std::runtime_error("[faults] " + to.string() + " cannot be written: " + failed.message());
}

std::string packed(const std::vector<LidarPoint>& points) {
  std::string bytes;
  bytes.reserve(points.size() * 20);
  for (const LidarPoint& p : points) {
    const float values[5] = {p.x, p.y, p.z, p.intensity, p.ring};
    bytes.append(reinterpret_cast<const char*>(values), sizeof(values));
  }
  return bytes;
}

class SampleCopier {
 public:
  SampleCopier(const nuscenes::Dataset& dataset, nuscenes::Index sample, std::span<const Fault> faults,
               std::span<const nuscenes::Index> pool, const random::Stream& stream)
      : dataset_(dataset),
        tables_(dataset.tables()),
        sample_(sample),
        faults_(faults),
        pool_(pool),
        stream_(stream),
        cameras_(dataset.channels(nuscenes::Modality::kCamera)) {}

  void run(std::span<const nuscenes::Index> rows, const fs::path& out, Shared& shared);

 private:
  void apply(const FaultOccasion& occasion, std::span<const nuscenes::Index> rows);
  void repeat(const FaultOccasion& occasion, std::span<const nuscenes::Index> rows);
  void degrade_cloud(const FaultOccasion& occasion, nuscenes::Index row);
  void degrade_view(const FaultOccasion& occasion, nuscenes::Index row, std::size_t camera);
  void miscalibrate(const FaultOccasion& occasion, nuscenes::Index row, std::size_t camera);
  std::vector<LidarPoint>& points_of(nuscenes::Index row);
  Image& image_of(nuscenes::Index row);
  void note(nuscenes::Index row, bool available, double quality);
  nuscenes::Modality modality(nuscenes::Index row) const {
    return dataset_.sensor_of(tables_.sample_data[row]).modality;
  }
  std::string channel(nuscenes::Index row) const {
    return std::string(dataset_.sensor_of(tables_.sample_data[row]).channel);
  }
  std::vector<nuscenes::Index> sweeps_of(nuscenes::Index sample, const std::string& channel) const;

  const nuscenes::Dataset& dataset_;
  const nuscenes::Tables& tables_;
  nuscenes::Index sample_;
  std::span<const Fault> faults_;
  std::span<const nuscenes::Index> pool_;
  const random::Stream& stream_;
  std::vector<std::string> cameras_;
  std::map<nuscenes::Index, RowChange> changes_;
  std::map<std::string, SensorNote> notes_;
  std::map<std::string, Json> calibrations_;
};

// The file's own frame stands for what is there so far: an earlier fault's work, another frame's file, or its own.
std::vector<LidarPoint>& SampleCopier::points_of(nuscenes::Index row) {
  RowChange& change = changes_[row];
  if (!change.changed) {
    const nuscenes::Index source = change.same_as == nuscenes::kNone ? row : change.same_as;
    change.points = read_lidar_file(dataset_.path_of(tables_.sample_data[source]));
    change.changed = true;
  }
  return change.points;
}

Image& SampleCopier::image_of(nuscenes::Index row) {
  RowChange& change = changes_[row];
  if (!change.changed) {
    const nuscenes::Index source = change.same_as == nuscenes::kNone ? row : change.same_as;
    const fs::path path = dataset_.path_of(tables_.sample_data[source]);
    const std::string bytes = storage::read_file(path);
    change.image = decode_jpeg({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()}, path.string());
    change.changed = true;
  }
  return change.image;
}

void SampleCopier::note(nuscenes::Index row, bool available, double quality) {
  SensorNote& entry = notes_[channel(row)];
  entry.available = entry.available && available;
  entry.quality = std::min(entry.quality, quality);
}

// A channel's files of one sample, the key frame's first and then back in time.
std::vector<nuscenes::Index> SampleCopier::sweeps_of(nuscenes::Index sample, const std::string& channel) const {
  std::vector<nuscenes::Index> rows;
  for (nuscenes::Index row = dataset_.key_frame(sample, channel);
       row != nuscenes::kNone && tables_.sample_data[row].sample == sample; row = tables_.sample_data[row].previous)
    rows.push_back(row);
  return rows;
}

void SampleCopier::repeat(const FaultOccasion& occasion, std::span<const nuscenes::Index> rows) {
  const Repeated repeated = frame_to_repeat(occasion);
  const nuscenes::Modality wanted =
      occasion.fault.is_lidar() ? nuscenes::Modality::kLidar : nuscenes::Modality::kCamera;
  std::set<std::string> channels;
  for (const nuscenes::Index row : rows)
    if (modality(row) == wanted) channels.insert(channel(row));
  if (wanted == nuscenes::Modality::kCamera) {
    const std::vector<bool> hit = cameras_hit(occasion.fault, cameras_.size(), occasion.scene);
    for (std::size_t i = 0; i < cameras_.size(); ++i)
      if (!hit[i]) channels.erase(cameras_[i]);
  }
  for (const std::string& name : channels) {
    const std::vector<nuscenes::Index> own = sweeps_of(sample_, name), old = sweeps_of(repeated.sample, name);
    for (std::size_t i = 0; i < std::min(own.size(), old.size()); ++i) {
      changes_[own[i]] = {.same_as = old[i]};
      if (!occasion.fault.false_timestamps) changes_[own[i]].timestamp = tables_.sample_data[old[i]].timestamp;
      note(own[i], true, stated_quality(occasion.fault, repeated.other_scene));
    }
  }
}

void SampleCopier::degrade_cloud(const FaultOccasion& occasion, nuscenes::Index row) {
  const nuscenes::SampleData& data = tables_.sample_data[row];
  note(row, !fault_row(occasion.fault.kind).known, stated_quality(occasion.fault));
  std::vector<LidarPoint>& points = points_of(row);
  if (fault_row(occasion.fault.kind).known) return points.clear();
  if (occasion.fault.kind == FaultKind::kGhost && !data.is_key_frame) return;
  const nuscenes::SensorPose pose = dataset_.pose_of(data);
  std::vector<geometry::Box> boxes;
  for (const nuscenes::Index annotation : tables_.annotations_of(sample_))
    boxes.push_back(dataset_.box_of(tables_.sample_annotation[annotation], pose));
  degrade_points(points, occasion.fault, {.objects = boxes, .ahead = pose.sensor_to_ego.inverse().rotate({1, 0, 0})},
                 occasion.scene, occasion.frame);
}

void SampleCopier::miscalibrate(const FaultOccasion& occasion, nuscenes::Index row, std::size_t camera) {
  const nuscenes::CalibratedSensor& calibration = dataset_.calibration_of(tables_.sample_data[row]);
  const double half = calibration_error(occasion.fault, camera, occasion.scene) / 2;
  const geometry::Quaternion turned = calibration.rotation * geometry::Quaternion{std::cos(half), 0, std::sin(half), 0};
  // One new row for every scene and camera.
  random::Stream name = occasion.scene.at("calibrated_sensor").at(calibration.token);
  char token[33];
  const std::uint64_t high = name.bits64(), low = name.bits64();
  std::snprintf(token, sizeof(token), "%016llx%016llx", static_cast<unsigned long long>(high),
                static_cast<unsigned long long>(low));
  const geometry::Matrix3& k = *calibration.intrinsic;
  calibrations_[token] = {{"token", token},
                          {"sensor_token", std::string(tables_.sensor[calibration.sensor].token)},
                          {"translation", calibration.translation},
                          {"rotation", {turned.w, turned.x, turned.y, turned.z}},
                          {"camera_intrinsic", {{k[0], k[1], k[2]}, {k[3], k[4], k[5]}, {k[6], k[7], k[8]}}}};
  changes_[row].calibration = token;
}

void SampleCopier::degrade_view(const FaultOccasion& occasion, nuscenes::Index row, std::size_t camera) {
  const Fault& fault = occasion.fault;
  note(row, !fault_row(fault.kind).known, stated_quality(fault));
  if (fault.kind == FaultKind::kCalibration) return miscalibrate(occasion, row, camera);
  Image& image = image_of(row);
  if (fault_row(fault.kind).known)
    std::fill(image.pixels.begin(), image.pixels.end(), std::uint8_t{0});
  else
    degrade_image(image, fault, occasion.frame.at("camera").at(camera));
}

void SampleCopier::apply(const FaultOccasion& occasion, std::span<const nuscenes::Index> rows) {
  if (occasion.fault.repeats()) return repeat(occasion, rows);
  const std::vector<bool> hit = cameras_hit(occasion.fault, cameras_.size(), occasion.scene);
  for (const nuscenes::Index row : rows) {
    if (occasion.fault.is_lidar()) {
      if (modality(row) == nuscenes::Modality::kLidar) degrade_cloud(occasion, row);
    } else if (modality(row) == nuscenes::Modality::kCamera) {
      const auto camera =
          static_cast<std::size_t>(std::find(cameras_.begin(), cameras_.end(), channel(row)) - cameras_.begin());
      if (hit[camera]) degrade_view(occasion, row, camera);
    }
  }
}

void SampleCopier::run(std::span<const nuscenes::Index> rows, const fs::path& out, Shared& shared) {
  for (std::size_t i = 0; i < faults_.size(); ++i)
    apply(FaultOccasion(dataset_, pool_, faults_[i], i, sample_, stream_), rows);
  FaultCopySummary summary{.samples = 1};
  std::unordered_map<std::string, Json> edits;
  for (const nuscenes::Index row : rows) {
    const nuscenes::SampleData& data = tables_.sample_data[row];
    const fs::path target = out / data.filename;
    const auto found = changes_.find(row);
    if (found == changes_.end() || !found->second.changed) {
      const nuscenes::Index source =
          found == changes_.end() || found->second.same_as == nuscenes::kNone ? row : found->second.same_as;
      link_or_copy(dataset_.path_of(tables_.sample_data[source]), target);
      ++summary.linked_files;
    } else {
      const RowChange& change = found->second;
      std::string bytes;
      if (modality(row) == nuscenes::Modality::kLidar) {
        bytes = packed(change.points);
      } else {
        const auto file =
            drawing::encode_jpeg(change.image.pixels.data(), change.image.width, change.image.height, kJpegQuality);
        bytes.assign(file.begin(), file.end());
      }
      write_bytes(target, bytes.data(), bytes.size());
      ++summary.changed_files;
      summary.bytes += static_cast<std::int64_t>(bytes.size());
    }
    if (found == changes_.end()) continue;
    Json edit = Json::object();
    if (found->second.timestamp != 0) edit["timestamp"] = found->second.timestamp;
    if (!found->second.calibration.empty()) edit["calibrated_sensor_token"] = found->second.calibration;
    if (!edit.empty()) edits[std::string(data.token)] = edit;
  }
  Json notes = Json::object();
  for (const auto& [name, entry] : notes_) notes[name] = {{"available", entry.available}, {"quality", entry.quality}};
  const std::lock_guard lock(shared.mutex);
  shared.edits.merge(edits);
  shared.calibrations.merge(calibrations_);
  if (!notes.empty()) shared.notes[std::string(tables_.sample[sample_].token)] = notes;
  shared.summary.samples += summary.samples;
  shared.summary.changed_files += summary.changed_files;
  shared.summary.linked_files += summary.linked_files;
  shared.summary.bytes += summary.bytes;
}

// A table row by row, with some fields overwritten and some rows added at the end.
void copy_table(const fs::path& from, const fs::path& to, const std::unordered_map<std::string, Json>& edits,
                const std::map<std::string, Json>& added) {
  storage::AtomicFile file(to);
  json::Scanner scanner(from);
  scanner.expect('[', "a list of rows");
  file.write("[\n");
  bool first = true;
  const auto put = [&](std::string_view row) {
    if (!first) file.write(",\n");
    file.write(row);
    first = false;
  };
  std::string text;
  while (!scanner.take(']')) {
    if (!first) scanner.expect(',', "a comma or the end of the list");
    text.clear();
    scanner.append_value(text);
    Json row = Json::parse(text);
    const auto edit = edits.find(row["token"].get<std::string>());
    if (edit == edits.end()) {
      put(text);
      continue;
    }
    row.update(edit->second);
    put(row.dump());
  }
  for (const auto& [token, row] : added) put(row.dump());
  file.write("\n]\n");
  file.commit();
}

void write_tables(const nuscenes::Dataset& dataset, std::span<const Fault> faults, std::uint64_t seed,
                  const Shared& shared, const fs::path& out) {
  const fs::path from = dataset.root() / dataset.version(), to = out / (dataset.version() + ".partial");
  fs::remove_all(to);
  fs::create_directories(to);
  for (const auto& entry : fs::directory_iterator(from)) {
    const std::string name = entry.path().filename();
    if (name == "sample_data.json")
      copy_table(entry.path(), to / name, shared.edits, {});
    else if (name == "calibrated_sensor.json")
      copy_table(entry.path(), to / name, {}, shared.calibrations);
    else if (entry.is_regular_file())
      fs::copy_file(entry.path(), to / name);
  }
  Json list = Json::array();
  for (const Fault& fault : faults) list.push_back(fault.text());
  const Json record = {{"faults", list}, {"seed", seed}, {"samples", shared.notes}};
  storage::write_file(to / "faults.json", record.dump(1) + "\n");
  fs::rename(to, out / dataset.version());
}

}  // namespace

FaultCopySummary write_faulted_copy(const nuscenes::Dataset& dataset, const nuscenes::Split& split,
                                    std::span<const Fault> faults, std::uint64_t seed, int threads, const fs::path& out,
                                    const std::function<void(std::int64_t)>& sample_done) {
  const nuscenes::Tables& tables = dataset.tables();
  check_together(faults);
  for (const Fault& fault : faults) check_cameras(fault, dataset.channels(nuscenes::Modality::kCamera).size());
  storage::check_new_folder(out, "faults", "out");
  const fs::path whole = fs::weakly_canonical(dataset.root()), target = fs::weakly_canonical(out);
  if (std::mismatch(whole.begin(), whole.end(), target.begin(), target.end()).first == whole.end())
    throw std::invalid_argument("[faults] out must lie outside of the data set " + dataset.root().string() + ", got " +
                                out.string());
  std::vector<std::vector<nuscenes::Index>> rows(tables.sample.size());
  std::set<fs::path> folders;
  for (std::size_t row = 0; row < tables.sample_data.size(); ++row) {
    const nuscenes::SampleData& data = tables.sample_data[static_cast<nuscenes::Index>(row)];
    rows[static_cast<std::size_t>(data.sample)].push_back(static_cast<nuscenes::Index>(row));
    folders.insert((out / data.filename).parent_path());
  }
  for (const nuscenes::Map& map : tables.map)
    if (!map.filename.empty()) folders.insert((out / map.filename).parent_path());
  storage::OutputFolder output(out, "faults", "out");
  for (const fs::path& folder : folders) fs::create_directories(folder);
  for (const nuscenes::Map& map : tables.map)
    if (!map.filename.empty()) {
      storage::check_inside(dataset.root(), dataset.root() / map.filename);
      link_or_copy(dataset.root() / map.filename, out / map.filename);
    }

  if (fs::exists(dataset.root() / "splits.json")) link_or_copy(dataset.root() / "splits.json", out / "splits.json");

  const std::set<nuscenes::Index> chosen(split.samples.begin(), split.samples.end());
  const random::Stream stream(seed, "faults");
  Shared shared;
  threads::for_each_task(rows.size(), threads, [&](std::size_t sample) {
    const bool hit = chosen.contains(static_cast<nuscenes::Index>(sample));
    const std::span<const Fault> own = hit ? faults : std::span<const Fault>{};
    SampleCopier(dataset, static_cast<nuscenes::Index>(sample), own, split.samples, stream)
        .run(rows[sample], out, shared);
    if (sample_done) sample_done(1);
  });
  write_tables(dataset, faults, seed, shared, out);
  output.finish();
  shared.summary.samples = static_cast<std::int64_t>(split.samples.size());
  return shared.summary;
}

}  // namespace camber::sensors
