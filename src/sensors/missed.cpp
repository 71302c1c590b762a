#include "sensors/missed.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

namespace camber::sensors {
namespace {

std::string share_of(std::int64_t part, std::int64_t whole) {
  return fmt::format("{} of {} ({:.1f} %)", part, whole,
                     100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

void miss_annotations(const Inspection& counted, std::vector<std::string>& missed) {
  if (counted.objects == 0) {
    missed.emplace_back("no object is annotated: predict runs, training and evaluation need boxes");
    return;
  }
  std::int64_t without_points = 0, without_velocity = 0;
  for (const CategoryCounts& entry : counted.categories) {
    if (!counted.point_edges.empty() && counted.point_edges[0] <= 0 && counted.point_edges.size() > 1 &&
        counted.point_edges[1] == 1)
      without_points += entry.by_points[0];
    without_velocity += entry.without_velocity;
  }
  if (without_points > 0)
    missed.push_back(share_of(without_points, counted.objects) +
                     " objects have no LiDAR point: the metric does not ask for them, and training does not show them");
  if (without_velocity == counted.objects)
    missed.emplace_back(
        "no object has a velocity (each is seen in one frame): speeds cannot be learned, mAVE means nothing");
  else if (without_velocity > 0)
    missed.push_back(share_of(without_velocity, counted.objects) + " objects have no velocity");
}

void miss_sensors(const Inspection& counted, std::vector<std::string>& missed) {
  bool lidar = false, sweeps = false;
  for (const SensorCounts& sensor : counted.sensors) {
    lidar = lidar || (sensor.modality == nuscenes::Modality::kLidar && sensor.key_frames > 0);
    sweeps = sweeps || (sensor.modality == nuscenes::Modality::kLidar && sensor.sweeps > 0);
    if (sensor.absent > 0 &&
        (sensor.modality == nuscenes::Modality::kCamera || sensor.modality == nuscenes::Modality::kLidar))
      missed.push_back(fmt::format("{} delivered nothing at {} samples: it is off there", sensor.channel,
                                   share_of(sensor.absent, counted.samples)));
    if (sensor.modality == nuscenes::Modality::kRadar)
      missed.push_back(sensor.channel + " is a radar: no detector here looks at it");
  }
  if (!lidar) missed.emplace_back("there is no LiDAR: trust can only turn from camera to camera");
  if (lidar && !sweeps)
    missed.emplace_back("there are no LiDAR sweeps between key frames: a frame has one sweep's points");
}

void miss_classes(const InspectionOptions& options, const Inspection& counted, std::vector<std::string>& missed) {
  if (!options.class_of) return;
  std::map<std::string, std::int64_t> objects;
  for (const CategoryCounts& entry : counted.categories) {
    const std::string name = options.class_of(entry.category);
    if (name.empty())
      missed.push_back(fmt::format("category {} is no class of the metric: its {} objects are never asked for",
                                   entry.category, entry.objects));
    else
      objects[name] += entry.objects;
  }
  if (!options.detector || counted.objects == 0) return;
  const std::vector<std::string>& classes = options.detector->classes;
  for (const auto& [name, count] : objects)
    if (std::find(classes.begin(), classes.end(), name) == classes.end())
      missed.push_back(fmt::format("class {} is not among the detector's: its {} objects are background", name, count));
  for (const std::string& name : classes)
    if (!objects.contains(name)) missed.push_back(fmt::format("class {} of the detector has no object here", name));
}

// Goes through the frames without reading a file: where objects are, and which camera's network image shows them.
void miss_objects(const nuscenes::Dataset& dataset, const nuscenes::Split& split, const DetectorView& detector,
                  std::vector<std::string>& missed) {
  FrameOptions network = detector.frame, own = FrameOptions::for_drawing();
  for (FrameOptions* options : {&network, &own}) options->load_points = options->load_images = false;
  own.cameras = network.cameras;
  own.camera_order = network.camera_order;
  std::int64_t objects = 0, outside = 0, cropped = 0, unseen = 0, most = 0;
  for (const nuscenes::Index sample : split.samples) {
    const KeyFrame frame = load_key_frame(dataset, sample, network), whole = load_key_frame(dataset, sample, own);
    most = std::max(most, static_cast<std::int64_t>(frame.objects.size()));
    for (const FrameObject& object : frame.objects) {
      const auto& c = object.box.center;
      const auto sees = [&c](const CameraView& view) { return view.camera.sees(view.camera.project(c)); };
      const bool in_network = std::any_of(frame.cameras.begin(), frame.cameras.end(), sees);
      const bool in_image = std::any_of(whole.cameras.begin(), whole.cameras.end(), sees);
      ++objects;
      outside += !network.range.contains(
          {static_cast<float>(c[0]), static_cast<float>(c[1]), static_cast<float>(c[2]), 0, 0, 0});
      cropped += in_image && !in_network;
      unseen += !in_image && object.lidar_points == 0;
    }
  }
  if (outside > 0)
    missed.push_back(
        fmt::format("{} objects lie outside of the detector's space (x {:g} to {:g}, y {:g} to {:g}, z {:g} to {:g} m)",
                    share_of(outside, objects), network.range.x_min, network.range.x_max, network.range.y_min,
                    network.range.y_max, network.range.z_min, network.range.z_max));
  if (cropped > 0)
    missed.push_back(
        fmt::format("{} objects are in a camera's image and not in the part of it that fits the network's {} x {}",
                    share_of(cropped, objects), network.image_width, network.image_height));
  if (unseen > 0) missed.push_back(share_of(unseen, objects) + " objects have no LiDAR point and are in no image");
  if (most > detector.queries)
    missed.push_back(fmt::format("a frame has {} objects, the detector {} queries", most, detector.queries));
}

}  // namespace

std::vector<std::string> missed_by_detector(const nuscenes::Dataset& dataset, const nuscenes::Split& split,
                                            const InspectionOptions& options, const Inspection& counted) {
  std::vector<std::string> missed;
  miss_annotations(counted, missed);
  miss_classes(options, counted, missed);
  miss_sensors(counted, missed);
  if (options.detector && counted.objects > 0) miss_objects(dataset, split, *options.detector, missed);
  return missed;
}

}  // namespace camber::sensors
