#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>

#include "camber/kernels/attention.h"

namespace camber::kernels {

/// As many slots as a problem's products (2 forward, 5 backward) are worth: waking a thread costs microseconds.
std::int64_t slots_for(const AttentionProblem& problem, int products);

/// Runs task(index, scratch) for index in 0 .. tasks-1. Slots pull indices from one counter; each has `scratch_bytes`
/// of its own memory, aligned to 64 bytes and allocated before the work begins.
void run_tasks(const ParallelFor& parallel, std::int64_t tasks, std::size_t scratch_bytes,
               const std::function<void(std::int64_t index, std::byte* scratch)>& task);

/// The same, where a slot knows which index it takes next: `tasks` or more where there is none.
void run_tasks_ahead(const ParallelFor& parallel, std::int64_t tasks, std::size_t scratch_bytes,
                     const std::function<void(std::int64_t index, std::int64_t next, std::byte* scratch)>& task);

}  // namespace camber::kernels
