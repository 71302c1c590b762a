// A file layer that fails: loaded before the C library (LD_PRELOAD), it counts the calls by which a program changes the
// files below CAMBER_FAIL_FOLDER (write, pwrite, writev, ftruncate, fsync, fdatasync, rename, link, mkdir) and lets
// the CAMBER_FAIL_AT-th of them go wrong, as CAMBER_FAIL_HOW says:
//   count   nothing goes wrong
//   kill    the process is killed (SIGKILL) before the call does anything
//   torn    half of a write reaches the file, then the process is killed
//   short   half of a write is done, as the system may
//   EIO     the call fails once
//   ENOSPC  this and every later write fails: the disk is full
// With CAMBER_FAIL_LOG the number of calls is written there when the process ends.
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

namespace {

enum class Failure { kNone, kOnce, kFull, kShort, kKill, kTorn };

struct Plan {
  std::string folder{};
  long at = 0;
  Failure failure = Failure::kNone;
  int error = EIO;

  Plan() {
    const auto text = [](const char* name) {
      return std::string(std::getenv(name) == nullptr ? "" : std::getenv(name));
    };
    folder = text("CAMBER_FAIL_FOLDER");
    at = std::atol(text("CAMBER_FAIL_AT").c_str());
    const std::string how = text("CAMBER_FAIL_HOW");
    if (how == "kill") failure = Failure::kKill;
    if (how == "torn") failure = Failure::kTorn;
    if (how == "short") failure = Failure::kShort;
    if (how == "EIO") failure = Failure::kOnce;
    if (how == "ENOSPC") failure = Failure::kFull, error = ENOSPC;
  }
};

const Plan& plan() {
  static const Plan made;
  return made;
}

std::atomic<long> calls{0};

template <class Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

bool is_watched(const char* path) {
  return !plan().folder.empty() && std::strncmp(path, plan().folder.c_str(), plan().folder.size()) == 0;
}

bool is_watched(int descriptor) {
  char link[64], path[4096] = {};
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  return readlink(link, path, sizeof path - 1) > 0 && is_watched(path);
}

// What becomes of this call.
Failure fate(bool is_write) {
  const long number = ++calls;
  if (number == plan().at && plan().failure == Failure::kKill) kill(getpid(), SIGKILL);
  if (number == plan().at) return plan().failure;
  return plan().failure == Failure::kFull && is_write && plan().at > 0 && number > plan().at ? Failure::kFull
                                                                                             : Failure::kNone;
}

bool fails(bool is_write) {
  const Failure failure = fate(is_write);
  if (failure != Failure::kOnce && failure != Failure::kFull) return false;
  errno = plan().error;
  return true;
}

// A write of `size` bytes: how many of them are to be done, -1: none, with errno set.
ssize_t allowed(std::size_t size) {
  switch (fate(true)) {
    case Failure::kOnce:
    case Failure::kFull:
      errno = plan().error;
      return -1;
    case Failure::kShort:
    case Failure::kTorn:
      return static_cast<ssize_t>((size + 1) / 2);
    default:
      return static_cast<ssize_t>(size);
  }
}

void die_if_torn() {
  if (plan().failure == Failure::kTorn && calls == plan().at) kill(getpid(), SIGKILL);
}

__attribute__((destructor)) void log_calls() {
  const char* file = std::getenv("CAMBER_FAIL_LOG");
  if (file == nullptr) return;
  if (std::FILE* log = std::fopen(file, "w")) {
    std::fprintf(log, "%ld\n", calls.load());
    std::fclose(log);
  }
}

}  // namespace

extern "C" {

ssize_t write(int descriptor, const void* bytes, std::size_t size) {
  static const auto next = real<ssize_t (*)(int, const void*, std::size_t)>("write");
  if (!is_watched(descriptor)) return next(descriptor, bytes, size);
  const ssize_t done = allowed(size);
  if (done < 0) return done;
  const ssize_t written = next(descriptor, bytes, static_cast<std::size_t>(done));
  die_if_torn();
  return written;
}

ssize_t pwrite64(int descriptor, const void* bytes, std::size_t size, off64_t offset) {
  static const auto next = real<ssize_t (*)(int, const void*, std::size_t, off64_t)>("pwrite64");
  if (!is_watched(descriptor)) return next(descriptor, bytes, size, offset);
  const ssize_t done = allowed(size);
  if (done < 0) return done;
  const ssize_t written = next(descriptor, bytes, static_cast<std::size_t>(done), offset);
  die_if_torn();
  return written;
}

ssize_t pwrite(int descriptor, const void* bytes, std::size_t size, off_t offset) {
  return pwrite64(descriptor, bytes, size, offset);
}

// Of several parts: the first alone, or none.
ssize_t writev(int descriptor, const iovec* parts, int count) {
  static const auto next = real<ssize_t (*)(int, const iovec*, int)>("writev");
  if (!is_watched(descriptor)) return next(descriptor, parts, count);
  std::size_t size = 0;
  for (int i = 0; i < count; ++i) size += parts[i].iov_len;
  const ssize_t done = allowed(size);
  if (done < 0) return done;
  const ssize_t written = next(descriptor, parts, static_cast<std::size_t>(done) == size ? count : 1);
  die_if_torn();
  return written;
}

int ftruncate64(int descriptor, off64_t size) {
  static const auto next = real<int (*)(int, off64_t)>("ftruncate64");
  return is_watched(descriptor) && fails(false) ? -1 : next(descriptor, size);
}

int ftruncate(int descriptor, off_t size) {
  return ftruncate64(descriptor, size);
}

int fsync(int descriptor) {
  static const auto next = real<int (*)(int)>("fsync");
  return is_watched(descriptor) && fails(true) ? -1 : next(descriptor);
}

int fdatasync(int descriptor) {
  static const auto next = real<int (*)(int)>("fdatasync");
  return is_watched(descriptor) && fails(true) ? -1 : next(descriptor);
}

int rename(const char* from, const char* to) {
  static const auto next = real<int (*)(const char*, const char*)>("rename");
  return is_watched(to) && fails(false) ? -1 : next(from, to);
}

int link(const char* from, const char* to) {
  static const auto next = real<int (*)(const char*, const char*)>("link");
  return is_watched(to) && fails(false) ? -1 : next(from, to);
}

int mkdir(const char* path, mode_t mode) {
  static const auto next = real<int (*)(const char*, mode_t)>("mkdir");
  return is_watched(path) && fails(true) ? -1 : next(path, mode);
}
}
