#pragma once
#include <cstdint>

#include "camber/kernels/isa.h"

/// A step of Adam or AdamW on raw pointers, in one pass over the memory.
namespace camber::kernels {

/// With g the gradient (+ decay * parameter, which is Adam's weight decay):
///
///   parameter *= shrink                                       AdamW's weight decay
///   mean       = beta1 * mean + rest1 * g
///   square     = beta2 * square + rest2 * g * g
///   parameter += factor * mean / (sqrt(square) / root + epsilon)
///
/// Every number is rounded where torch's own chain of tensor operations rounds it; the root to the nearest float, which
/// MKL's misses by one at times.
struct AdamStep {
  float shrink = 1, decay = 0;
  float beta1 = 0, rest1 = 1, beta2 = 0, rest2 = 1;  // rest = 1 - beta, rounded after the difference
  float root = 1;                                    // of 1 - beta2^steps
  float epsilon = 0;
  float factor = 0;  // -learning rate / (1 - beta1^steps)
};

struct AdamNumbers {
  float* parameter = nullptr;
  const float* gradient = nullptr;
  float *mean = nullptr, *square = nullptr;
  std::int64_t count = 0;
};

void adam_step(const AdamStep& step, const AdamNumbers& numbers, Isa isa);

}  // namespace camber::kernels
