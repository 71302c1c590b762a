#pragma once
#include <ATen/core/Tensor.h>

#include "kernels/attention.h"

// A tensor [B, H, rows, D] as the kernels see it: a pointer and the strides of its first three dimensions.
namespace camber::ops {

inline kernels::Strides strides_of(const at::Tensor& tensor) {
  return {tensor.stride(0), tensor.stride(1), tensor.stride(2)};
}

inline kernels::ConstRows rows_of(const at::Tensor& tensor) {
  return {tensor.const_data_ptr(), strides_of(tensor)};
}

}  // namespace camber::ops
