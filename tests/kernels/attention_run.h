#pragma once
#include <vector>

#include "kernels/attention_case.h"

namespace camber::kernels::test {

/// What a forward returned, contiguous, as floats.
struct ForwardRun {
  std::vector<float> output, logsumexp;
  std::vector<float> entropy, largest_weight, sum_of_squares, segment_mass, change, divergence;
  std::vector<std::int64_t> keys_left;
};

ForwardRun run_forward(const CaseData& data, Isa isa, bool statistics = false, const ParallelFor& parallel = {});

/// Gradients, contiguous [B, H, rows, width] or the shape of the values; empty where not wanted.
struct BackwardRun {
  std::vector<float> q, k, v, window, segment, mask, table;
};

enum Wanted : unsigned {
  kQ = 1,
  kK = 2,
  kV = 4,
  kWindow = 8,
  kSegment = 16,
  kMask = 32,
  kTable = 64,
  kAllGradients = 127
};

BackwardRun run_backward(const CaseData& data, const ForwardRun& forward, Isa isa, unsigned wanted = kAllGradients,
                         const ParallelFor& parallel = {});

}  // namespace camber::kernels::test
