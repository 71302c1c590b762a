#include "sensors/simulated_world.h"

#include "camber/simulation/simulate.h"
#include "nuscenes/small_world.h"

namespace camber::tests {

const SimulatedWorld& simulated_world() {
  static const TemporaryFolder kFolder;
  static const nuscenes::Dataset kDataset = [] {
    simulation::SimulationOptions options{.scenes = 8, .val_share = 0, .test_share = 0.4};
    options.world.frames = 8;
    options.world.night_share = 0.25;
    simulation::simulate(options, 21, 2, kFolder.path());
    return nuscenes::Dataset(kFolder.path(), options.version);
  }();
  static const SimulatedWorld kWorld{kDataset, nuscenes::whole_data_set(kDataset),
                                     nuscenes::find_split(kDataset, "train"), nuscenes::find_split(kDataset, "test")};
  return kWorld;
}

sensors::FrameOptions simulated_frames() {
  sensors::FrameOptions options{.image_width = 120, .image_height = 48, .feature_stride = 8};
  options.sweeps.previous = 2;
  return options;
}

}  // namespace camber::tests
