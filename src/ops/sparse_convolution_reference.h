#pragma once
#include <cstdint>

#include <ATen/core/Tensor.h>

/// Sparse convolution and its derivatives as loops over pairs, in double: what runs for double, and what the kernels
/// are held against. The arguments are those of the operators, checked and contiguous.
namespace camber::ops {

/// Pairs by tap and by the row they are added to.
struct PairTensors {
  at::Tensor from{}, to{};  // int32 [P]
  at::Tensor offsets{};     // int64 [T, blocks + 1]
};

struct ConvolutionInputs {
  at::Tensor features{}, weight{};  // [N, Cin], [Cout, kz, ky, kx, Cin]
  PairTensors forward{}, back{};    // inputs to outputs, outputs to inputs
  std::int64_t outputs = 0;         // M
};

at::Tensor sparse_convolution_reference(const ConvolutionInputs& in);
at::Tensor sparse_convolution_reference_features(const ConvolutionInputs& in, const at::Tensor& grad);
at::Tensor sparse_convolution_reference_weight(const ConvolutionInputs& in, const at::Tensor& grad);

}  // namespace camber::ops
