#pragma once
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "camber/nuscenes/dataset_writer.h"

/// What a scene hands over to its data set, and what both write.
namespace camber::nuscenes {

using RowJson = nlohmann::ordered_json;

/// Rows of the large tables as JSON text, separated by commas; of the small ones as they are.
struct SceneRows {
  bool finished = false;
  std::string name{};
  std::string scene{}, sample{}, sample_data{}, ego_pose{}, instance{}, sample_annotation{};
  std::vector<RowJson> calibrations{};                  ///< of a scene with its own
  std::vector<std::string> categories{}, attributes{};  ///< in the order in which its boxes bring them
  WrittenCounts counts{};
};

/// The reference sensor of a rig, as Dataset::reference_channel finds it.
std::string reference_of(const std::vector<RigSensor>& sensors);
/// One row of calibrated_sensor.
RowJson calibration_row(const RigSensor& sensor, const std::string& token, const std::string& sensor_token);
/// What a calibration is called in tokens: the channel, and for a scene's own the numbers too.
std::string calibration_name(const RigSensor& sensor);

}  // namespace camber::nuscenes
