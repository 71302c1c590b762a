#pragma once
#include <cstdint>

#include "camber/kernels/isa.h"

/// Batch norm and ReLU of maps whose channels lie side by side, on raw pointers. A call takes a part of the rows (an
/// image's pixels); what parts have in sum is added up by the caller, in order, so that no bit depends on threads.
namespace camber::kernels {

/// Rows of a part, at most: sums within it are in float.
inline constexpr std::int64_t kNormRows = 128;

struct NormPart {
  const float* input = nullptr;  // [rows, channels]
  std::int64_t rows = 0, channels = 0;
};

/// sums [2, channels]: of input - reference [channels], and of its square. A reference near the mean keeps the digits.
void norm_moments(const NormPart& part, const float* reference, double* sums, Isa isa);

/// output = max(0, slope * input + offset); a NaN stays. Both [channels].
struct NormLine {
  const float *slope = nullptr, *offset = nullptr;
};
void norm_relu(const NormPart& part, const NormLine& line, float* output, Isa isa);

/// With g the gradient where output is not 0 (which is computed again: that is cheaper than to read it): sums
/// [2, channels] of g and of g * (input - mean).
void norm_relu_sums(const NormPart& part, const NormLine& line, const float* gradient, const float* mean, double* sums,
                    Isa isa);

/// result = slope * g + constant + linear * (input - mean), everything but g [channels].
struct NormSpread {
  const float *mean = nullptr, *constant = nullptr, *linear = nullptr;
};
void norm_relu_gradient(const NormPart& part, const NormLine& line, const float* gradient, const NormSpread& spread,
                        float* result, Isa isa);

}  // namespace camber::kernels
