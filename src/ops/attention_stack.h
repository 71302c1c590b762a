#pragma once
#include <vector>

#include <ATen/core/stack.h>

#include "ops/attention_arguments.h"

// The arguments of camber::biased_attention and of its backward as its schemas order them, on and off the dispatcher's
// stack, and calls of the two through it. Nothing else knows the order.
namespace camber::ops {

using Stack = torch::jit::Stack;

AttentionArguments pop_arguments(Stack& stack);
void push_result(Stack& stack, ForwardResult result);

struct BackwardArguments : BackwardTensors {
  AttentionArguments forward{};
  Needs needs{};
};

BackwardArguments pop_backward_arguments(Stack& stack);

ForwardResult call_forward(const AttentionArguments& a);
/// The gradients in the order of AttentionArguments' differentiable tensors.
std::vector<at::Tensor> call_backward(const BackwardArguments& b);

}  // namespace camber::ops
