#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>

#include "kernels/slots.h"

namespace camber::kernels {

/// The rows of q, k, ... that a batch reads or writes: [heads, rows, width] of it.
struct BatchRows {
  const void* data;
  Strides strides;
  std::int64_t rows, width;
  std::int64_t element_bytes;
};

/// Runs task(index, scratch) for index in 0 .. batches * tasks_of_batch - 1, like run_tasks(). Where batches are many
/// and small, a slot takes a whole one at a time and asks for the rows of its next one first: these lie in short pieces
/// which the hardware does not foresee, and each would be waited for. `first` is the batch of index 0.
void run_batches(const AttentionProblem& problem, std::int64_t first, std::int64_t batches, std::int64_t tasks_of_batch,
                 std::size_t scratch_bytes, std::initializer_list<BatchRows> rows,
                 const std::function<void(std::int64_t index, std::byte* scratch)>& task);

}  // namespace camber::kernels
