#include "benchmarks/attention_call.h"

#include <memory>

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

namespace camber::benchmarks {

at::Tensor leaf(const at::Tensor& tensor, bool learns) {
  return learns ? tensor.detach().requires_grad_(true) : tensor;
}

std::int64_t bytes_of(const Tensors& tensors) {
  std::int64_t sum = 0;
  for (const auto& tensor : tensors)
    if (tensor.defined()) sum += tensor.numel() * static_cast<std::int64_t>(tensor.element_size());
  return sum;
}

Peer::Run ready_run(const Call& call, const std::string& pass) {
  const auto outputs = std::make_shared<Tensors>(), gradients = std::make_shared<Tensors>();
  const auto attend = [call, outputs] { *outputs = call.run(); };
  const auto differentiate = [call, outputs, gradients] {
    *gradients = torch::autograd::grad({outputs->front()}, call.leaves, {call.gradient});
  };
  Peer::Run ready{.before = [] {},
                  .run = {},
                  .release =
                      [outputs, gradients] {
                        outputs->clear();
                        gradients->clear();
                      }};
  if (pass == kForward) {
    ready.run = [attend, outputs] {
      const at::NoGradGuard no_gradient;
      attend();
      return bytes_of(*outputs);
    };
  } else if (pass == kBackward) {
    ready.before = attend;
    ready.run = [differentiate, gradients] {
      differentiate();
      return bytes_of(*gradients);
    };
  } else {
    ready.run = [attend, differentiate, outputs, gradients] {
      attend();
      differentiate();
      return bytes_of(*outputs) + bytes_of(*gradients);
    };
  }
  return ready;
}

}  // namespace camber::benchmarks
