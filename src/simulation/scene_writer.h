#pragma once
#include <functional>
#include <string>

#include "camber/nuscenes/dataset_writer.h"
#include "camber/simulation/simulate.h"

namespace camber::simulation {

/// Where a scene stands in the data set.
struct ScenePosition {
  std::string split{};
  std::size_t split_number = 0;
  std::int64_t number = 0;  ///< over all splits, from 1
  random::Stream stream;
  bool night = false;

  std::string name() const;
};

/// How the scene's rows are called.
nuscenes::TokenMaker scene_tokens(const RigOptions& rig, const random::Stream& scene);

/// Simulates one scene into its writer. Returns its row of simulation.json.
std::string write_scene(const SimulationOptions& options, const ScenePosition& position, nuscenes::SceneWriter& writer,
                        const std::function<void(std::int64_t)>& frame_done);

}  // namespace camber::simulation
