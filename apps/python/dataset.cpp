#include "apps/python/dataset.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

#include "apps/python/detector.h"
#include "camber/nuscenes/splits.h"
#include "camber/sensors/cue_errors.h"
#include "camber/sensors/fault_effects.h"
#include "camber/sensors/sensor_frame.h"

namespace camber::python {
namespace {

static_assert(sizeof(sensors::LidarPoint) == 6 * sizeof(float));

torch::Tensor tensor_of(const std::vector<sensors::LidarPoint>& points) {
  auto tensor = torch::empty({static_cast<std::int64_t>(points.size()), 6});
  if (!points.empty()) std::memcpy(tensor.mutable_data_ptr<float>(), points.data(), points.size() * sizeof(points[0]));
  return tensor;
}

torch::Tensor tensor_of(const sensors::Image& image) {
  auto tensor = torch::empty({image.height, image.width, 3}, torch::kByte);
  std::copy(image.pixels.begin(), image.pixels.end(), tensor.mutable_data_ptr<std::uint8_t>());
  return tensor;
}

template <std::size_t kSize>
void put(torch::Tensor& tensor, std::size_t row, const std::array<double, kSize>& numbers) {
  std::copy(numbers.begin(), numbers.end(), tensor.mutable_data_ptr<double>() + row * kSize);
}

nuscenes::Split split_of(const nuscenes::Dataset& dataset, const std::string& name) {
  return name.empty() ? nuscenes::whole_data_set(dataset) : nuscenes::find_split(dataset, name);
}

sensors::FrameOptions options_of(const nuscenes::Dataset& dataset, nuscenes::Index sample, std::int64_t sweeps,
                                 std::int64_t width, std::int64_t height) {
  sensors::FrameOptions options{
      .image_width = width, .image_height = height, .feature_stride = 1, .range = sensors::PointRange::everywhere()};
  options.sweeps.previous = sweeps;
  for (const std::string& channel : dataset.channels(nuscenes::Modality::kCamera)) {
    const nuscenes::Index data = dataset.key_frame(sample, channel);
    if (options.image_width > 0 || data == nuscenes::kNone) continue;
    options.image_width = dataset.tables().sample_data[data].width;
    options.image_height = dataset.tables().sample_data[data].height;
  }
  options.load_images = options.image_width > 0;
  if (!options.load_images) options.image_width = options.image_height = 1;
  return options;
}

// The intrinsic of the image as it was loaded, and the pose that remains of lidar_to_image, a fault's error included.
void put_calibration(const nuscenes::Dataset& dataset, const sensors::CameraView& view, std::size_t row,
                     torch::Tensor& intrinsics, torch::Tensor& lidar_to_camera) {
  geometry::Matrix3 intrinsic = geometry::kIdentity3;
  geometry::Matrix4 pose = geometry::kIdentity4;
  if (view.sample_data != nuscenes::kNone) {
    const auto& calibration = dataset.calibration_of(dataset.tables().sample_data[view.sample_data]);
    intrinsic = geometry::multiply(view.transform.matrix(), calibration.intrinsic.value_or(geometry::kIdentity3));
    const auto& k = intrinsic;
    pose = geometry::multiply(
        geometry::inverse({k[0], k[1], k[2], 0, k[3], k[4], k[5], 0, k[6], k[7], k[8], 0, 0, 0, 0, 1}),
        view.camera.lidar_to_image);
  }
  put(intrinsics, row, intrinsic);
  put(lidar_to_camera, row, pose);
}

void put_objects(const sensors::KeyFrame& frame, LoadedFrame& loaded) {
  const auto count = static_cast<std::int64_t>(frame.objects.size());
  auto boxes = torch::empty({count, 7}, torch::kDouble), velocity = torch::empty({count, 3}, torch::kDouble);
  auto points = torch::empty({count}, torch::kLong);
  for (std::size_t i = 0; i < frame.objects.size(); ++i) {
    const sensors::FrameObject& object = frame.objects[i];
    const geometry::Box& box = object.box;
    put<7>(boxes, i, {box.center[0], box.center[1], box.center[2], box.length, box.width, box.height, box.yaw});
    put(velocity, i, object.velocity);
    points.mutable_data_ptr<std::int64_t>()[i] = object.lidar_points;
    std::get<3>(loaded).emplace_back(object.category);
  }
  auto& tensors = std::get<0>(loaded);
  tensors.insert("boxes", boxes);
  tensors.insert("velocity", velocity);
  tensors.insert("lidar_points", points);
}

LoadedFrame loaded_of(const nuscenes::Dataset& dataset, const sensors::SensorFrame& delivered) {
  const sensors::KeyFrame& frame = delivered.frame;
  const auto cameras = static_cast<std::int64_t>(frame.cameras.size());
  auto intrinsics = torch::empty({cameras, 3, 3}, torch::kDouble);
  auto lidar_to_camera = torch::empty({cameras, 4, 4}, torch::kDouble), poses = torch::empty({2, 4, 4}, torch::kDouble);
  auto times = torch::empty({1 + cameras}, torch::kLong), quality = torch::empty({1 + cameras}, torch::kDouble);
  auto available = torch::empty({1 + cameras}, torch::kBool);
  LoadedFrame loaded;
  for (std::size_t i = 0; i < delivered.sensors.size(); ++i) {
    times.mutable_data_ptr<std::int64_t>()[i] = delivered.sensors[i].timestamp;
    quality.mutable_data_ptr<double>()[i] = delivered.sensors[i].quality;
    available.mutable_data_ptr<bool>()[i] = delivered.sensors[i].available;
  }
  for (std::size_t i = 0; i < frame.cameras.size(); ++i) {
    const sensors::CameraView& view = frame.cameras[i];
    std::get<1>(loaded).push_back(tensor_of(view.image));
    std::get<2>(loaded).push_back(view.camera.name);
    put_calibration(dataset, view, i, intrinsics, lidar_to_camera);
  }
  put(poses, 0, frame.reference.sensor_to_ego.matrix());
  put(poses, 1, frame.reference.ego_to_global.matrix());
  auto& tensors = std::get<0>(loaded);
  tensors.insert("points", tensor_of(frame.points));
  tensors.insert("intrinsics", intrinsics);
  tensors.insert("lidar_to_camera", lidar_to_camera);
  tensors.insert("poses", poses);
  tensors.insert("timestamps", times);
  tensors.insert("available", available);
  tensors.insert("quality", quality);
  tensors.insert("timestamp", torch::tensor(frame.timestamp));
  put_objects(frame, loaded);
  return loaded;
}

sensors::Fault degrading(const std::string& text, bool lidar) {
  const sensors::Fault fault = sensors::parse_fault(text);
  if (fault.is_lidar() != lidar || fault.repeats() || sensors::fault_row(fault.kind).known ||
      fault.kind == sensors::FaultKind::kCalibration)
    throw std::invalid_argument("[faults] fault must be one that degrades " +
                                std::string(lidar ? "a cloud" : "an image") + " by itself, got " + fault.text() +
                                ": Dataset.frame knows all of them");
  return fault;
}

}  // namespace

std::vector<std::string> Dataset::samples(const std::string& split) const {
  return told([&] {
    std::vector<std::string> tokens;
    for (const nuscenes::Index sample : split_of(dataset_, split).samples)
      tokens.emplace_back(dataset_.tables().sample[sample].token);
    return tokens;
  });
}

std::vector<std::string> Dataset::scenes() const {
  std::vector<std::string> names;
  for (const auto& scene : dataset_.tables().scene) names.emplace_back(scene.name);
  return names;
}

std::vector<std::string> Dataset::samples_of(const std::string& scene) const {
  return told([&] {
    const auto& tables = dataset_.tables();
    for (const auto& row : tables.scene) {
      if (row.name != scene) continue;
      std::vector<std::string> tokens;
      for (nuscenes::Index i = row.first_sample; i != nuscenes::kNone; i = tables.sample[i].next)
        tokens.emplace_back(tables.sample[i].token);
      return tokens;
    }
    throw std::invalid_argument("[nuscenes] scene must be one of the data set's, got '" + scene + "'");
  });
}

LoadedFrame Dataset::frame(const std::string& token, const std::string& faults, const std::string& split,
                           std::int64_t seed, std::int64_t sweeps, std::int64_t width, std::int64_t height) const {
  return told([&] {
    const nuscenes::Index sample = dataset_.tables().sample.find(token);
    if (sample == nuscenes::kNone)
      throw std::invalid_argument("[nuscenes] token must be one of a sample, got '" + token + "'");
    sensors::refuse_cue_errors(faults, "[nuscenes] faults",
                               "a frame is read without cues (camber.faults.degrade_cues lets given ones err)");
    const std::vector<sensors::Fault> list = sensors::parse_faults(faults);
    const auto pool = split_of(dataset_, split).samples;
    return loaded_of(dataset_,
                     sensors::load_sensor_frame(dataset_, sample, options_of(dataset_, sample, sweeps, width, height),
                                                list, pool, {static_cast<std::uint64_t>(seed), "faults"}));
  });
}

torch::Tensor degrade_image(const torch::Tensor& image, const std::string& fault, std::int64_t seed) {
  return told([&] {
    const auto bytes = image.contiguous();
    sensors::Image copy{.width = image.size(1), .height = image.size(0)};
    copy.pixels.assign(bytes.const_data_ptr<std::uint8_t>(), bytes.const_data_ptr<std::uint8_t>() + bytes.numel());
    sensors::degrade_image(copy, degrading(fault, false), {static_cast<std::uint64_t>(seed), "faults"});
    return tensor_of(copy);
  });
}

torch::Tensor degrade_points(const torch::Tensor& points, const std::string& fault, const torch::Tensor& objects,
                             const torch::Tensor& ahead, std::int64_t seed) {
  return told([&] {
    const auto cloud = points.contiguous(), boxes = objects.contiguous();
    std::vector<sensors::LidarPoint> copy;
    copy.reserve(static_cast<std::size_t>(cloud.size(0)));
    const auto* p = cloud.const_data_ptr<float>();
    for (std::int64_t i = 0; i < cloud.size(0); ++i, p += 6) copy.push_back({p[0], p[1], p[2], p[3], p[4], p[5]});
    std::vector<geometry::Box> known;
    for (std::int64_t i = 0; i < boxes.size(0); ++i) {
      const auto* b = boxes.const_data_ptr<double>() + 7 * i;
      known.push_back({.center = {b[0], b[1], b[2]}, .length = b[3], .width = b[4], .height = b[5], .yaw = b[6]});
    }
    const auto direction = ahead.contiguous();
    const auto* look = direction.const_data_ptr<double>();
    const random::Stream stream(static_cast<std::uint64_t>(seed), "faults");
    sensors::degrade_points(copy, degrading(fault, true), {.objects = known, .ahead = {look[0], look[1], look[2]}},
                            stream.at("scene"), stream.at("frame"));
    return tensor_of(copy);
  });
}

torch::Tensor degrade_cues(const torch::Tensor& cues, const std::string& errors, const torch::Tensor& available,
                           std::int64_t scene, std::int64_t frame, std::int64_t seed) {
  return told([&] {
    const auto numbers = cues.contiguous(), delivers = available.contiguous();
    std::vector<sensors::SensorCues> all(static_cast<std::size_t>(numbers.size(0)));
    const auto* age_and_level = numbers.const_data_ptr<double>();
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] = {.age = age_and_level[2 * i],
                .level = age_and_level[2 * i + 1],
                .available = delivers.const_data_ptr<bool>()[i]};
    constexpr std::uint64_t kEpoch = 0;
    sensors::apply_cue_errors(all, sensors::parse_cue_errors(errors),
                              random::Stream(static_cast<std::uint64_t>(seed), "data.cue_errors")
                                  .at(kEpoch)
                                  .at(static_cast<std::uint64_t>(scene)),
                              frame);
    auto result = numbers.clone();
    for (std::size_t i = 0; i < all.size(); ++i) result.mutable_data_ptr<double>()[2 * i] = all[i].age;
    return result;
  });
}

}  // namespace camber::python
