#pragma once
#include <cstdint>
#include <string>

namespace camber::benchmarks {

/// What the processor reaches in a loop of independent multiply-adds that never leaves the registers, in GFLOP/s over
/// all threads.
struct ProcessorPeaks {
  double fma = 0;
  double bf16 = 0;  ///< dot products of bfloat16 pairs; that of fma where the processor has none
  std::string instructions{};

  /// Each the larger of both: the best of several measurements.
  void raise_to(const ProcessorPeaks& seen);
};

/// Measures the peaks on this many threads; takes a tenth of a second.
///
///   const double share = gflops / measure_peaks(2).fma;
ProcessorPeaks measure_peaks(std::int64_t threads);

}  // namespace camber::benchmarks
