#pragma once
#include <cstddef>
#include <functional>

namespace camber::threads {

/// The number of threads that a request of 0 (as many as the machine has) or more stands for.
int resolve_threads(int threads);

/// Calls action(task) for every task of 0..count-1, on several threads that pull tasks from a counter. A task that
/// throws lets no further one begin; of several errors, the one of the first task is thrown, whatever the number of
/// threads.
///
///   for_each_task(rows.size(), 0, [&](std::size_t i) { result[i] = read(rows[i]); });
void for_each_task(std::size_t count, int threads, const std::function<void(std::size_t)>& action);

}  // namespace camber::threads
