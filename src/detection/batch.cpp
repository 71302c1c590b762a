#include "camber/detection/batch.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <utility>

#include "camber/eval/detection_box.h"
#include "camber/weights/state_file.h"

namespace camber::detection {
namespace {

std::int64_t label_of(std::string_view category, const DetectorOptions& options) {
  const auto known = eval::class_of_category(category);
  if (!known) return -1;
  const auto at = std::find(options.classes.begin(), options.classes.end(), eval::name_of(*known));
  return at == options.classes.end() ? -1 : at - options.classes.begin();
}

Targets targets_of(const sensors::LoadedSample& sample, const DetectorOptions& options) {
  std::vector<float> boxes, trust, outside;
  std::vector<std::int64_t> labels, outside_labels;
  const auto& space = options.space;
  const auto& objects = sample.sensor_frame.frame.objects;
  for (std::size_t i = 0; i < objects.size(); ++i) {
    const auto& object = objects[i];
    const auto& [x, y, z] = object.box.center;
    const std::int64_t label = label_of(object.category, options);
    if (label < 0 || object.lidar_points + object.radar_points <= 0) continue;
    if (x < space.x_min || x > space.x_max || y < space.y_min || y > space.y_max) {
      for (const double value : {x, y, z}) outside.push_back(static_cast<float>(value));
      outside_labels.push_back(label);
      continue;
    }
    for (const double value : {x, y, z, object.box.length, object.box.width, object.box.height, object.box.yaw,
                               object.velocity[0], object.velocity[1]})
      boxes.push_back(static_cast<float>(value));
    const auto of_object = i < sample.labels.size() ? sample.labels[i] : sensors::TrustLabel{};
    trust.push_back(static_cast<float>(of_object.lidar));
    trust.push_back(static_cast<float>(of_object.camera));
    labels.push_back(label);
  }
  const auto count = static_cast<std::int64_t>(labels.size());
  return {torch::tensor(boxes).view({count, 9}), torch::tensor(labels, torch::kLong),
          torch::tensor(trust).view({count, 2}),
          torch::tensor(outside).view({static_cast<std::int64_t>(outside_labels.size()), 3}),
          torch::tensor(outside_labels, torch::kLong)};
}

// What is given of a list must be whole: a sensor or object without its entry would pass for a neutral one.
void check_lists(const sensors::LoadedSample& sample) {
  const auto& frame = sample.sensor_frame.frame;
  const auto whole = [](const char* list, std::size_t given, std::size_t wanted, const char* each) {
    TORCH_CHECK_VALUE(given == 0 || given == wanted, "[collate] ", list, " must be given for each of the ", wanted, " ",
                      each, " or for none, got ", given);
  };
  whole("cues", sample.cues.size(), 1 + frame.cameras.size(), "sensors");
  whole("sensor_frame.sensors", sample.sensor_frame.sensors.size(), 1 + frame.cameras.size(), "sensors");
  whole("labels", sample.labels.size(), frame.objects.size(), "objects");
}

void add_points(DetectorBatch& batch, std::span<const sensors::LoadedSample> samples, const DetectorOptions& options) {
  const float full = options.encoder.kind == EncoderKind::kCmt ? 1 : 255;  // CMT reads intensities as they are stored
  std::int64_t total = 0;
  for (const auto& sample : samples) total += static_cast<std::int64_t>(sample.sensor_frame.frame.points.size());
  batch.points = torch::empty({total, 5}, torch::kFloat);
  batch.point_offsets = torch::zeros({batch.size + 1}, torch::kLong);
  auto* out = batch.points.data_ptr<float>();
  auto* offsets = batch.point_offsets.data_ptr<std::int64_t>();
  for (const auto& sample : samples) {
    for (const auto& point : sample.sensor_frame.frame.points) {
      *out++ = point.x;
      *out++ = point.y;
      *out++ = point.z;
      *out++ = point.intensity / full;
      *out++ = point.time_lag;
    }
    offsets[1] = offsets[0] + static_cast<std::int64_t>(sample.sensor_frame.frame.points.size());
    ++offsets;
  }
}

// What a byte becomes in each of the three planes, and which colour a plane holds: red, green and blue in 0..1, or
// CMT's blue, green and red with its mean and deviation, in the original's arithmetic: a difference in float, times a
// reciprocal in double, rounded once.
struct ByteValues {
  std::array<std::array<float, 256>, 3> of_plane{};
  std::array<std::int64_t, 3> plane_of_colour{0, 1, 2};

