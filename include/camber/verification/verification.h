#pragma once
#include <functional>
#include <string>
#include <vector>

/// The promises of the library checked on this very build with small tensors, in seconds.
namespace camber::verification {

struct Check {
  std::string section{};   // "scale", "bias", "attention", "router", "few-shot"
  std::string promise{};   // what must hold
  std::string measured{};  // what was seen
  bool passed = false;
};

/// Runs every check and hands each to `report` as soon as it is done. A check that throws has failed; its measured is
/// the message. Zero threads: as many as torch takes by itself. On a device other than the CPU, what the library
/// promises there, held against the CPU.
///
///   auto checks = verify([](const Check& check) { std::cout << check.promise << ": " << check.measured << '\n'; });
std::vector<Check> verify(const std::function<void(const Check&)>& report = {}, int threads = 0,
                          const std::string& device = "cpu");

}  // namespace camber::verification
