#pragma once
#include <atomic>
#include <csignal>

namespace camber::app {

// Set by Ctrl-C or a polite kill once stop_on_signals() was called; a command looks at it where it can stop.
inline std::atomic<bool> interrupted{false};

// The first signal asks the command to end in order, the second ends it at once.
inline void stop_on_signals() {
  const auto stop = [](int number) {
    interrupted = true;
    std::signal(number, SIG_DFL);
  };
  std::signal(SIGINT, stop);
  std::signal(SIGTERM, stop);
}

}  // namespace camber::app
