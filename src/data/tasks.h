#pragma once
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

namespace camber::data {

/// The number of threads that a request of 0 (as many as the machine has) or more stands for.
inline int resolve_threads(int threads) {
  return threads > 0 ? threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

/// Calls action(task) for every task of 0..count-1, on several threads that pull tasks from a counter. Of several
/// errors, the one of the first task is thrown.
template <class Action>
void for_each_task(std::size_t count, int threads, Action&& action) {
  std::atomic<std::size_t> next{0};
  std::mutex failing;
  std::size_t failed = std::numeric_limits<std::size_t>::max();
  std::exception_ptr error;
  const auto work = [&] {
    for (;;) {
      const std::size_t task = next++;
      if (task >= count) return;
      try {
        action(task);
      } catch (...) {
        const std::lock_guard lock(failing);
        if (task < failed) {
          failed = task;
          error = std::current_exception();
        }
      }
    }
  };
  {
    std::vector<std::jthread> workers;  // joined also when the system gives no further one
    const auto useful = std::min(static_cast<std::size_t>(resolve_threads(threads)), count);
    for (std::size_t i = 1; i < useful; ++i) workers.emplace_back(work);
    work();
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace camber::data
