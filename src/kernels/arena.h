#pragma once
#include <cstddef>
#include <cstdint>

namespace camber::kernels {
namespace {

// Hands out pieces of one block of memory, each aligned to a cache line. With a null base it only counts.
struct Arena {
  std::byte* base = nullptr;
  std::size_t used = 0;

  template <class T>
  T* take(std::int64_t count) {
    std::byte* piece = base == nullptr ? nullptr : base + used;
    used += (static_cast<std::size_t>(count) * sizeof(T) + 63) / 64 * 64;
    return reinterpret_cast<T*>(piece);
  }
};

}  // namespace
}  // namespace camber::kernels
