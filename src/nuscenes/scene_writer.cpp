#include <algorithm>
#include <cmath>
#include <fstream>
#include <stdexcept>

#include "camber/drawing/jpeg.h"
#include "nuscenes/dataset_writer_work.h"

namespace camber::nuscenes {
namespace {

void append_row(std::string& rows, const RowJson& row) {
  if (!rows.empty()) rows += ",\n";
  rows += row.dump();
}

RowJson vector_json(const geometry::Vector3& v) {
  return RowJson::array({v[0], v[1], v[2]});
}

RowJson quaternion_json(const geometry::Quaternion& q) {
  return RowJson::array({q.w, q.x, q.y, q.z});
}

bool finite_vector(const geometry::Vector3& v) {
  return std::isfinite(v[0]) && std::isfinite(v[1]) && std::isfinite(v[2]);
}

// Without the flush of storage::write_file, which would cost more than making the file: the tables that name these
// files appear last.
std::int64_t write_sensor_file(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) throw std::runtime_error("[DatasetWriter] " + path.string() + " could not be written");
  return static_cast<std::int64_t>(bytes.size());
}

void add_name(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

}  // namespace

// One row of sample_data; its neighbours are known once the scene is complete.
struct WrittenFile {
  std::string token{}, sample_token{}, calibration{}, filename{}, format{};
  std::int64_t timestamp = 0, width = 0, height = 0;
  WrittenPose pose{};
  bool key_frame = true;
};

struct WrittenAnnotation {
  std::string token{}, sample_token{};
  WrittenBox box{};
};

class SceneWriter::Work {
 public:
  Work(DatasetWriter::Work& dataset, std::size_t number, SceneDescription description)
      : dataset_(dataset), number_(number), description_(std::move(description)), channels_(sensors().size()) {
    tokens_ = description_.tokens;
    if (!tokens_)
      tokens_ = [root = random::Stream(0, dataset.options.version).at("scene").at(description_.name)](
                    std::string_view kind, const std::string& name, std::uint64_t index) {
        return token_of(root.at(kind).at(name).at(index));
      };
    rows_.name = description_.name;
  }

  void begin_frame(std::int64_t timestamp);
  void add_file(const std::string& channel, std::int64_t timestamp, const WrittenPose& pose, std::string_view bytes,
                Modality modality, bool key_frame);
  void add_points(const std::string& channel, std::int64_t timestamp, const WrittenPose& pose,
                  std::span<const float> points, bool key_frame);
  const RigSensor& camera(const std::string& channel) const { return sensors()[index_of(channel, Modality::kCamera)]; }
  void add_box(const WrittenBox& box);
  void finish();
  int jpeg_quality() const { return dataset_.options.jpeg_quality; }
  [[noreturn]] void refuse(const std::string& sentence) const;

 private:
  const std::vector<RigSensor>& sensors() const {
    return description_.sensors.empty() ? dataset_.options.sensors : description_.sensors;
  }
  std::size_t index_of(const std::string& channel, Modality modality) const;
  void check_pose(const WrittenPose& pose) const;
  void close_frame();
  void add_file_rows(const std::vector<WrittenFile>& files);
  void add_object_rows(const std::string& object, const std::vector<WrittenAnnotation>& seen);

