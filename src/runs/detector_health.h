#pragma once
#include <camber/detection/detector.h>
#include <camber/train/health_adapter.h>

namespace camber::runs {

/// What a pass with statistics tells the monitor: the attention of every layer, the trust, and the bias that every
/// layer added to its scores, LAYER/SENSOR in its windows and LAYER/segments/SENSOR on whole sensors, then SENSOR and
/// segments/SENSOR over all layers. `learned`: the router's weights are.
/// What add_output looks at, of the frames of all ranks, on rank 0; the others keep their own.
detection::DetectorOutput of_all_ranks(const detection::DetectorOutput& own, distributed::ProcessGroup& group);

void add_output(train::HealthAdapter& adapter, const detection::DetectorOutput& output, bool learned);

}  // namespace camber::runs
