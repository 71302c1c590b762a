#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "camber/geometry/transform.h"

/// The nuScenes detection evaluation, to the last digit of nuscenes-devkit.
namespace camber::eval {

/// The ten classes of the detection task in the devkit's order.
enum class DetectionClass : std::uint8_t {
  kCar,
  kTruck,
  kBus,
  kTrailer,
  kConstructionVehicle,
  kPedestrian,
  kMotorcycle,
  kBicycle,
  kTrafficCone,
  kBarrier
};
inline constexpr std::size_t kClassCount = 10;
inline constexpr std::array<std::string_view, kClassCount> kDetectionNames = {
    "car",        "truck",      "bus",     "trailer",      "construction_vehicle",
    "pedestrian", "motorcycle", "bicycle", "traffic_cone", "barrier"};
inline constexpr std::string_view name_of(DetectionClass label) {
  return kDetectionNames[static_cast<std::size_t>(label)];
}
/// The class of that name; nothing when it is none of the ten.
std::optional<DetectionClass> detection_class(std::string_view name);
/// The class that a category of the tables belongs to; nothing when the task leaves it out.
std::optional<DetectionClass> class_of_category(std::string_view category);
inline constexpr std::string_view kBicycleRackCategory = "static_object.bicycle_rack";

inline constexpr std::array<std::string_view, 8> kAttributeNames = {
    "pedestrian.moving",   "pedestrian.sitting_lying_down",
    "pedestrian.standing", "cycle.with_rider",
    "cycle.without_rider", "vehicle.moving",
    "vehicle.parked",      "vehicle.stopped"};
using AttributeNumber = std::int8_t;
inline constexpr AttributeNumber kNoAttribute = -1;
/// The number of an attribute, kNoAttribute for the empty name; nothing when it is unknown.
std::optional<AttributeNumber> attribute_number(std::string_view name);

/// A box in the global frame: a true object or a prediction.
struct DetectionBox {
  geometry::Vector3 translation{};
  geometry::Vector3 size{};          ///< width, length, height
  std::array<double, 4> rotation{};  ///< quaternion w, x, y, z, of any length
  std::array<double, 2> velocity{};  ///< NaN where it is not known
  double score = -1;                 ///< predictions
  double ego_distance = 0;           ///< in the plane, from the ego vehicle
  std::int32_t sample = -1;          ///< whose true objects it is compared with; -1: of no sample there is
  std::int32_t points = -1;          ///< LiDAR and radar points inside; -1: not counted
  DetectionClass label = DetectionClass::kCar;
  AttributeNumber attribute = kNoAttribute;
};

/// Boxes sample by sample. The order of samples and of boxes within them matters: it decides between equal scores.
struct SampleBoxes {
  std::vector<std::string> tokens{};
  std::vector<std::size_t> offsets{0};  ///< [tokens + 1]
  std::vector<DetectionBox> boxes{};

  std::size_t samples() const { return tokens.size(); }
  std::span<const DetectionBox> of(std::size_t sample) const {
    return {boxes.data() + offsets[sample], offsets[sample + 1] - offsets[sample]};
  }
  std::span<DetectionBox> of(std::size_t sample) {
    return {boxes.data() + offsets[sample], offsets[sample + 1] - offsets[sample]};
  }
  /// Starts the next sample; boxes pushed from now on are its own.
  void open_sample(std::string token) {
    tokens.push_back(std::move(token));
    offsets.push_back(boxes.size());
  }
  void push(const DetectionBox& box) {
    boxes.push_back(box);
    ++offsets.back();
  }
  /// Keeps the boxes for which keep(sample, box) holds.
  template <class Keep>
  void filter(Keep&& keep) {
    std::size_t kept = 0, next = 0;
    for (std::size_t sample = 0; sample < tokens.size(); ++sample) {
      const std::size_t end = offsets[sample + 1];
      offsets[sample] = kept;
      for (; next < end; ++next)
        if (keep(sample, boxes[next])) boxes[kept++] = boxes[next];
    }
    offsets.back() = kept;
    boxes.resize(kept);
  }
};

}  // namespace camber::eval