  DatasetWriter::Work& dataset_;
  std::size_t number_;
  SceneDescription description_;
  TokenMaker tokens_;
  std::vector<std::vector<WrittenFile>> channels_;  // in the order of the rig
  std::map<std::string, std::vector<WrittenAnnotation>> objects_;
  std::vector<std::pair<std::string, std::int64_t>> samples_;  // token, timestamp
  std::vector<WrittenBox> boxes_;                              // of the open frame
  std::vector<geometry::Vector3> points_;                      // its key frames', global
  SceneRows rows_;
};

void SceneWriter::Work::refuse(const std::string& sentence) const {
  std::string where = "[DatasetWriter] scene '" + description_.name + "'";
  if (!samples_.empty()) where += ", frame " + std::to_string(samples_.size() - 1);
  throw std::invalid_argument(where + ": " + sentence);
}

std::size_t SceneWriter::Work::index_of(const std::string& channel, Modality modality) const {
  std::string known;
  for (std::size_t i = 0; i < sensors().size(); ++i) {
    if (sensors()[i].modality != modality) continue;
    if (sensors()[i].channel == channel) return i;
    known += (known.empty() ? "" : ", ") + sensors()[i].channel;
  }
  refuse("channel must be one of " + (known.empty() ? "none" : known) + ", got '" + channel + "'");
}

void SceneWriter::Work::check_pose(const WrittenPose& pose) const {
  const geometry::Quaternion& q = pose.rotation;
  const double length = q.w * q.w + q.x * q.x + q.y * q.y + q.z * q.z;
  if (!finite_vector(pose.translation) || !std::isfinite(length) || std::abs(length - 1) > 1e-3)
    refuse("ego_to_global must be finite with a quaternion of length 1, got length " +
           std::to_string(std::sqrt(length)));
}

void SceneWriter::Work::begin_frame(std::int64_t timestamp) {
  if (!samples_.empty() && timestamp <= samples_.back().second)
    refuse("the next frame's timestamp must be above " + std::to_string(samples_.back().second) + ", got " +
           std::to_string(timestamp));
  close_frame();
  samples_.emplace_back(tokens_("sample", "", samples_.size()), timestamp);
}

void SceneWriter::Work::add_file(const std::string& channel, std::int64_t timestamp, const WrittenPose& pose,
                                 std::string_view bytes, Modality modality, bool key_frame) {
  if (samples_.empty()) refuse("begin_frame must come before the first file");
  check_pose(pose);
  const std::size_t index = index_of(channel, modality);
  const RigSensor& sensor = sensors()[index];
  std::vector<WrittenFile>& files = channels_[index];
  if (!files.empty() && timestamp <= files.back().timestamp)
    refuse("timestamp of " + channel + " must be above " + std::to_string(files.back().timestamp) + ", got " +
           std::to_string(timestamp));
  if (!files.empty() && key_frame && files.back().key_frame && files.back().sample_token == samples_.back().first)
    refuse(channel + " must have one key frame, got a second");
  const bool image = modality == Modality::kCamera;
  const std::string folder = (key_frame ? "samples/" : "sweeps/") + channel;
  if (!key_frame) std::filesystem::create_directories(dataset_.out / folder);
  WrittenFile file{.token = tokens_("sample_data", channel, files.size()),
                   .sample_token = samples_.back().first,
                   .calibration = description_.sensors.empty()
                                      ? dataset_.tokens("calibrated_sensor", channel, 0)
                                      : dataset_.tokens("calibrated_sensor", calibration_name(sensor), 0),
                   .filename = folder + "/" + dataset_.options.logs[description_.log] + "-" + description_.name + "__" +
                               channel + "__" + std::to_string(timestamp) + (image ? ".jpg" : ".pcd.bin"),
                   .format = image ? "jpg" : "pcd",
                   .timestamp = timestamp,
                   .width = image ? sensor.width : 0,
                   .height = image ? sensor.height : 0,
                   .pose = pose,
                   .key_frame = key_frame};
  rows_.counts.bytes += write_sensor_file(dataset_.out / file.filename, bytes);
  ++rows_.counts.files;
  files.push_back(std::move(file));
}

void SceneWriter::Work::add_points(const std::string& channel, std::int64_t timestamp, const WrittenPose& pose,
                                   std::span<const float> points, bool key_frame) {
  if (points.size() % 5 != 0)
    refuse("points of " + channel + " must be [n, 5], got " + std::to_string(points.size()) + " numbers");
  for (std::size_t i = 0; i < points.size(); ++i)
    if (!std::isfinite(points[i]))
      refuse("points of " + channel + " must be finite, got " + std::to_string(points[i]) + " in point " +
             std::to_string(i / 5));
  add_file(channel, timestamp, pose, {reinterpret_cast<const char*>(points.data()), points.size() * sizeof(float)},
           Modality::kLidar, key_frame);
  rows_.counts.points += static_cast<std::int64_t>(points.size() / 5);
  if (!key_frame) return;
  const RigSensor& sensor = sensors()[index_of(channel, Modality::kLidar)];
  const auto to_global = geometry::RigidTransform::from(pose.rotation.normalized(), pose.translation) * sensor.to_ego();
  for (std::size_t i = 0; i < points.size(); i += 5)
    points_.push_back(to_global.apply({points[i], points[i + 1], points[i + 2]}));
}

void SceneWriter::Work::add_box(const WrittenBox& box) {
  if (samples_.empty()) refuse("begin_frame must come before the first box");
  const std::string of = "of object '" + box.object + "' ";
  if (box.object.empty() || box.category.empty()) refuse("a box must name its object and its category");
  if (!(box.width > 0 && box.length > 0 && box.height > 0) || !std::isfinite(box.width + box.length + box.height))
    refuse("width, length and height " + of + "must be above 0, got " + std::to_string(box.width) + ", " +
           std::to_string(box.length) + ", " + std::to_string(box.height));
  if (!finite_vector(box.center)) refuse("center " + of + "must be finite");
  if (box.visibility < 1 || box.visibility > 4)
    refuse("visibility " + of + "must be 1 to 4, got " + std::to_string(box.visibility));
  if (box.lidar_points && *box.lidar_points < 0)
    refuse("lidar_points " + of + "must be at least 0, got " + std::to_string(*box.lidar_points));
  const geometry::Quaternion& q = box.rotation;
  if (!(std::abs(q.w * q.w + q.x * q.x + q.y * q.y + q.z * q.z - 1) <= 1e-3))
    refuse("rotation " + of + "must be a quaternion of length 1");
  for (const WrittenBox& other : boxes_)
    if (other.object == box.object) refuse("object '" + box.object + "' must have one box, got a second");
  if (const auto known = objects_.find(box.object);
      known != objects_.end() && known->second.front().box.category != box.category)
    refuse("category " + of + "must stay " + known->second.front().box.category + ", got " + box.category);
  boxes_.push_back(box);
}

void SceneWriter::Work::close_frame() {
  if (samples_.empty()) return;
  const std::string& sample = samples_.back().first;
  const std::string reference = reference_of(sensors());
  for (std::size_t i = 0; i < sensors().size(); ++i) {
    if (sensors()[i].channel != reference) continue;
    const std::vector<WrittenFile>& files = channels_[i];
    if (files.empty() || !files.back().key_frame || files.back().sample_token != sample)
      refuse("every frame must have a key frame of " + reference +
             ", the sensor that stands for the frame, after its sweeps");
  }
  for (WrittenBox& box : boxes_) {
    if (!box.lidar_points) {
      const auto to_box = geometry::RigidTransform::from(box.rotation.normalized(), box.center).inverse();
      box.lidar_points = std::count_if(points_.begin(), points_.end(), [&](const geometry::Vector3& point) {
        const geometry::Vector3 inside = to_box.apply(point);
        return std::abs(inside[0]) <= box.length / 2 && std::abs(inside[1]) <= box.width / 2 &&
               std::abs(inside[2]) <= box.height / 2;
      });
    }
    add_name(rows_.categories, box.category);
    for (const std::string& attribute : box.attributes) add_name(rows_.attributes, attribute);
    const std::string token = tokens_("annotation", box.object, samples_.size() - 1);
    auto& annotations = objects_[box.object];
    annotations.push_back({.token = token, .sample_token = sample, .box = std::move(box)});
  }
  boxes_.clear();
  points_.clear();
}

void SceneWriter::Work::add_file_rows(const std::vector<WrittenFile>& files) {
  for (std::size_t i = 0; i < files.size(); ++i) {
    const WrittenFile& d = files[i];
    append_row(rows_.ego_pose, {{"token", d.token},
                                {"timestamp", d.timestamp},
                                {"rotation", quaternion_json(d.pose.rotation)},
                                {"translation", vector_json(d.pose.translation)}});
    append_row(rows_.sample_data, {{"token", d.token},
                                   {"sample_token", d.sample_token},
                                   {"ego_pose_token", d.token},
                                   {"calibrated_sensor_token", d.calibration},
                                   {"timestamp", d.timestamp},
                                   {"fileformat", d.format},
                                   {"is_key_frame", d.key_frame},
                                   {"height", d.height},
                                   {"width", d.width},
                                   {"filename", d.filename},
                                   {"prev", i == 0 ? "" : files[i - 1].token},
                                   {"next", i + 1 == files.size() ? "" : files[i + 1].token}});
  }
}

void SceneWriter::Work::add_object_rows(const std::string& object, const std::vector<WrittenAnnotation>& seen) {
  const std::string instance = tokens_("instance", object, 0);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const WrittenBox& box = seen[i].box;
    RowJson attributes = RowJson::array();
    for (const std::string& name : box.attributes) attributes.push_back(dataset_.tokens("attribute", name, 0));
    append_row(rows_.sample_annotation, {{"token", seen[i].token},
                                         {"sample_token", seen[i].sample_token},
                                         {"instance_token", instance},
                                         {"visibility_token", std::to_string(box.visibility)},
                                         {"attribute_tokens", attributes},
                                         {"translation", vector_json(box.center)},
                                         {"size", vector_json({box.width, box.length, box.height})},
                                         {"rotation", quaternion_json(box.rotation)},
                                         {"prev", i == 0 ? "" : seen[i - 1].token},
                                         {"next", i + 1 == seen.size() ? "" : seen[i + 1].token},
                                         {"num_lidar_pts", *box.lidar_points},
                                         {"num_radar_pts", 0}});
  }
  append_row(rows_.instance, {{"token", instance},
                              {"category_token", dataset_.tokens("category", seen.front().box.category, 0)},
                              {"nbr_annotations", seen.size()},
                              {"first_annotation_token", seen.front().token},
                              {"last_annotation_token", seen.back().token}});
  rows_.counts.boxes += static_cast<std::int64_t>(seen.size());
  ++rows_.counts.objects;
}

