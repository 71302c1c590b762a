#pragma once
#include <initializer_list>
#include <vector>

#include <torch/types.h>

namespace camber::nn {

/// Carries out `move`, a cast of a module or its move to a device, and gives the buffers that say how to read its
/// weights their own type and values back: bounds of 0.1 and 3.3 are not what half precision makes of them. They stay
/// on the host, which reads them in every forward pass and would have to wait for a device.
template <class Move>
void move_keeping(std::initializer_list<torch::Tensor*> buffers, const Move& move) {
  std::vector<torch::Tensor> kept;
  for (const torch::Tensor* buffer : buffers) kept.push_back(buffer->detach());
  move();
  auto value = kept.begin();
  for (torch::Tensor* buffer : buffers) buffer->set_data(*value++);
}

}  // namespace camber::nn