  explicit ByteValues(EncoderKind kind) {
    for (std::size_t plane = 0; plane < 3; ++plane)
      for (std::size_t byte = 0; byte < 256; ++byte) {
        const auto value = static_cast<float>(byte);
        of_plane[plane][byte] = kind == EncoderKind::kCmt
                                    ? static_cast<float>(static_cast<double>(value - kCmtImageMean[plane]) *
                                                         (1 / static_cast<double>(kCmtImageDeviation[plane])))
                                    : value / 255;
      }
    if (kind == EncoderKind::kCmt) plane_of_colour = {2, 1, 0};
  }
};

// An image that was not delivered stays black; availability says so.
void copy_image(const sensors::CameraView& view, const ByteValues& values, float* planes) {
  const std::int64_t pixels = view.camera.width * view.camera.height;
  if (view.image.pixels.empty()) {
    std::fill_n(planes, 3 * pixels, 0.0F);
    return;
  }
  const std::uint8_t* byte = view.image.pixels.data();
  for (std::int64_t i = 0; i < pixels; ++i)
    for (const std::int64_t plane : values.plane_of_colour)
      planes[plane * pixels + i] = values.of_plane[static_cast<std::size_t>(plane)][*byte++];
}

// Zeros, the mean colour of CMT's images and black of the others, where the mask covers the image.
void cover_image(const sensors::GridMask& mask, std::int64_t width, std::int64_t height, float* planes) {
  const std::vector<bool> rows = mask.open_rows(height), columns = mask.open_columns(width);
  for (std::int64_t plane = 0; plane < 3; ++plane)
    for (std::int64_t row = 0; row < height; ++row, planes += width) {
      if (rows[static_cast<std::size_t>(row)]) continue;
      for (std::int64_t column = 0; column < width; ++column)
        if (!columns[static_cast<std::size_t>(column)]) planes[column] = 0;
    }
}

void add_images(DetectorBatch& batch, std::span<const sensors::LoadedSample> samples, const DetectorOptions& options) {
  const ByteValues values(options.encoder.kind);
  const auto& cameras = samples[0].sensor_frame.frame.cameras;
  for (std::size_t first = 0; first < cameras.size();) {
    const std::int64_t width = cameras[first].camera.width, height = cameras[first].camera.height;
    std::size_t end = first;
    while (end < cameras.size() && cameras[end].camera.width == width && cameras[end].camera.height == height) ++end;
    auto run = torch::empty({batch.size, static_cast<std::int64_t>(end - first), 3, height, width}, torch::kFloat);
    auto* out = run.data_ptr<float>();
    for (const auto& sample : samples)
      for (std::size_t v = first; v < end; ++v, out += 3 * width * height) {
        copy_image(sample.sensor_frame.frame.cameras[v], values, out);
        if (sample.augmentation.grid_mask) cover_image(*sample.augmentation.grid_mask, width, height, out);
      }
    batch.images.push_back(run);
    first = end;
  }
}

void add_sensors(DetectorBatch& batch, std::span<const sensors::LoadedSample> samples, const DetectorOptions& options) {
  const std::int64_t maps = batch.scene.num_maps();
  batch.available = torch::zeros({batch.size, maps}, torch::kBool);
  batch.age = torch::full({batch.size, maps}, 0.5F);
  batch.level = torch::zeros({batch.size, maps});
  batch.quality = torch::ones({batch.size, maps});
  for (std::int64_t b = 0; b < batch.size; ++b) {
    const auto& sample = samples[static_cast<std::size_t>(b)];
    const auto& frame = sample.sensor_frame.frame;
    for (std::int64_t m = 0; m < maps; ++m) {
      const auto at = static_cast<std::size_t>(m);
      const bool present = m == 0 ? options.uses_lidar() && frame.lidar_available : frame.cameras[at - 1].available;
      const bool stated = at >= sample.sensor_frame.sensors.size() || sample.sensor_frame.sensors[at].available;
      batch.available.data_ptr<bool>()[b * maps + m] = present && stated;
      if (at < sample.sensor_frame.sensors.size())
        batch.quality.data_ptr<float>()[b * maps + m] =
            present && stated ? static_cast<float>(sample.sensor_frame.sensors[at].quality) : 0;
      if (at >= sample.cues.size()) continue;
      batch.age.data_ptr<float>()[b * maps + m] = static_cast<float>(sample.cues[at].age);
      batch.level.data_ptr<float>()[b * maps + m] = static_cast<float>(sample.cues[at].level);
    }
  }
}

// Maps that other encoders made, one file a frame. What a file lacks is refused with its name by the reader, shapes
// that are not the options' by the detector.
void add_features(DetectorBatch& batch, std::span<const sensors::LoadedSample> samples, const EncoderOptions& options) {
  std::vector<torch::Tensor> grids, cameras;
  for (const auto& sample : samples) {
    const auto& frame = sample.sensor_frame.frame;
    if (frame.token.empty())
      throw std::invalid_argument("[collate] samples must come from a data set's tables to find their maps in " +
                                  options.features);
    const storage::SafetensorsFile file(std::filesystem::path(options.features) /
                                        (std::string(frame.token) + ".safetensors"));
    grids.push_back(weights::tensor_of(file.at("bev")).to(torch::kFloat));
    if (!frame.cameras.empty()) cameras.push_back(weights::tensor_of(file.at("cameras")).to(torch::kFloat));
  }
  batch.bev_features = torch::stack(grids);
  if (!cameras.empty()) batch.camera_features.push_back(torch::stack(cameras));
}

}  // namespace

DetectorBatch collate(std::span<const sensors::LoadedSample> samples, const DetectorOptions& options) {
  TORCH_CHECK_VALUE(!samples.empty(), "[collate] samples must hold at least one frame");
  DetectorBatch batch{.size = static_cast<std::int64_t>(samples.size())};
  batch.scene.grid = options.space.grid();
  for (const auto& sample : samples) {
    check_lists(sample);
    const auto& frame = sample.sensor_frame.frame;
    std::vector<geometry::Camera> cameras;
    if (options.uses_cameras())
      for (const auto& view : frame.cameras) cameras.push_back(view.camera);
    batch.scene.cameras.push_back(std::move(cameras));
    batch.targets.push_back(targets_of(sample, options));
    batch.origins.push_back({frame.sample, frame.reference, sample.augmentation.world});
  }
  batch.scene.validate(batch.size);
  if (options.encoder.kind != EncoderKind::kFeatures) {
    add_points(batch, samples, options);
    if (options.uses_cameras()) add_images(batch, samples, options);
  } else if (!options.encoder.features.empty()) {
    add_features(batch, samples, options.encoder);
  }
  add_sensors(batch, samples, options);
  return batch;
}

DetectorBatch collate(const sensors::Batch& batch, const DetectorOptions& options) {
  return collate(std::span<const sensors::LoadedSample>(batch.samples), options);
}

DetectorBatch collate(sensors::SensorFrame sensor_frame, std::vector<sensors::SensorCues> cues,
                      const DetectorOptions& options) {
  sensors::LoadedSample sample{.sensor_frame = std::move(sensor_frame), .cues = std::move(cues)};
  sample.labels = sensors::trust_labels(sample.sensor_frame);
  return collate(std::span<const sensors::LoadedSample>(&sample, 1), options);
}

}  // namespace camber::detection
