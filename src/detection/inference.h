#pragma once
#include <vector>

#include "camber/detection/detector.h"

namespace camber::detection {

/// Refuses a detector that is being trained or that has no encoders of its own.
void check_can_detect(const DetectorImpl& model);

/// Boxes of one frame, and how far its sensors agree: all together, and each camera with the LiDAR; NaN where it is not
/// known, no camera where it never is.
struct FoundInFrame {
  std::vector<Detection> found{};
  double agreement = kNotKnown;
  std::vector<double> camera_agreement{};
};

/// Boxes of one frame with what is known of its sensors: points are cut to the space, position embeddings of the keys
/// kept for each calibration.
FoundInFrame detect_sensor_frame(DetectorImpl& model, sensors::SensorFrame sensor_frame,
                                 std::vector<sensors::SensorCues> cues, ForwardOptions options = {});

}  // namespace camber::detection
