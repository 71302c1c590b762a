#include "camber/storage/folder_lock.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace camber::storage {
namespace {

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 && name[0] != '\0' ? name : "an unknown host";
}

std::string content_of(int descriptor) {
  char text[300] = {};
  const ssize_t count = pread(descriptor, text, sizeof text - 1, 0);
  return {text, static_cast<std::size_t>(std::max<ssize_t>(count, 0))};
}

// Who signed last, "4711 HOST"; "another process" while the new holder has not signed yet.
std::string holder(int descriptor) {
  const std::string content = content_of(descriptor), line = content.substr(0, content.find('\n'));
  const std::string number = line.substr(0, line.find(' '));
  if (number.empty() || number.find_first_not_of("0123456789") != std::string::npos) return "another process";
  return "process " + number + (number.size() < line.size() ? " on " + line.substr(number.size() + 1) : "");
}

void sign(int descriptor) {
  const std::string line = std::to_string(getpid()) + " " + host_name() + "\n";
  const bool signed_whole = ftruncate(descriptor, 0) == 0 &&
                            pwrite(descriptor, line.data(), line.size(), 0) == static_cast<ssize_t>(line.size());
  if (!signed_whole)
    throw std::runtime_error(fmt::format("[storage] a lock cannot be written: {}", std::strerror(errno)));
}

// Whether the path still names the file that is open: a holder before may have removed it.
bool is_still(int descriptor, const std::filesystem::path& file) {
  struct stat opened {
  }, named{};
  return fstat(descriptor, &opened) == 0 && stat(file.c_str(), &named) == 0 && opened.st_ino == named.st_ino &&
         opened.st_dev == named.st_dev;
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& file, double seconds) {
  std::filesystem::create_directories(file.parent_path());
  const auto fail = [&](int error) {
    throw std::runtime_error(fmt::format("[storage] {} cannot be locked: {}", file.string(), std::strerror(error)));
  };
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (;;) {
    descriptor_ = open(file.c_str(), O_RDWR | O_CREAT, 0666);  // inherited: it is held while a child lives
    if (descriptor_ < 0) fail(errno);
    const int error = flock(descriptor_, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
    if (error == 0 && is_still(descriptor_, file)) break;
    const std::string who = holder(descriptor_);
    close(descriptor_);
    if (error == 0 || error == EINTR) continue;
    if (error != EWOULDBLOCK) fail(error);
    if (std::chrono::steady_clock::now() >= until)
      throw std::runtime_error(
          fmt::format("[storage] {} must be free, but {} works there", file.parent_path().string(), who));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  was_signed_ = !content_of(descriptor_).empty();
  try {
    sign(descriptor_);
  } catch (...) {
    if (!was_signed_) unlink(file.c_str());  // as if it had never been: it is still ours alone
    close(descriptor_);
    throw;
  }
}

FolderLock::~FolderLock() {
  close(descriptor_);
}

}  // namespace camber::storage
