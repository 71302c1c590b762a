#pragma once
#include <cstdint>

#include <ATen/core/Tensor.h>

/// window_values and its transpose in plain tensor operations: what runs for double, and what the kernels are held
/// against. The arguments are those of the operators, checked.
namespace camber::ops {

at::Tensor window_values_reference(const at::Tensor& strength, const at::Tensor& profile, const at::Tensor& row_offsets,
                                   const at::Tensor& map_index);
at::Tensor window_values_backward_reference(const at::Tensor& grad, const at::Tensor& profile,
                                            const at::Tensor& row_offsets, const at::Tensor& map_index,
                                            std::int64_t maps);

}  // namespace camber::ops
