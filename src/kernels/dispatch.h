#pragma once
#include "kernels/task.h"

namespace camber::kernels {

/// The kernels of an instruction set, after a check that this CPU has it.
const KernelTable& kernels_of(Isa isa);
/// The kernels of an instruction set, after a check that it and the problem are supported.
const KernelTable& kernels_for(const AttentionProblem& problem, Isa isa);

inline constexpr std::int64_t ceil_divide(std::int64_t n, std::int64_t d) {
  return (n + d - 1) / d;
}

}  // namespace camber::kernels
