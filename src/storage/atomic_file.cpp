#include "camber/storage/atomic_file.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace camber::storage {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, int error) {
  throw std::runtime_error(fmt::format("[storage] {} cannot be written: {}", path.string(), std::strerror(error)));
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : std::filesystem::path(".");
}

// Unlike mkstemp this leaves the permissions to the umask. The counter keeps the threads of a process apart.
int open_temporary(const std::filesystem::path& path, std::filesystem::path& temporary) {
  static std::atomic<unsigned> counter{0};
  for (int attempt = 0; attempt < 100; ++attempt) {
    temporary = folder_of(path) / fmt::format(".{}.{}.{}.temporary", path.filename().string(), getpid(), counter++);
    const int descriptor = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0) return descriptor;
    if (errno != EEXIST) fail(path, errno);
  }
  fail(path, EEXIST);
}

// The new name is safe only when the folder itself reached the disk.
void flush_folder(const std::filesystem::path& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;  // a folder that may be written but not listed
  fsync(descriptor);
  close(descriptor);
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path_, ignored);
  // Renaming over a device or a folder would destroy it, or fail only after all the work.
  if (!path_.has_filename() || (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)))
    throw std::runtime_error(
        fmt::format("[storage] {} must be the name of a regular file to be written", path_.string()));
  descriptor_ = open_temporary(path_, temporary_);
}

AtomicFile::~AtomicFile() {
  discard();
}

void AtomicFile::write(const void* bytes, std::size_t count) {
  if (descriptor_ < 0) throw std::logic_error("[storage] an atomic file must not be written after commit");
  const char* next = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t written = ::write(descriptor_, next, count);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path_, errno);
    next += written;
    count -= static_cast<std::size_t>(written);
  }
}

void AtomicFile::commit() {
  if (fsync(descriptor_) != 0) fail(path_, errno);
  const int closed = close(std::exchange(descriptor_, -1));
  if (closed != 0 || std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    unlink(temporary_.c_str());
    fail(path_, error);
  }
  flush_folder(folder_of(path_));
}

void AtomicFile::discard() {
  if (descriptor_ < 0) return;
  close(std::exchange(descriptor_, -1));
  unlink(temporary_.c_str());
}

void check_writable(const std::filesystem::path& path) {
  const AtomicFile discarded(path);
}

void write_file(const std::filesystem::path& path, std::string_view bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

}  // namespace camber::storage
