#pragma once

namespace camber::kernels {

// The kernels compute with powers of two: a natural value times kLog2E is one in units of log2.
inline constexpr float kLog2E = 1.44269504f, kLn2 = 0.693147181f;

}  // namespace camber::kernels
