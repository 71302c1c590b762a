#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>

#include "kernels/slots.h"

namespace camber::kernels {

/// The rows of q, k, ... that a batch reads or writes: [heads, rows, width] of it.
struct BatchRows {
  ConstRows at;
  std::int64_t rows, width;
  ElementType type;
};

/// Which tasks run: `batches` from `first` on, each of so many tasks; `together` neighbouring ones of the same number
/// run in order on one slot.
struct SmallBatches {
  std::int64_t first, batches, tasks, together;
};

/// Runs task(batch - first, index of the task in its batch, scratch) for all of them, like run_tasks(). Where batches
/// are many and small, a slot takes whole ones and asks for the rows of the next one first: these lie in short pieces
/// which the hardware does not foresee, and each would be waited for.
void run_batches(const AttentionProblem& problem, const SmallBatches& batches, std::size_t scratch_bytes,
                 std::initializer_list<BatchRows> rows,
                 const std::function<void(std::int64_t batch, std::int64_t task, std::byte* scratch)>& task);

}  // namespace camber::kernels
