#pragma once
#include <atomic>
#include <csignal>
#include <cstdio>
#include <string>

#include "apps/camber/command.h"

namespace camber::app {

// The signal of Ctrl-C or a polite kill once stop_on_signals() was called, else 0; a command looks at it where it can
// stop.
inline std::atomic<int> interrupted{0};

// The first signal asks the command to end in order, the second ends it at once.
inline void stop_on_signals() {
  const auto stop = [](int number) {
    interrupted = number;
    std::signal(number, SIG_DFL);
  };
  std::signal(SIGINT, stop);
  std::signal(SIGTERM, stop);
}

// Says how the work that was stopped goes on, and gives the exit code.
inline int stopped(const std::string& how_to_continue) {
  std::fprintf(stderr, "stopped by a signal; %s\n", how_to_continue.c_str());
  return kSignal + interrupted.load();
}

}  // namespace camber::app
