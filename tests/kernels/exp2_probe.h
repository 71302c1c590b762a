#pragma once

namespace camber::kernels::test {

/// y[i] = 2^x[i] by the code of one instruction set.
void exp2_scalar(const float* x, float* y, int count);
void exp2_avx2(const float* x, float* y, int count);
void exp2_avx512(const float* x, float* y, int count);

}  // namespace camber::kernels::test
