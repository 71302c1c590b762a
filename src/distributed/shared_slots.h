#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace camber::distributed {

/// Short messages among the ranks of one machine through memory that they share: some microseconds, where a socket
/// takes hundreds. Every rank has a slot that it alone writes to; a number in it says which round it holds. Two halves
/// of a slot take turns: whoever writes round n + 2 has read all of round n + 1, which everybody wrote after reading
/// round n.
///
/// A rank that ends, however it ends, loses a lock on a byte of the memory: those that wait for it throw.
class SharedSlots {
 public:
  static constexpr std::size_t kCapacity = std::size_t{64} << 10;

  /// Shows every rank what all of them sent, by rank.
  using Exchange = std::function<std::vector<std::string>(const std::string&)>;

  /// Maps the same memory on every rank; `exchange` is another way to the others, used a few times. Not joined() on any
  /// rank where one of them cannot: another machine, or no shared memory.
  SharedSlots(std::int64_t rank, std::int64_t size, const Exchange& exchange);
  ~SharedSlots();
  SharedSlots(const SharedSlots&) = delete;
  SharedSlots& operator=(const SharedSlots&) = delete;

  bool joined() const { return memory_ != nullptr; }

  /// What every rank sent in this round, by rank: its length, and as many of its bytes as a slot holds. The bytes stay
  /// until the next call.
  struct Message {
    std::size_t length;
    std::span<const std::byte> bytes;
  };
  std::vector<Message> exchange(std::span<const std::byte> own);

 private:
  struct Half;
  struct Slot;

  bool open_named(const std::string& name, bool create);
  bool map_and_lock();
  void unmap();
  Slot& slot(std::int64_t rank) const;
  void wait_for(std::int64_t rank) const;
  bool is_gone(std::int64_t rank) const;

  std::int64_t rank_, size_;
  int file_ = -1;
  void* memory_ = nullptr;
  std::uint32_t round_ = 0;
};

}  // namespace camber::distributed
