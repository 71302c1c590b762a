#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "camber/eval/detection_box.h"

namespace camber::eval {

struct ClassRange {
  DetectionClass label = DetectionClass::kCar;
  double range = 50;  ///< metres from the ego vehicle; boxes at or beyond it are left out
};

/// What is evaluated and how: the official configuration unless another is read. Its name stands beside every metric.
struct EvaluationConfig {
  std::string name = "detection_cvpr_2019";
  std::vector<ClassRange> class_ranges{{DetectionClass::kCar, 50},
                                       {DetectionClass::kTruck, 50},
                                       {DetectionClass::kBus, 50},
                                       {DetectionClass::kTrailer, 50},
                                       {DetectionClass::kConstructionVehicle, 50},
                                       {DetectionClass::kPedestrian, 40},
                                       {DetectionClass::kMotorcycle, 40},
                                       {DetectionClass::kBicycle, 40},
                                       {DetectionClass::kTrafficCone, 30},
                                       {DetectionClass::kBarrier, 30}};
  std::vector<double> distance_thresholds{0.5, 1, 2, 4};                ///< metres between centres
  std::vector<std::string> distance_names{"0.5", "1.0", "2.0", "4.0"};  ///< how they are written in the summary
  double tp_threshold = 2;                                              ///< the one that the errors are taken at
  double min_recall = 0.1, min_precision = 0.1;
  std::int64_t max_boxes_per_sample = 500;
  double mean_ap_weight = 5;

  /// The range of a class; nothing when the configuration leaves it out.
  std::optional<double> range_of(DetectionClass label) const;
  /// The rules between the numbers.
  void validate() const;

  /// Reads the devkit's JSON format; the name is the file's stem. Beyond the devkit, a configuration may leave classes
  /// out: they are then neither asked for nor counted.
  static EvaluationConfig read(const std::filesystem::path& path);
};

}  // namespace camber::eval
