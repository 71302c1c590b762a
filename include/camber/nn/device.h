#pragma once
#include <string>

#include <torch/types.h>

namespace camber::nn {

/// The device of a name: "cpu", "cuda", "cuda:1", or another that torch knows. One that this machine does not have is
/// refused with a std::invalid_argument before any work begins.
///
///   detector->to(device_from("cuda:0"));
torch::Device device_from(const std::string& name);

/// Returns when the device has done what it was given: before a clock is read.
void wait_for(torch::Device device);

}  // namespace camber::nn
