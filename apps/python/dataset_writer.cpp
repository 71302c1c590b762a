#include "apps/python/dataset_writer.h"

#include <stdexcept>

#include "apps/python/detector.h"

namespace camber::python {
namespace {

nuscenes::WrittenPose pose_of(const std::vector<double>& pose) {
  if (pose.size() != 7)
    throw std::invalid_argument("[DatasetWriter] a pose must have 3 + 4 numbers, got " + std::to_string(pose.size()));
  return {.translation = {pose[0], pose[1], pose[2]}, .rotation = {pose[3], pose[4], pose[5], pose[6]}};
}

// The bytes of a tensor that torch may hold anywhere and with any strides.
torch::Tensor host_of(const torch::Tensor& tensor, torch::ScalarType type) {
  return tensor.detach().to(torch::kCPU, type).contiguous();
}

nuscenes::DatasetWriterOptions options_of(const std::string& version, const std::vector<std::string>& channels,
                                          const torch::Tensor& sensors) {
  nuscenes::DatasetWriterOptions options{.version = version};
  const torch::Tensor rows = host_of(sensors, torch::kDouble);
  for (std::size_t i = 0; i < channels.size(); ++i) {
    const double* row = rows.const_data_ptr<double>() + 14 * i;
    nuscenes::RigSensor sensor{.channel = channels[i],
                               .modality = nuscenes::Modality::kLidar,
                               .translation = {row, row + 3},
                               .rotation = {row + 3, row + 7}};
    if (row[12] > 0) {
      sensor.modality = nuscenes::Modality::kCamera;
      sensor.intrinsic = {row[7], row[11], row[9], 0, row[8], row[10], 0, 0, 1};
      sensor.width = static_cast<std::int64_t>(row[12]);
      sensor.height = static_cast<std::int64_t>(row[13]);
    }
    options.sensors.push_back(std::move(sensor));
  }
  return options;
}

}  // namespace

void SceneWriter::begin_frame(std::int64_t timestamp) {
  told([&] { writer_.begin_frame(timestamp); });
}

void SceneWriter::add_points(const std::string& channel, std::int64_t timestamp, const std::vector<double>& pose,
                             const torch::Tensor& points, bool key_frame) {
  told([&] {
    const torch::Tensor rows = host_of(points, torch::kFloat);
    writer_.add_points(channel, timestamp, pose_of(pose),
                       {rows.const_data_ptr<float>(), static_cast<std::size_t>(rows.numel())}, key_frame);
  });
}

void SceneWriter::add_image(const std::string& channel, std::int64_t timestamp, const std::vector<double>& pose,
                            const torch::Tensor& image, bool key_frame) {
  told([&] {
    const torch::Tensor pixels = host_of(image, torch::kByte);
    writer_.add_image(channel, timestamp, pose_of(pose),
                      {pixels.const_data_ptr<std::uint8_t>(), static_cast<std::size_t>(pixels.numel())}, key_frame);
  });
}

void SceneWriter::add_jpeg(const std::string& channel, std::int64_t timestamp, const std::vector<double>& pose,
                           const torch::Tensor& bytes, bool key_frame) {
  told([&] {
    const torch::Tensor held = host_of(bytes, torch::kByte);
    writer_.add_jpeg(
        channel, timestamp, pose_of(pose),
        {reinterpret_cast<const char*>(held.const_data_ptr<std::uint8_t>()), static_cast<std::size_t>(held.numel())},
        key_frame);
  });
}

void SceneWriter::add_box(const std::string& object, const std::string& category, const std::vector<double>& box,
                          const std::vector<std::string>& attributes, std::int64_t visibility,
                          std::optional<std::int64_t> lidar_points) {
  told([&] {
    if (box.size() != 10)
      throw std::invalid_argument("[DatasetWriter] a box must have 3 + 3 + 4 numbers, got " +
                                  std::to_string(box.size()));
    writer_.add_box({.object = object,
                     .category = category,
                     .center = {box[0], box[1], box[2]},
                     .width = box[3],
                     .length = box[4],
                     .height = box[5],
                     .rotation = {box[6], box[7], box[8], box[9]},
                     .attributes = attributes,
                     .visibility = static_cast<int>(visibility),
                     .lidar_points = lidar_points});
  });
}

void SceneWriter::finish() {
  told([&] { writer_.finish(); });
}

DatasetWriter::DatasetWriter(const std::string& out, const std::string& version,
                             const std::vector<std::string>& channels, const torch::Tensor& sensors)
    : writer_(out, options_of(version, channels, sensors)) {}

c10::intrusive_ptr<SceneWriter> DatasetWriter::scene(const std::string& name, const std::string& description) {
  return told(
      [&] { return c10::make_intrusive<SceneWriter>(writer_.scene({.name = name, .description = description})); });
}

c10::Dict<std::string, std::int64_t> DatasetWriter::finish(
    const c10::Dict<std::string, std::vector<std::string>>& splits) {
  return told([&] {
    std::vector<std::pair<std::string, std::vector<std::string>>> lists;
    for (const auto& entry : splits) lists.emplace_back(entry.key(), entry.value());
    const nuscenes::WrittenCounts counts = writer_.finish(lists);
    c10::Dict<std::string, std::int64_t> result;
    result.insert("scenes", counts.scenes);
    result.insert("frames", counts.frames);
    result.insert("files", counts.files);
    result.insert("points", counts.points);
    result.insert("boxes", counts.boxes);
    result.insert("objects", counts.objects);
    result.insert("bytes", counts.bytes);
    return result;
  });
}

}  // namespace camber::python
