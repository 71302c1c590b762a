#include "sensors/fault_occasion.h"

#include <cmath>
#include <stdexcept>

#include "camber/sensors/fault_effects.h"

namespace camber::sensors {
namespace {

nuscenes::Index draw_from_other_scene(const FaultOccasion& occasion) {
  const nuscenes::Tables& tables = occasion.dataset.tables();
  std::vector<nuscenes::Index> others;
  for (const nuscenes::Index candidate : occasion.pool)
    if (tables.sample[candidate].scene != tables.sample[occasion.sample].scene) others.push_back(candidate);
  if (others.empty())
    throw std::invalid_argument(
        "[fault] a frame to repeat must exist: the scene has no earlier one and the split no other scene");
  return others[occasion.frame.at("other scene").integer(others.size())];
}

}  // namespace

FaultOccasion::FaultOccasion(const nuscenes::Dataset& data, std::span<const nuscenes::Index> samples, const Fault& what,
                             std::size_t position, nuscenes::Index when, const random::Stream& stream)
    : dataset(data),
      pool(samples),
      fault(what),
      sample(when),
      scene(stream.at(fault_row(what.kind).name)
                .at(position)
                .at(data.tables().scene[data.tables().sample[when].scene].token)),
      frame(stream.at(fault_row(what.kind).name).at(position).at(data.tables().sample[when].token)) {}

Repeated frame_to_repeat(const FaultOccasion& occasion) {
  const nuscenes::Tables& tables = occasion.dataset.tables();
  const auto ago = static_cast<std::int64_t>(occasion.fault.value());
  Repeated repeated{.sample = occasion.sample};
  while (repeated.held < ago && tables.sample[repeated.sample].previous != nuscenes::kNone) {
    repeated.sample = tables.sample[repeated.sample].previous;
    ++repeated.held;
  }
  const FaultSource source = occasion.fault.source;
  const bool drawn = occasion.frame.at("source").uniform() < 0.5;
  repeated.other_scene =
      repeated.held == 0 || source == FaultSource::kOtherScene || (source == FaultSource::kMixed && drawn);
  if (repeated.other_scene) repeated.sample = draw_from_other_scene(occasion);
  return repeated;
}

double stated_quality(const Fault& fault, bool other_scene) {
  return other_scene ? 0 : fault_row(fault.kind).quality[static_cast<std::size_t>(fault.severity - 1)];
}

geometry::RigidTransform believed_mount(const FaultOccasion& occasion, const geometry::RigidTransform& camera_to_ego,
                                        std::size_t camera) {
  // Down is the second axis of a camera.
  const double half = calibration_error(occasion.fault, camera, occasion.scene) / 2;
  return camera_to_ego * geometry::RigidTransform::from({std::cos(half), 0, std::sin(half), 0}, {});
}

}  // namespace camber::sensors
