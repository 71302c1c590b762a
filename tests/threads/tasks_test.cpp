#include "camber/threads/tasks.h"

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace camber::threads {
namespace {

TEST(Tasks, EachRunsOnceForAnyNumberOfThreads) {
  for (const int threads : {0, 1, 2, 7}) {
    for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{100}}) {
      std::vector<std::atomic<int>> runs(count);
      for_each_task(count, threads, [&](std::size_t task) { ++runs[task]; });
      for (const auto& times : runs) EXPECT_EQ(times, 1);
    }
  }
}

TEST(Tasks, TheErrorIsThatOfTheFirstTaskForAnyNumberOfThreads) {
  for (const int threads : {1, 2, 7}) {
    try {
      for_each_task(100, threads, [](std::size_t task) {
        if (task >= 20) throw std::runtime_error("task " + std::to_string(task));
      });
      FAIL() << "no error";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "task 20");
    }
  }
}

TEST(Tasks, NoneBeginsAfterAnError) {
  int begun = 0;
  EXPECT_THROW(for_each_task(100, 1,
                             [&](std::size_t) {
                               ++begun;
                               throw std::runtime_error("no");
                             }),
               std::runtime_error);
  EXPECT_EQ(begun, 1);
}

TEST(Tasks, ZeroThreadsAreThoseOfTheMachine) {
  EXPECT_GE(resolve_threads(0), 1);
  EXPECT_EQ(resolve_threads(3), 3);
}

}  // namespace
}  // namespace camber::threads
