#include "camber/eval/detection_box.h"

#include <algorithm>
#include <utility>

namespace camber::eval {
namespace {

constexpr std::pair<std::string_view, DetectionClass> kCategories[] = {
    {"movable_object.barrier", DetectionClass::kBarrier},
    {"vehicle.bicycle", DetectionClass::kBicycle},
    {"vehicle.bus.bendy", DetectionClass::kBus},
    {"vehicle.bus.rigid", DetectionClass::kBus},
    {"vehicle.car", DetectionClass::kCar},
    {"vehicle.construction", DetectionClass::kConstructionVehicle},
    {"vehicle.motorcycle", DetectionClass::kMotorcycle},
    {"human.pedestrian.adult", DetectionClass::kPedestrian},
    {"human.pedestrian.child", DetectionClass::kPedestrian},
    {"human.pedestrian.construction_worker", DetectionClass::kPedestrian},
    {"human.pedestrian.police_officer", DetectionClass::kPedestrian},
    {"movable_object.trafficcone", DetectionClass::kTrafficCone},
    {"vehicle.trailer", DetectionClass::kTrailer},
    {"vehicle.truck", DetectionClass::kTruck},
};

}  // namespace

std::optional<DetectionClass> detection_class(std::string_view name) {
  const auto found = std::find(kDetectionNames.begin(), kDetectionNames.end(), name);
  if (found == kDetectionNames.end()) return std::nullopt;
  return static_cast<DetectionClass>(found - kDetectionNames.begin());
}

std::optional<DetectionClass> class_of_category(std::string_view category) {
  for (const auto& [name, label] : kCategories)
    if (name == category) return label;
  return std::nullopt;
}

std::optional<AttributeNumber> attribute_number(std::string_view name) {
  if (name.empty()) return kNoAttribute;
  const auto found = std::find(kAttributeNames.begin(), kAttributeNames.end(), name);
  if (found == kAttributeNames.end()) return std::nullopt;
  return static_cast<AttributeNumber>(found - kAttributeNames.begin());
}

}  // namespace camber::eval
