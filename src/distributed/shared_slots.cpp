#include "distributed/shared_slots.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <limits>
#include <random>
#include <stdexcept>

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace camber::distributed {
namespace {

using Clock = std::chrono::steady_clock;

// Long enough for ranks that arrive together, short enough to leave the core to threads that have something to do.
constexpr int kSpins = 2000;
constexpr auto kLookEvery = std::chrono::milliseconds(50);  // for ranks that are gone
constexpr auto kPatience = std::chrono::minutes(30);        // as torch.distributed's

// Lets the other thread of a core go first.
void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// What processes that can share memory have in common: the running kernel, and the file system of its shared memory.
std::string machine() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  struct stat status {};
  if (id.empty() || stat("/dev/shm", &status) != 0) return {};
  return id + "/" + std::to_string(status.st_dev) + "/" + std::to_string(status.st_ino);
}

std::string new_name() {
  std::random_device dice;
  return "/camber-" + std::to_string(getpid()) + "-" + std::to_string(dice()) + std::to_string(dice());
}

// Locks belong to the open file: they end with the process, whatever ends it.
struct flock byte_of(std::int64_t rank) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = rank;
  lock.l_len = 1;
  return lock;
}

bool all_say_yes(const SharedSlots::Exchange& exchange, bool own) {
  const std::vector<std::string> answers = exchange(own ? "yes" : "no");
  return std::all_of(answers.begin(), answers.end(), [](const std::string& answer) { return answer == "yes"; });
}

}  // namespace

struct SharedSlots::Half {
  std::uint64_t length;
  std::byte bytes[kCapacity];
};

struct SharedSlots::Slot {
  alignas(64) std::atomic<std::uint32_t> round;
  alignas(64) Half halves[2];
};

SharedSlots::SharedSlots(std::int64_t rank, std::int64_t size, const Exchange& exchange) : rank_(rank), size_(size) {
  static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
  const std::string here = machine();
  const std::vector<std::string> machines = exchange(here);
  if (here.empty() || std::any_of(machines.begin(), machines.end(), [&](const auto& other) { return other != here; }))
    return;
  const std::string own = rank == 0 ? new_name() : std::string();
  bool good = rank != 0 || open_named(own, true);
  const std::string name = exchange(own).front();
  good = good && (rank == 0 || open_named(name, false)) && map_and_lock();
  const bool all = all_say_yes(exchange, good);
  if (rank == 0) shm_unlink(own.c_str());  // the mappings keep it; nothing is left behind, whoever is killed
  if (!all) unmap();
}

SharedSlots::~SharedSlots() {
  unmap();
}

bool SharedSlots::open_named(const std::string& name, bool create) {
  file_ = shm_open(name.c_str(), O_RDWR | O_CLOEXEC | (create ? O_CREAT | O_EXCL : 0), 0600);
  // Pages that the machine cannot give are refused here, not by a signal in the middle of a step.
  return file_ >= 0 &&
         (!create || posix_fallocate(file_, 0, static_cast<off_t>(sizeof(Slot)) * static_cast<off_t>(size_)) == 0);
}

bool SharedSlots::map_and_lock() {
  struct flock lock = byte_of(rank_);
  if (fcntl(file_, F_OFD_SETLK, &lock) != 0) return false;
  void* memory =
      mmap(nullptr, sizeof(Slot) * static_cast<std::size_t>(size_), PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (memory == MAP_FAILED) return false;
  memory_ = memory;
  return true;
}

void SharedSlots::unmap() {
  if (memory_ != nullptr) munmap(memory_, sizeof(Slot) * static_cast<std::size_t>(size_));
  if (file_ >= 0) close(file_);
  memory_ = nullptr;
  file_ = -1;
}

// A new file holds zeros, which is what an atomic that was never written holds.
SharedSlots::Slot& SharedSlots::slot(std::int64_t rank) const {
  return static_cast<Slot*>(memory_)[rank];
}

bool SharedSlots::is_gone(std::int64_t rank) const {
  struct flock lock = byte_of(rank);
  return fcntl(file_, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

void SharedSlots::wait_for(std::int64_t rank) const {
  std::atomic<std::uint32_t>& there = slot(rank).round;
  // Rounds wrap around; nobody is more than one ahead.
  const auto arrived = [&](std::uint32_t value) {
    return value - round_ < std::numeric_limits<std::uint32_t>::max() / 2;
  };
  for (int i = 0; i < kSpins; ++i) {
    if (arrived(there.load(std::memory_order_acquire))) return;
    relax();
  }
  const auto deadline = Clock::now() + kPatience;
  for (;;) {
    const std::uint32_t value = there.load(std::memory_order_acquire);
    if (arrived(value)) return;
    const timespec look{.tv_sec = 0, .tv_nsec = std::chrono::nanoseconds(kLookEvery).count()};
    const bool late = syscall(SYS_futex, &there, FUTEX_WAIT, value, &look, nullptr, 0) != 0 && errno == ETIMEDOUT;
    if (!late) continue;
    // Gone, unless it arrived before it went.
    if ((is_gone(rank) && !arrived(there.load(std::memory_order_acquire))) || Clock::now() > deadline)
      throw std::runtime_error("[distributed] another process of this run is gone or stuck: rank " +
                               std::to_string(rank));
  }
}

std::vector<SharedSlots::Message> SharedSlots::exchange(std::span<const std::byte> own) {
  ++round_;
  Slot& mine = slot(rank_);
  Half& half = mine.halves[round_ % 2];
  half.length = own.size();
  std::copy_n(own.data(), std::min(own.size(), kCapacity), half.bytes);  // of nothing, the address may be null
  mine.round.store(round_, std::memory_order_release);
  syscall(SYS_futex, &mine.round, FUTEX_WAKE, std::numeric_limits<int>::max(), nullptr, nullptr, 0);
  std::vector<Message> all;
  for (std::int64_t rank = 0; rank < size_; ++rank) {
    if (rank != rank_) wait_for(rank);
    const Half& theirs = slot(rank).halves[round_ % 2];
    all.push_back({theirs.length, std::span(theirs.bytes, std::min<std::size_t>(theirs.length, kCapacity))});
  }
  return all;
}

}  // namespace camber::distributed
