#pragma once
#include <torch/types.h>

namespace camber::nn {

/// input W^T + bias over the last dimension of input, in the type of input; bias may be undefined. weight [outputs,
/// inputs] and bias [outputs] are converted where they have another type, which costs little beside the product.
///
/// Where nobody asks for a gradient, a large product of float or bfloat16 on the CPU goes to oneDNN's kernels: torch's
/// own choice for float, the BLAS library, reaches less than half of their speed on processors that the library was not
/// made for. The choice depends on sizes and types alone, so that equal calls give equal bits.
///
///   const auto keys = nn::affine(memory, projection->weight, projection->bias);
torch::Tensor affine(const torch::Tensor& input, const torch::Tensor& weight, const torch::Tensor& bias = {});

}  // namespace camber::nn
