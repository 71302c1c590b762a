#pragma once
#include <ATen/Parallel.h>

#include "kernels/attention.h"

namespace camber::ops {

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
