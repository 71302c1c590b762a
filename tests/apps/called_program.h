#pragma once
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "camber/storage/file.h"
#include "storage/scratch_folder.h"

// The built program, called as a person calls it. CAMBER_PROGRAM names it.
namespace camber::app {

struct Answer {
  int code = -1;
  std::string output{}, errors{};
};

// Runs `camber <arguments>` in `folder`; what it writes to its two streams passes through files in `scratch`.
inline Answer call_program(const std::string& arguments, const std::filesystem::path& folder,
                           const std::filesystem::path& scratch) {
  const auto out = scratch / "out", errors = scratch / "errors";
  const int status = std::system(("cd '" + folder.string() + "' && '" + std::getenv("CAMBER_PROGRAM") + "' " +
                                  arguments + " >'" + out.string() + "' 2>'" + errors.string() + "'")
                                     .c_str());
  return {.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1,
          .output = storage::read_file(out),
          .errors = storage::read_file(errors)};
}

// A test that calls the program in a folder of its own.
class CalledProgram : public storage::ScratchFolder {
 protected:
  void SetUp() override {
    if (std::getenv("CAMBER_PROGRAM") == nullptr) GTEST_SKIP() << "CAMBER_PROGRAM names no program to test";
  }
  Answer call(const std::string& arguments) const { return call_program(arguments, folder_, folder_); }
};

// The program as a process of its own, for signals; killed with the object.
class Process {
 public:
  /// Runs `camber <arguments>` in `folder`; its streams go to NAME.out and NAME.errors in `scratch`.
  Process(const std::string& arguments, const std::filesystem::path& folder, const std::filesystem::path& scratch,
          const std::string& name)
      : output_(scratch / (name + ".out")), errors_(scratch / (name + ".errors")) {
    id_ = fork();
    if (id_ != 0) return;
    const std::string command = "cd '" + folder.string() + "' && exec '" + std::getenv("CAMBER_PROGRAM") + "' " +
                                arguments + " >'" + output_.string() + "' 2>'" + errors_.string() + "'";
    execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(127);
  }
  ~Process() {
    if (id_ <= 0) return;
    kill(id_, SIGKILL);
    waitpid(id_, nullptr, 0);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t id() const { return id_; }
  void send(int signal) const { kill(id_, signal); }
  /// Whether it wrote these words to its error stream within 20 seconds.
  bool says(const std::string& words) const {
    for (int i = 0; i < 2000; ++i, std::this_thread::sleep_for(std::chrono::milliseconds(10)))
      if (std::filesystem::exists(errors_) && storage::read_file(errors_).find(words) != std::string::npos) return true;
    return false;
  }
  Answer wait() {
    int status = 0;
    waitpid(std::exchange(id_, 0), &status, 0);
    return {.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status),
            .output = storage::read_file(output_),
            .errors = storage::read_file(errors_)};
  }

 private:
  std::filesystem::path output_, errors_;
  pid_t id_ = 0;
};

// As locks name it.
inline std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

// Whether a file is there within 20 seconds.
inline bool appears(const std::filesystem::path& file) {
  for (int i = 0; i < 4000 && !std::filesystem::exists(file); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return std::filesystem::exists(file);
}

}  // namespace camber::app
