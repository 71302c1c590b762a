#include "support/test_device.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "support/test_device_state.h"

// The device itself: memory, guard, generator, hooks, counters.
namespace camber::proof {
namespace {

class DeviceMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    constexpr std::size_t kAlignment = 64;
    void* host = nullptr;
    if (bytes > 0) {
      host = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
      TORCH_CHECK(host != nullptr, "test device: out of memory for ", bytes, " bytes");
      std::memset(host, 0xA5, bytes);  // fresh memory of a device is not zero
    }
    return {device_address(host), host, &std::free, test_device()};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    if (bytes > 0) std::memcpy(host_address(to), host_address(from), bytes);  // of nothing, the address may be null
  }
};

DeviceMemory memory;
REGISTER_ALLOCATOR(c10::DeviceType::CAMBER_TEST_DEVICE_KEY, &memory)

// Everything is done when a call returns: one stream, and nothing to wait for.
class DeviceGuard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return test_device().type(); }
  c10::Device exchangeDevice(c10::Device) const override { return test_device(); }
  c10::Device getDevice() const override { return test_device(); }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  c10::Stream getStream(c10::Device) const override { return c10::Stream(c10::Stream::DEFAULT, test_device()); }
  c10::Stream getDefaultStream(c10::Device) const override { return c10::Stream(c10::Stream::DEFAULT, test_device()); }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
  void synchronizeDevice(c10::DeviceIndex) const override {}
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}
};
C10_REGISTER_GUARD_IMPL(CAMBER_TEST_DEVICE_KEY, DeviceGuard)

// Numbers that are not the CPU's: the engine of the CPU from another seed.
class DeviceGenerator final : public at::CPUGeneratorImpl {
 public:
  DeviceGenerator() {
    device_ = test_device();
    set_current_seed(c10::default_rng_seed_val);
  }
  void set_current_seed(std::uint64_t seed) override {
    seed_ = seed;
    CPUGeneratorImpl::set_current_seed(~seed);
  }
  std::uint64_t current_seed() const override { return seed_; }

 private:
  std::uint64_t seed_ = 0;
};

#ifdef CAMBER_TEST_DEVICE_AS_CUDA
class DeviceHooks final : public at::CUDAHooksInterface {
 public:
  explicit DeviceHooks(at::CUDAHooksArgs) {}
  void init() const override {}
  bool hasCUDA() const override { return true; }
  int getNumGPUs() const override { return 1; }
  c10::DeviceIndex current_device() const override { return 0; }
  void deviceSynchronize(c10::DeviceIndex) const override {}
#else
class DeviceHooks final : public at::PrivateUse1HooksInterface {
 public:
  void resizePrivateUse1Bytes(const c10::Storage& storage, std::size_t bytes) const override {
    auto block = memory.allocate(bytes);
    memory.copy_data(block.get(), storage.data(), std::min(bytes, storage.nbytes()));
    storage.unsafeGetStorageImpl()->set_data_ptr_noswap(std::move(block));
    storage.unsafeGetStorageImpl()->set_nbytes(bytes);
  }
#endif
  bool isBuilt() const override {
    return true;
  }
  bool isAvailable() const override {
    return true;
  }
  bool hasPrimaryContext(c10::DeviceIndex) const override {
    return true;
  }
  c10::DeviceIndex deviceCount() const override {
    return 1;
  }
  c10::DeviceIndex getCurrentDevice() const override {
    return 0;
  }
  void setCurrentDevice(c10::DeviceIndex) const override {}
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex) const override {
    return 0;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override {
    return 0;
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    return device_generator();
  }
  at::Generator getNewGenerator(c10::DeviceIndex) const override {
    return at::make_generator<DeviceGenerator>();
  }
  at::Device getDeviceFromPtr(void*) const override {
    return test_device();
  }
};

#ifndef CAMBER_TEST_DEVICE_AS_CUDA
const bool is_registered = [] {
  c10::register_privateuse1_backend("testdevice");
  at::RegisterPrivateUse1HooksInterface(new DeviceHooks);
  return true;
}();
#endif

std::mutex counter_mutex;
Traffic counted;
thread_local int uncounted_depth = 0;

}  // namespace

Uncounted::Uncounted() {
  ++uncounted_depth;
}
Uncounted::~Uncounted() {
  --uncounted_depth;
}
bool Uncounted::active() {
  return uncounted_depth > 0;
}

void count_copy(bool to_host, bool to_device) {
  if (Uncounted::active()) return;
  const std::scoped_lock lock(counter_mutex);
  counted.copies_to_host += to_host ? 1 : 0;
  counted.copies_to_device += to_device ? 1 : 0;
}

void count_number() {
  if (Uncounted::active()) return;
  const std::scoped_lock lock(counter_mutex);
  ++counted.numbers_read;
}

void count_call(const std::string& name) {
  if (Uncounted::active()) return;
  const std::scoped_lock lock(counter_mutex);
  ++counted.calls[name];
}

c10::Allocator& device_allocator() {
  return memory;
}

const at::Generator& device_generator() {
  static const at::Generator generator = at::make_generator<DeviceGenerator>();
  return generator;
}

Traffic traffic() {
  const std::scoped_lock lock(counter_mutex);
  return counted;
}

void reset_traffic() {
  const std::scoped_lock lock(counter_mutex);
  counted = {};
}

}  // namespace camber::proof

#ifdef CAMBER_TEST_DEVICE_AS_CUDA
namespace at {
using CUDAHooks = camber::proof::DeviceHooks;  // torch looks for it by this name
REGISTER_CUDA_HOOKS(CUDAHooks)
}  // namespace at
#endif
