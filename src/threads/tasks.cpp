#include "camber/threads/tasks.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

namespace camber::threads {

int resolve_threads(int threads) {
  return threads > 0 ? threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void for_each_task(std::size_t count, int threads, const std::function<void(std::size_t)>& action) {
  std::atomic<std::size_t> next{0};
  std::mutex failing;
  std::size_t failed = std::numeric_limits<std::size_t>::max();
  std::exception_ptr error;
  const auto work = [&] {
    for (std::size_t task = next++; task < count; task = next++) {
      try {
        action(task);
      } catch (...) {
        const std::lock_guard lock(failing);
        next = count;  // those before it have begun
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

}  // namespace camber::threads
