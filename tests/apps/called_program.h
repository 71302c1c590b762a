#pragma once
#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <sys/wait.h>

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

}  // namespace camber::app
