#include "health/append_file.h"

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace camber::health {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, int error) {
  throw std::runtime_error(fmt::format("[sink] {} cannot be written: {}", path.string(), std::strerror(error)));
}

}  // namespace

AppendFile::AppendFile(std::filesystem::path path, std::int64_t keep) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(path_, errno);
  if (keep >= 0 && ftruncate(descriptor_, keep) != 0) {
    const int error = errno;
    close();
    fail(path_, error);
  }
}

AppendFile::~AppendFile() {
  close();
}

AppendFile::AppendFile(AppendFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

AppendFile& AppendFile::operator=(AppendFile&& other) noexcept {
  if (this == &other) return *this;
  close();
  path_ = std::move(other.path_);
  descriptor_ = std::exchange(other.descriptor_, -1);
  return *this;
}

void AppendFile::append(std::string_view record) {
  while (!record.empty()) {
    const ssize_t written = ::write(descriptor_, record.data(), record.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path_, errno);
    record.remove_prefix(static_cast<std::size_t>(written));
  }
}

void AppendFile::flush() {
  if (descriptor_ >= 0 && fdatasync(descriptor_) != 0) fail(path_, errno);
}

void AppendFile::close() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

}  // namespace camber::health
