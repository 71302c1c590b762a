#pragma once
#include <cstdint>

namespace camber::bench {

/// What the cores can do, measured: GFLOP/s of `threads` threads that do nothing but fused multiply-adds in registers.
double fma_peak(int threads);

/// The same of bfloat16 dot products; 0 where the CPU has none.
double bfloat16_peak(int threads);

}  // namespace camber::bench
