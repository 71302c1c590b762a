#include "camber/nn/device.h"

#include <optional>
#include <stdexcept>

#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace camber::nn {
namespace {

[[noreturn]] void refuse_device(const std::string& name, const std::string& reason) {
  throw std::invalid_argument("device must be cpu, cuda or cuda:N, got \"" + name + "\"" + reason);
}

}  // namespace

torch::Device device_from(const std::string& name) {
  std::optional<torch::Device> device;
  try {
    device.emplace(name);
  } catch (const c10::Error&) {
    refuse_device(name, "");
  }
  if (device->is_cpu()) return torch::kCPU;
  if (!c10::impl::hasDeviceGuardImpl(device->type()))
    refuse_device(name, ": this torch was built without " + c10::DeviceTypeName(device->type(), /*lower_case=*/true));
  const auto count = c10::impl::getDeviceGuardImpl(device->type())->deviceCount();
  const auto index = device->has_index() ? device->index() : c10::DeviceIndex{0};
  if (index >= count) refuse_device(name, ": this machine has " + std::to_string(count) + " of its kind");
  return {device->type(), index};
}

void wait_for(torch::Device device) {
  if (!device.is_cpu()) c10::impl::getDeviceGuardImpl(device.type())->synchronizeDevice(device.index());
}

}  // namespace camber::nn
