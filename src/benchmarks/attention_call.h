#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "benchmarks/attention_peer.h"

namespace camber::benchmarks {

using Tensors = std::vector<at::Tensor>;

inline constexpr const char* kForward = "forward";
inline constexpr const char* kBackward = "backward";
inline constexpr const char* kBoth = "forward+backward";

/// Something to call, with what its backward pass needs.
struct Call {
  Tensors leaves{};                // what gets a gradient
  std::function<Tensors()> run{};  // the outputs; the first one is differentiated
  at::Tensor gradient{};           // of the first output
};

/// The tensor, or a leaf with its contents that requires a gradient.
at::Tensor leaf(const at::Tensor& tensor, bool learns);

std::int64_t bytes_of(const Tensors& tensors);

/// A call made ready to be timed in one of the passes above.
Peer::Run ready_run(const Call& call, const std::string& pass);

}  // namespace camber::benchmarks
