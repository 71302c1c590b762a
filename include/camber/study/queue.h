#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace camber::study {

/// A job for a process of its own.
struct QueueTask {
  std::string key{};
  std::vector<std::string> needs{};    ///< keys of tasks that must have succeeded before
  std::vector<std::string> command{};  ///< program and arguments
  std::filesystem::path log{};         ///< where its standard error goes
};

struct QueueListener {
  std::function<void(const QueueTask&)> begins{};
  std::function<void(const QueueTask&, const std::string& line)> says{};  ///< a line of its standard output
  /// It ended; `failure` is empty, or one sentence: the last line of its log, the signal that ended it, or the task it
  /// needed and that failed.
  std::function<void(const QueueTask&, const std::string& failure)> ends{};
};

/// Runs the tasks, `processes` at a time, in their order as far as what they need allows. One that fails takes those
/// that need it along and leaves the rest alone. Children die with this process, however it ends. A task that needs a
/// key that is not among the tasks counts it as done. Returns how many failed.
std::int64_t run_queue(const std::vector<QueueTask>& tasks, std::int64_t processes, const QueueListener& listener = {});

/// The words that start this very program again: those that were set, else the executable of this process.
std::vector<std::string> own_program();
/// For a process whose executable is not the program, such as an interpreter; empty: its executable.
void set_own_program(std::vector<std::string> words);

}  // namespace camber::study
