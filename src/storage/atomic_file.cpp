#include "camber/storage/atomic_file.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace camber::storage {
namespace {

constexpr std::string_view kTemporary = ".temporary";

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
    temporary = folder_of(path) / fmt::format(".{}.{}.{}{}", path.filename().string(), getpid(), counter++, kTemporary);
    const int descriptor = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0) {
      flock(descriptor, LOCK_EX | LOCK_NB);  // as long as it is written: what is left of a killed process has no lock
      return descriptor;
    }
    if (errno != EEXIST) fail(path, errno);
  }
  fail(path, EEXIST);
}

// The process that a temporary name tells of, NAME.PROCESS.NUMBER.temporary; 0 for other names.
pid_t writer_of(const std::string& name) {
  const std::string body = name.substr(0, name.size() - std::min(name.size(), kTemporary.size()));
  const std::size_t number = body.rfind('.');
  const std::size_t process = number == std::string::npos || number == 0 ? number : body.rfind('.', number - 1);
  if (!name.starts_with('.') || !name.ends_with(kTemporary) || process == std::string::npos) return 0;
  pid_t id = 0;
  const char* end = body.data() + number;
  const auto [stop, error] = std::from_chars(body.data() + process + 1, end, id);
  return error == std::errc() && stop == end ? id : 0;
}

// Whether nobody writes it any more: its process is gone, on this machine and on others that share the disk.
bool is_abandoned(const std::filesystem::path& path, pid_t writer) {
  if (kill(writer, 0) == 0 || errno != ESRCH) return false;
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) return false;
  struct stat status {};
  const bool abandoned =
      fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && flock(descriptor, LOCK_EX | LOCK_NB) == 0;
  close(descriptor);
  return abandoned;
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
  remove_leftovers(folder_of(path), path.filename().string());
}

void remove_leftovers(const std::filesystem::path& folder, const std::string& name) {
  std::error_code absent;
  for (const auto& entry : std::filesystem::directory_iterator(folder, absent)) {
    const std::string found = entry.path().filename().string();
    const pid_t writer = found.starts_with("." + name) ? writer_of(found) : 0;
    if (writer > 0 && is_abandoned(entry.path(), writer)) unlink(entry.path().c_str());
  }
}

void write_file(const std::filesystem::path& path, std::string_view bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

}  // namespace camber::storage
