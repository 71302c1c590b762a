#pragma once
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <sys/wait.h>

// The built program, called as a person calls it. CAMBER_PROGRAM names it.
namespace camber::app {

struct Answer {
  int code = -1;
  std::string output{}, errors{};
};

inline std::string content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Runs `camber <arguments>` in `folder`; what it writes to its two streams passes through files in `scratch`.
inline Answer call_program(const std::string& arguments, const std::filesystem::path& folder,
                           const std::filesystem::path& scratch) {
  const auto out = scratch / "out", errors = scratch / "errors";
  const int status = std::system(("cd '" + folder.string() + "' && '" + std::getenv("CAMBER_PROGRAM") + "' " +
                                  arguments + " >'" + out.string() + "' 2>'" + errors.string() + "'")
                                     .c_str());
  return {.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1, .output = content(out), .errors = content(errors)};
}

}  // namespace camber::app