void SceneWriter::Work::finish() {
  if (samples_.empty()) refuse("a scene must have a frame");
  close_frame();
  const std::string scene_token = tokens_("scene", "", 0);
  for (const auto& files : channels_) add_file_rows(files);
  for (const auto& [object, seen] : objects_) add_object_rows(object, seen);
  for (std::size_t i = 0; i < samples_.size(); ++i)
    append_row(rows_.sample, {{"token", samples_[i].first},
                              {"timestamp", samples_[i].second},
                              {"prev", i == 0 ? "" : samples_[i - 1].first},
                              {"next", i + 1 == samples_.size() ? "" : samples_[i + 1].first},
                              {"scene_token", scene_token}});
  append_row(rows_.scene, {{"token", scene_token},
                           {"log_token", dataset_.tokens("log", dataset_.options.logs[description_.log], 0)},
                           {"nbr_samples", samples_.size()},
                           {"first_sample_token", samples_.front().first},
                           {"last_sample_token", samples_.back().first},
                           {"name", description_.name},
                           {"description", description_.description}});
  for (const RigSensor& sensor : description_.sensors)
    rows_.calibrations.push_back(calibration_row(sensor,
                                                 dataset_.tokens("calibrated_sensor", calibration_name(sensor), 0),
                                                 dataset_.tokens("sensor", sensor.channel, 0)));
  rows_.counts.scenes = 1;
  rows_.counts.frames = static_cast<std::int64_t>(samples_.size());
  rows_.finished = true;
  dataset_.take(number_, std::move(rows_));
}

