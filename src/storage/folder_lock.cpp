#include "camber/storage/folder_lock.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

namespace camber::storage {
namespace {

// Who wrote the file last; "another process" while the new holder has not written yet.
std::string holder(int descriptor) {
  char digits[24] = {};
  const ssize_t count = pread(descriptor, digits, sizeof digits - 1, 0);
  const std::string number(digits, static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  const bool known = !number.empty() && number.find_first_not_of("0123456789\n") == std::string::npos;
  return known ? "process " + number.substr(0, number.find('\n')) : "another process";
}

void sign(int descriptor) {
  const std::string number = std::to_string(getpid()) + "\n";
  const bool signed_whole = ftruncate(descriptor, 0) == 0 &&
                            pwrite(descriptor, number.data(), number.size(), 0) == static_cast<ssize_t>(number.size());
  if (!signed_whole)
    throw std::runtime_error(fmt::format("[storage] a lock cannot be written: {}", std::strerror(errno)));
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& file, double seconds) {
  std::filesystem::create_directories(file.parent_path());
  descriptor_ = open(file.c_str(), O_RDWR | O_CREAT, 0666);  // inherited: it is held while a child lives
  const auto fail = [&](int error) {
    throw std::runtime_error(fmt::format("[storage] {} cannot be locked: {}", file.string(), std::strerror(error)));
  };
  if (descriptor_ < 0) fail(errno);
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    const bool held = error == EWOULDBLOCK;
    if (held && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      continue;
    }
    const std::string who = held ? holder(descriptor_) : "";
    close(descriptor_);
    if (!held) fail(error);
    throw std::runtime_error(
        fmt::format("[storage] {} must be free, but {} works there", file.parent_path().string(), who));
  }
  sign(descriptor_);
}

FolderLock::~FolderLock() {
  close(descriptor_);
}

}  // namespace camber::storage
