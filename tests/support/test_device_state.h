#pragma once
#include <cstdint>

#include <ATen/ATen.h>
#include <ATen/core/Generator.h>

#include "support/test_device.h"

/// What the files of the test device share.
namespace camber::proof {

/// No address of a program has bit 55 set: on x86-64 it lies above every user mapping, on arm64 it names the kernel.
inline constexpr std::uintptr_t kDeviceBit = std::uintptr_t{1} << 55;

// An address with a mark is a number by design.
// NOLINTBEGIN(performance-no-int-to-ptr)
inline void* device_address(void* host) {
  return host == nullptr ? nullptr : reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(host) | kDeviceBit);
}
inline void* host_address(const void* device) {
  return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(device) & ~kDeviceBit);
}
// NOLINTEND(performance-no-int-to-ptr)

/// While one lives, copies are the device's own business and not counted.
class Uncounted {
 public:
  Uncounted();
  ~Uncounted();
  Uncounted(const Uncounted&) = delete;
  Uncounted& operator=(const Uncounted&) = delete;
  static bool active();
};

void count_copy(bool to_host, bool to_device);
void count_number();
void count_call(const std::string& name);

c10::Allocator& device_allocator();
const at::Generator& device_generator();

}  // namespace camber::proof