SceneWriter::SceneWriter(std::unique_ptr<Work> work) : work_(std::move(work)) {}
SceneWriter::SceneWriter(SceneWriter&&) noexcept = default;
SceneWriter::~SceneWriter() = default;

void SceneWriter::begin_frame(std::int64_t timestamp) {
  work_->begin_frame(timestamp);
}

void SceneWriter::add_points(const std::string& channel, std::int64_t timestamp, const WrittenPose& ego_to_global,
                             std::span<const float> points, bool key_frame) {
  work_->add_points(channel, timestamp, ego_to_global, points, key_frame);
}

void SceneWriter::add_image(const std::string& channel, std::int64_t timestamp, const WrittenPose& ego_to_global,
                            std::span<const std::uint8_t> rgb, bool key_frame) {
  const RigSensor& sensor = work_->camera(channel);
  if (rgb.size() != static_cast<std::size_t>(sensor.width * sensor.height * 3))
    work_->refuse("the image of " + channel + " must be [" + std::to_string(sensor.height) + ", " +
                  std::to_string(sensor.width) + ", 3], got " + std::to_string(rgb.size()) + " bytes");
  const auto jpeg = drawing::encode_jpeg(rgb.data(), sensor.width, sensor.height, work_->jpeg_quality());
  work_->add_file(channel, timestamp, ego_to_global, {reinterpret_cast<const char*>(jpeg.data()), jpeg.size()},
                  Modality::kCamera, key_frame);
}

void SceneWriter::add_jpeg(const std::string& channel, std::int64_t timestamp, const WrittenPose& ego_to_global,
                           std::string_view jpeg, bool key_frame) {
  const RigSensor& sensor = work_->camera(channel);
  const auto [width, height] = drawing::jpeg_dimensions(
      {reinterpret_cast<const std::uint8_t*>(jpeg.data()), jpeg.size()}, "the image of " + channel);
  if (width != sensor.width || height != sensor.height)
    work_->refuse("the image of " + channel + " must measure " + std::to_string(sensor.width) + " x " +
                  std::to_string(sensor.height) + ", got " + std::to_string(width) + " x " + std::to_string(height));
  work_->add_file(channel, timestamp, ego_to_global, jpeg, Modality::kCamera, key_frame);
}

void SceneWriter::add_box(const WrittenBox& box) {
  work_->add_box(box);
}

void SceneWriter::finish() {
  work_->finish();
  work_.reset();
}

SceneWriter DatasetWriter::scene(const SceneDescription& description) {
  const std::size_t number = work_->begin(description);
  return SceneWriter(std::make_unique<SceneWriter::Work>(*work_, number, description));
}

}  // namespace camber::nuscenes
