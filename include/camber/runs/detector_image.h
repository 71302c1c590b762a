#pragma once
#include <string>
#include <vector>

#include <camber/runs/detector_passes.h>
#include <camber/sensors/frame_image.h>

namespace camber::runs {

/// A frame as it is drawn, at the cameras' own size, and what was found in it.
struct FoundFrame {
  sensors::SensorFrame frame{};
  std::vector<detection::Detection> found{};
};

/// The key frame with these faults for drawing: those that run_passes lets happen to it for the same request. Cameras
/// stand in the order that the detector has them in (DetectorOptions::frame_options), which faults of some count by.
sensors::SensorFrame frame_for_drawing(const DetectionRequest& request, nuscenes::Index sample,
                                       const Condition& condition, const std::vector<std::string>& camera_order);

/// The true boxes, and the found ones with class and score and, for a router, its trust; best scores first.
std::vector<sensors::BoxMark> marks_of(const FoundFrame& frame, const detection::DetectorOptions& options,
                                       double min_score);

}  // namespace camber::runs
