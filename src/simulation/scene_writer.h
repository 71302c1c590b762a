#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "camber/simulation/simulate.h"

namespace camber::simulation {

/// A 32-digit token in the manner of nuScenes, named by its stream.
std::string token_of(random::Stream stream);

/// Tokens that all scenes share.
struct SharedTokens {
  std::vector<std::string> cameras{};  ///< of calibrated_sensor, in the rig's order
  std::string lidar{};
  std::vector<std::string> categories{};  ///< by ActorKind
  std::string vehicle_moving{}, vehicle_parked{}, pedestrian_moving{}, pedestrian_standing{};
};

/// The rows that one scene adds to the tables, as JSON text: rows separated by commas.
struct SceneRows {
  std::string scene{}, sample{}, sample_data{}, ego_pose{}, instance{}, sample_annotation{}, simulation{};
  std::int64_t annotations = 0, instances = 0, points = 0, bytes = 0;
};

/// Where a scene stands in the data set.
struct ScenePosition {
  std::string split{};
  std::int64_t number = 0;  ///< over all splits, from 1
  random::Stream stream;
  bool night = false;
  std::string log_token{};
};

/// Simulates one scene, writes its images and point clouds below `out` and returns its rows.
SceneRows write_scene(const SimulationOptions& options, const SharedTokens& shared, const ScenePosition& position,
                      const std::filesystem::path& out, const std::function<void(std::int64_t)>& frame_done);

}  // namespace camber::simulation
