#include "camber/sensors/frame.h"

#include <algorithm>
#include <stdexcept>

namespace camber::sensors {
namespace {

std::vector<std::string> chosen_channels(const nuscenes::Dataset& dataset, nuscenes::Modality modality,
                                         const std::vector<std::string>& wanted, const char* argument) {
  std::vector<std::string> known = dataset.channels(modality);
  if (wanted.empty()) return known;
  for (const std::string& channel : wanted) {
    if (std::find(known.begin(), known.end(), channel) != known.end()) continue;
    std::string list;
    for (const std::string& name : known) list += (list.empty() ? "" : ", ") + name;
    throw std::invalid_argument(std::string("[load_frame] ") + argument + " must be among " +
                                (list.empty() ? "none" : list) + ", got '" + channel + "'");
  }
  return wanted;
}

std::vector<std::string> camera_channels(const nuscenes::Dataset& dataset, const FrameOptions& options) {
  std::vector<std::string> chosen = chosen_channels(dataset, nuscenes::Modality::kCamera, options.cameras, "cameras");
  if (!options.cameras.empty()) return chosen;
  const auto rank = [&order = options.camera_order](const std::string& channel) {
    return std::find(order.begin(), order.end(), channel) - order.begin();
  };
  std::stable_sort(chosen.begin(), chosen.end(),
                   [&](const std::string& a, const std::string& b) { return rank(a) < rank(b); });
  return chosen;
}

// The size of the images that a camera delivers, also where it delivered none: that of its first image in the tables.
ImageSize own_size_of(const nuscenes::Dataset& dataset, const std::string& channel, nuscenes::Index at_sample) {
  if (at_sample != nuscenes::kNone) {
    const nuscenes::SampleData& data = dataset.tables().sample_data[at_sample];
    return {data.width, data.height};
  }
  for (const nuscenes::SampleData& data : dataset.tables().sample_data)
    if (data.width > 0 && data.height > 0 && dataset.sensor_of(data).channel == channel)
      return {data.width, data.height};
  return {1, 1};
}

CameraView view_of(const nuscenes::Dataset& dataset, const KeyFrame& frame, const std::string& channel,
                   const FrameOptions& options) {
  const auto cells = [&options](std::int64_t pixels) {
    return std::max<std::int64_t>(1, pixels / options.feature_stride);
  };
  CameraView view;
  view.sample_data = dataset.key_frame(frame.sample, channel);
  const ImageSize size = options.own_size() ? own_size_of(dataset, channel, view.sample_data)
                                            : ImageSize{options.image_width, options.image_height};
  view.camera = {.name = channel,
                 .width = size.width,
                 .height = size.height,
                 .columns = cells(size.width),
                 .rows = cells(size.height),
                 .lidar_to_image = {}};  // all zero: no point has a depth
  if (view.sample_data == nuscenes::kNone) return view;
  const nuscenes::SampleData& data = dataset.tables().sample_data[view.sample_data];
  const nuscenes::SensorPose pose = dataset.pose_of(data);
  if (data.width < 1 || data.height < 1)
    throw std::runtime_error("[load_frame] sample_data '" + std::string(data.token) + "' of camera " + channel +
                             " must state its width and height, got " + std::to_string(data.width) + " x " +
                             std::to_string(data.height));
  if (!geometry::can_project(*dataset.calibration_of(data).intrinsic))
    throw std::runtime_error("[load_frame] camera_intrinsic of camera " + channel +
                             " must be a matrix that can be "
                             "inverted, got none in calibrated_sensor '" +
                             std::string(dataset.calibration_of(data).token) + "'");
  view.available = true;
  view.timestamp = data.timestamp;
  view.transform = geometry::ImageTransform::crop_bottom(data.width, data.height, size.width, size.height,
                                                         options.image_crop, options.resampling);
  view.camera.lidar_to_image =
      geometry::lidar_to_image(frame.reference.sensor_to_ego, frame.reference.ego_to_global, pose.sensor_to_ego,
                               pose.ego_to_global, *dataset.calibration_of(data).intrinsic, view.transform);
  if (options.load_images) view.image = load_image(dataset.path_of(data), {data.width, data.height}, view.transform);
  return view;
}

FrameObject object_of(const nuscenes::Dataset& dataset, const KeyFrame& frame, nuscenes::Index row) {
  const nuscenes::SampleAnnotation& annotation = dataset.tables().sample_annotation[row];
  FrameObject object;
  object.annotation = row;
  object.category = dataset.category_of(annotation);
  object.box = dataset.box_of(annotation, frame.reference);
  object.velocity = frame.reference.sensor_to_global().inverse().rotate(dataset.velocity_of(annotation));
  object.lidar_points = annotation.lidar_points;
  object.radar_points = annotation.radar_points;
  if (annotation.visibility != nuscenes::kNone)
    object.visible_share = dataset.tables().visibility[annotation.visibility].share;
  return object;
}

}  // namespace

FrameOptions FrameOptions::for_drawing() {
  FrameOptions options{.image_width = 0, .image_height = 0, .feature_stride = 1};
  options.sweeps.previous = 0;
  options.range = PointRange::everywhere();
  return options;
}

void FrameOptions::validate() const {
  range.validate();
  if (feature_stride < 1)
    throw std::invalid_argument("[FrameOptions] feature_stride must be at least 1, got " +
                                std::to_string(feature_stride));
  if (own_size()) return;
  if (image_width < feature_stride || image_height < feature_stride)
    throw std::invalid_argument("[FrameOptions] the image must be at least one feature cell of " +
                                std::to_string(feature_stride) + " pixels wide and high, got " +
                                std::to_string(image_width) + " x " + std::to_string(image_height));
}

KeyFrame load_key_frame(const nuscenes::Dataset& dataset, nuscenes::Index sample, const FrameOptions& options) {
  options.validate();
  const nuscenes::Tables& tables = dataset.tables();
  if (sample < 0 || static_cast<std::size_t>(sample) >= tables.sample.size())
    throw std::invalid_argument("[load_frame] sample must be a row of the sample table, got " + std::to_string(sample));
  const std::vector<std::string> lidars =
      chosen_channels(dataset, nuscenes::Modality::kLidar, options.lidars, "lidars");
  const std::vector<std::string> cameras = camera_channels(dataset, options);
  const std::string reference = dataset.reference_channel();
  const nuscenes::Index reference_row = dataset.key_frame(sample, reference);
  if (reference_row == nuscenes::kNone)
    throw std::runtime_error("[load_frame] sample '" + std::string(tables.sample[sample].token) +
                             "' must have a key frame of " + (reference.empty() ? "a LiDAR or camera" : reference));
  const nuscenes::SampleData& data = tables.sample_data[reference_row];
  KeyFrame frame{.sample = sample,
                 .token = tables.sample[sample].token,
                 .timestamp = data.timestamp,
                 .reference = dataset.pose_of(data)};
  if (dataset.sensor_of(data).modality != nuscenes::Modality::kLidar) frame.reference.sensor_to_ego = {};
  frame.lidar_available = std::any_of(lidars.begin(), lidars.end(), [&](const std::string& channel) {
    return dataset.key_frame(sample, channel) != nuscenes::kNone;
  });
  if (options.load_points && frame.lidar_available) {
    frame.points = aggregate_sweeps(dataset, sample, lidars, reference, options.sweeps);
    keep_range(frame.points, options.range);
  }
  for (const std::string& channel : cameras) frame.cameras.push_back(view_of(dataset, frame, channel, options));
  for (const nuscenes::Index row : tables.annotations_of(sample))
    frame.objects.push_back(object_of(dataset, frame, row));
  return frame;
}

}  // namespace camber::sensors
