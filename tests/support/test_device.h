#pragma once
#include <cstdint>
#include <map>
#include <string>

#include <ATen/ATen.h>

/// A device of one index for tests, on the dispatch key that torch keeps for backends of others (or, compiled with
/// CAMBER_TEST_DEVICE_AS_CUDA, on CUDA's, for code that asks is_cuda()). Its operators run on the CPU, but its memory
/// is not the CPU's: every address it hands out has a bit set that no mapping has, so that a host access faults as it
/// would on a GPU. Tensors of two devices in one operator are refused as CUDA refuses them. What a GPU does beside,
/// above all that it runs behind the host's back, it does not imitate.
namespace camber::proof {

#ifdef CAMBER_TEST_DEVICE_AS_CUDA
#define CAMBER_TEST_DEVICE_KEY CUDA
#else
#define CAMBER_TEST_DEVICE_KEY PrivateUse1
#endif

inline c10::Device test_device() {
  return {c10::DeviceType::CAMBER_TEST_DEVICE_KEY, 0};
}

/// The elements of a tensor of the test device as a CPU tensor that shares them; a CPU tensor as it is.
at::Tensor host_view(const at::Tensor& tensor);

/// What went between host and device since reset_traffic(): on a GPU every copy to the host, and every number that the
/// host reads, waits for the device.
struct Traffic {
  std::int64_t copies_to_host = 0, copies_to_device = 0, numbers_read = 0;
  std::map<std::string, std::int64_t> calls{};  // operators that ran, by name
  std::int64_t waits() const { return copies_to_host + numbers_read; }
};
Traffic traffic();
void reset_traffic();

}  // namespace camber::proof
