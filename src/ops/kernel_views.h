#pragma once
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include "camber/kernels/attention.h"

/// Tensors and threads of torch as the kernels see them.
namespace camber::ops {

inline kernels::Strides kernel_strides(const at::Tensor& t) {
  return {t.stride(0), t.stride(1), t.stride(2)};
}

inline kernels::ConstRows kernel_rows(const at::Tensor& t) {
  return {t.const_data_ptr(), kernel_strides(t)};
}

/// The kernels' slots on torch's threads.
inline kernels::ParallelFor torch_threads() {
  const auto run = [](void*, std::int64_t slots, kernels::ParallelFor::Body body, void* context) {
    at::parallel_for(0, slots, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t slot = begin; slot < end; ++slot) body(context, slot);
    });
  };
  return {.run = run, .context = nullptr, .slots = at::get_num_threads()};
}

}  // namespace camber::ops
