#pragma once
#include "camber/nuscenes/dataset.h"
#include "camber/nuscenes/splits.h"
#include "camber/sensors/frame.h"

/// A simulated data set that the tests of one program share: eight scenes of eight frames, written on first use.
namespace camber::tests {

struct SimulatedWorld {
  const nuscenes::Dataset& dataset;
  nuscenes::Split all, train, test;
};

const SimulatedWorld& simulated_world();

/// Frames at the world's own image size, three sweeps.
sensors::FrameOptions simulated_frames();

}  // namespace camber::tests
