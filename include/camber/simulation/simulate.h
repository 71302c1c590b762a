#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "camber/simulation/rig.h"
#include "camber/simulation/scene.h"

namespace camber::simulation {

/// A whole simulated data set. How many scenes it has is no part of its configuration.
struct SimulationOptions {
  std::int64_t scenes = 40;  ///< of all splits together, 1 to 9999
  double val_share = 0.1, test_share = 0.2;
  std::string version = "v1.0-simulated";
  WorldOptions world{};
  RigOptions rig{};

  template <class Visitor>
  void visit(Visitor& visitor) {
    visitor("val_share", val_share, "share of the scenes in split val", config::Range{0, 1});
    visitor("test_share", test_share, "share of the scenes in split test", config::Range{0, 1});
    visitor("version", version, "name of the folder with the tables");
    visitor("world", world, "what stands in the world");
    visitor("rig", rig, "the sensors");
  }
  /// Refuses shares that leave nothing to train on and a version that is no folder name.
  void validate() const;

  struct Split {
    const char* name;
    std::int64_t scenes;
  };
  /// train, val and test in this order. Val and test get their share rounded, but at least one scene each as soon as
  /// three scenes (and a share above 0) allow it.
  std::array<Split, 3> splits() const;
};

struct SimulationSummary {
  std::int64_t scenes = 0, frames = 0, annotations = 0, instances = 0, points = 0;
  std::int64_t bytes = 0;
};

/// Writes a data set in the nuScenes v1.0 schema: `<out>/<version>/*.json`, `samples/`, `sweeps/`, `maps/` and the
/// splits in `<out>/<version>/splits.json`, each also as "simulated_<name>" for readers that keep the plain names to
/// the official splits.
///
/// Every scene is a function of (seed, split, its index in the split), so that the same seed gives the same bytes for
/// any number of threads and splits share no layout, path, texture or instance. `simulation.json` beside the tables
/// says what no table can: night, texture seeds, which objects are dark or camouflaged. The version folder appears
/// last and in one piece; a folder that has it already is refused.
///
///   simulate({.scenes = 60}, 7, 2, "data/world", [](std::int64_t frames) { ... });
SimulationSummary simulate(const SimulationOptions& options, std::uint64_t seed, int threads,
                           const std::filesystem::path& out, const std::function<void(std::int64_t)>& frame_done = {});

}  // namespace camber::simulation
