#pragma once
#include "camber/data/dataset.h"
#include "camber/data/frame.h"
#include "camber/data/splits.h"

/// A simulated data set that the tests of one program share: eight scenes of eight frames, written on first use.
namespace camber::tests {

struct SimulatedWorld {
  const data::Dataset& dataset;
  data::Split all, train, test;
};

const SimulatedWorld& simulated_world();

/// Frames at the world's own image size, three sweeps.
data::FrameOptions simulated_frames();

}  // namespace camber::tests
