#pragma once
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "camber/detection/detector_options.h"
#include "camber/eval/detection_box.h"
#include "camber/eval/evaluation_config.h"
#include "camber/geometry/box.h"
#include "camber/nuscenes/dataset.h"

namespace camber::detection {

/// One found object, in the frame of the LiDAR at the key frame.
struct Detection {
  geometry::Box box{};
  std::array<double, 2> velocity{};  ///< m/s in the same frame
  double score = 0;
  std::int64_t label = 0;       ///< index in DetectorOptions::classes
  std::int64_t query = 0;       ///< which query found it
  std::vector<double> trust{};  ///< [-1, 1] for LiDAR and cameras (or each camera); empty without a router
  double agreement = std::numeric_limits<double>::quiet_NaN();  ///< of its frame's sensors; NaN: not known
  std::vector<double> attention_mass{};  ///< share of its attention on the grid and on each camera; sums to 1, or to 0
};

/// The attribute that the class and the speed suggest, as nuScenes' baselines choose it: above 0.2 m/s vehicles move
/// and cycles have riders.
eval::AttributeNumber likely_attribute(eval::DetectionClass label, double speed);

/// Whether a submission keeps it: the centre lies at most its class's range from the ego vehicle, in the ego frame's
/// plane at the key frame. A class that the evaluation leaves out has no range.
bool within_range(const Detection& detection, const nuscenes::SensorPose& reference, const DetectorOptions& options,
                  const eval::EvaluationConfig& config);

/// The detection in the global frame, for the evaluator and for results files; `sample` and `ego_distance` are left to
/// add_sample and the evaluator. Its rotation is the whole one: the heading in the LiDAR's frame and the tilt of the
/// sensor and the car. `reference` is DetectorBatch::origins[b].reference.
eval::DetectionBox to_global(const Detection& detection, const nuscenes::SensorPose& reference,
                             const DetectorOptions& options);

/// Adds a frame's detections, in the global frame, as the next sample of predictions.
///
///   eval::SampleBoxes predictions;
///   add_sample(predictions, token, found[b], batch.origins[b].reference, options);
void add_sample(eval::SampleBoxes& predictions, std::string token, std::span<const Detection> detections,
                const nuscenes::SensorPose& reference, const DetectorOptions& options);

}  // namespace camber::detection
