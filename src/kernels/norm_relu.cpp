#include "camber/kernels/norm_relu.h"

#include "kernels/dispatch.h"

namespace camber::kernels {

void norm_moments(const NormPart& part, const float* reference, double* sums, Isa isa) {
  kernels_of(isa).norm.moments(part, reference, sums);
}

void norm_relu(const NormPart& part, const NormLine& line, float* output, Isa isa) {
  kernels_of(isa).norm.relu(part, line, output);
}

void norm_relu_sums(const NormPart& part, const NormLine& line, const float* gradient, const float* mean, double* sums,
                    Isa isa) {
  kernels_of(isa).norm.relu_sums(part, line, gradient, mean, sums);
}

void norm_relu_gradient(const NormPart& part, const NormLine& line, const float* gradient, const NormSpread& spread,
                        float* result, Isa isa) {
  kernels_of(isa).norm.relu_gradient(part, line, gradient, spread, result);
}

}  // namespace camber::kernels
