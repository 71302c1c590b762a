#pragma once
#include <cstdint>

#include "benchmarks/attention_peer.h"
#include "camber/benchmarks/grid.h"

namespace camber::benchmarks {

/// The two sides of a cell, ready to be timed.
struct GridRuns {
  Peer::Run ours{}, theirs{};
};

/// Makes the inputs of a cell and both calls, after a check that they compute the same.
GridRuns grid_runs(const GridCell& cell, std::uint64_t seed);

/// Whether a type is known: float32, bfloat16 or half.
bool known_type(const std::string& type);

}  // namespace camber::benchmarks
