#include "kernels/slots.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>

namespace camber::kernels {
namespace {

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};

struct Work {
  const std::function<void(std::int64_t, std::int64_t, std::byte*)>& task;
  bool ahead;
  std::int64_t tasks;
  std::size_t scratch_bytes;
  std::byte* scratch;
  std::atomic<std::int64_t> next{0};
};

void work_on(void* context, std::int64_t slot) {
  auto& work = *static_cast<Work*>(context);
  std::byte* scratch = work.scratch + static_cast<std::size_t>(slot) * work.scratch_bytes;
  const auto take = [&] { return work.next.fetch_add(1, std::memory_order_relaxed); };
  for (std::int64_t index = take(), next = 0; index < work.tasks; index = next) {
    if (work.ahead) next = take();
    work.task(index, next, scratch);
    if (!work.ahead) next = take();
  }
}

void run_all(const ParallelFor& parallel, std::int64_t tasks, std::size_t scratch_bytes, bool ahead,
             const std::function<void(std::int64_t, std::int64_t, std::byte*)>& task) {
  if (tasks <= 0) return;
  const std::int64_t slots = parallel.run == nullptr ? 1 : std::clamp<std::int64_t>(parallel.slots, 1, tasks);
  const std::size_t bytes = (scratch_bytes + 63) / 64 * 64;
  const std::unique_ptr<std::byte, Free> scratch(static_cast<std::byte*>(
      std::aligned_alloc(64, std::max<std::size_t>(64, bytes * static_cast<std::size_t>(slots)))));
  if (scratch == nullptr) throw std::bad_alloc();
  Work work{task, ahead, tasks, bytes, scratch.get()};
  if (slots == 1)
    work_on(&work, 0);
  else
    parallel.run(parallel.context, slots, work_on, &work);
}

}  // namespace

std::int64_t slots_for(const AttentionProblem& p, int products) {
  constexpr double kSlotWork = 1 << 18;  // multiply-adds of one slot, some 5 microseconds
  const double rows = static_cast<double>(p.batches * p.heads * p.queries) * static_cast<double>(p.keys);
  const double work = rows * static_cast<double>(products * std::max(p.key_width, p.value_width));
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(std::min(work / kSlotWork, 1e6)), 1,
                                  std::max<std::int64_t>(1, p.parallel.slots));
}

void run_tasks(const ParallelFor& parallel, std::int64_t tasks, std::size_t scratch_bytes,
               const std::function<void(std::int64_t, std::byte*)>& task) {
  run_all(
      parallel, tasks, scratch_bytes, false,
      [&](std::int64_t index, std::int64_t, std::byte* scratch) { task(index, scratch); });
}

void run_tasks_ahead(const ParallelFor& parallel, std::int64_t tasks, std::size_t scratch_bytes,
                     const std::function<void(std::int64_t, std::int64_t, std::byte*)>& task) {
  run_all(parallel, tasks, scratch_bytes, true, task);
}

}  // namespace camber::kernels
