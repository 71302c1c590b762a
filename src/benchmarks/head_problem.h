#pragma once
#include "camber/benchmarks/head.h"
#include "camber/detection/detector.h"

namespace camber::benchmarks {

/// A head at reference size, without encoders and in evaluation mode. With a router its content route is random, so
/// that trust differs from query to query; all other weights are the same with and without.
detection::Detector reference_head(const HeadBenchOptions& options, bool with_router);

/// Random maps of keys of the right shapes under a ring of six cameras; with objects, for training.
detection::DetectorBatch head_batch(const HeadBenchOptions& options, const detection::DetectorOptions& detector);

}  // namespace camber::benchmarks
