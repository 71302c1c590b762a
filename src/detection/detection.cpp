#include "camber/detection/detection.h"

#include <cmath>

namespace camber::detection {

eval::AttributeNumber likely_attribute(eval::DetectionClass label, double speed) {
  using eval::DetectionClass;
  const bool moves = speed > 0.2;
  const auto number = [](std::string_view name) { return *eval::attribute_number(name); };
  switch (label) {
    case DetectionClass::kCar:
    case DetectionClass::kTruck:
    case DetectionClass::kTrailer:
    case DetectionClass::kConstructionVehicle:
      return number(moves ? "vehicle.moving" : "vehicle.parked");
    case DetectionClass::kBus:
      return number(moves ? "vehicle.moving" : "vehicle.stopped");
    case DetectionClass::kPedestrian:
      return number(moves ? "pedestrian.moving" : "pedestrian.standing");
    case DetectionClass::kMotorcycle:
    case DetectionClass::kBicycle:
      return number(moves ? "cycle.with_rider" : "cycle.without_rider");
    default:
      return eval::kNoAttribute;
  }
}

bool within_range(const Detection& detection, const nuscenes::SensorPose& reference, const DetectorOptions& options,
                  const eval::EvaluationConfig& config) {
  const auto label = *eval::detection_class(options.classes[static_cast<std::size_t>(detection.label)]);
  const auto range = config.range_of(label);
  const auto centre = reference.sensor_to_ego.apply(detection.box.center);
  return !range || std::hypot(centre[0], centre[1]) <= *range;
}

eval::DetectionBox to_global(const Detection& detection, const nuscenes::SensorPose& reference,
                             const DetectorOptions& options) {
  const auto to_global = reference.sensor_to_global();
  const auto& box = detection.box;
  const auto rotation = geometry::Quaternion::from_matrix(to_global.rotation) * geometry::Quaternion::from_yaw(box.yaw);
  const auto velocity = to_global.rotate({detection.velocity[0], detection.velocity[1], 0});
  const auto label = *eval::detection_class(options.classes[static_cast<std::size_t>(detection.label)]);
  eval::DetectionBox result;
  result.translation = to_global.apply(box.center);
  result.size = {box.width, box.length, box.height};
  result.rotation = {rotation.w, rotation.x, rotation.y, rotation.z};
  result.velocity = {velocity[0], velocity[1]};
  result.score = detection.score;
  result.label = label;
  result.attribute = likely_attribute(label, std::hypot(velocity[0], velocity[1]));
  return result;
}

void add_sample(eval::SampleBoxes& predictions, std::string token, std::span<const Detection> detections,
                const nuscenes::SensorPose& reference, const DetectorOptions& options) {
  predictions.open_sample(std::move(token));
  for (const auto& detection : detections) {
    auto box = to_global(detection, reference, options);
    box.sample = static_cast<std::int32_t>(predictions.samples() - 1);
    predictions.push(box);
  }
}

}  // namespace camber::detection
