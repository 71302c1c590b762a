#pragma once
#include <string>
#include <vector>

/// The program as a library: build/camber and `python -m camber` both call it.
///
/// Runs what the command line names and returns the exit code: 0, 1 for a failure, 2 for a wrong command line or
/// configuration, 128 plus the signal after Ctrl-C; sentences go to standard error. `arguments[0]` is not looked at.
/// The launcher are the words that start this program again, for sub-commands that run parts of their work in processes
/// of their own; none: the executable of this process.
extern "C" __attribute__((visibility("default"))) int camber_run_program(int argument_count,
                                                                         const char* const* arguments,
                                                                         int launcher_count,
                                                                         const char* const* launcher);

namespace camber::app {

inline int run_program(int argument_count, const char* const* arguments) {
  return camber_run_program(argument_count, arguments, 0, nullptr);
}

/// The same inside a process that has other things to do: returns what the sub-command answers instead of printing it,
/// and throws std::invalid_argument for a wrong command line, std::runtime_error for a failure.
std::string answer_of(const std::vector<std::string>& words);

}  // namespace camber::app
