#pragma once
#include <vector>

#include <camber/detection/detector.h>
#include <camber/train/health_adapter.h>

namespace camber::runs {

/// What the monitor is told of a pass with statistics.
struct WatchedPass {
  detection::DetectorOutput output{};
  std::vector<detection::AddedBias> added_bias{};  // of every layer
};

/// Of the frames of all ranks, on rank 0; the others keep their own. Reads the bias from its device.
WatchedPass of_all_ranks(const detection::DetectorOutput& own, distributed::ProcessGroup& group);

/// The attention of every layer, the trust, and the bias that every layer added to its scores, LAYER/SENSOR in its
/// windows and LAYER/segments/SENSOR on whole sensors, then SENSOR and segments/SENSOR over all layers. `learned`: the
/// router's weights are.
void add_output(train::HealthAdapter& adapter, const WatchedPass& watched, bool learned);

}  // namespace camber::runs
