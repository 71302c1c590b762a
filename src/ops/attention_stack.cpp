#include "ops/attention_stack.h"

#include <ATen/core/dispatch/Dispatcher.h>

namespace camber::ops {
namespace {

void push_arguments(Stack& stack, const AttentionArguments& a) {
  for (const at::Tensor* tensor : a.tensors())
    stack.push_back(tensor->defined() ? c10::IValue(*tensor) : c10::IValue());
  torch::jit::push(stack, a.softmax_scale, a.dropout, a.seed, a.statistics, a.implementation);
}

ForwardResult pop_result(Stack& stack) {
  ForwardResult result;
  for (at::Tensor* tensor : {&result.segment_mass, &result.row_statistics, &result.logsumexp, &result.output})
    *tensor = torch::jit::pop(stack).toTensor();
  return result;
}

void push_backward_arguments(Stack& stack, const BackwardArguments& b) {
  torch::jit::push(stack, b.grad_output, b.grad_logsumexp.defined() ? c10::IValue(b.grad_logsumexp) : c10::IValue(),
                   b.output, b.logsumexp);
  push_arguments(stack, b.forward);
  c10::List<bool> needs;
  for (const bool need : b.needs) needs.push_back(need);
  stack.emplace_back(needs);
}

const c10::OperatorHandle& forward_operator() {
  static const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow("camber::biased_attention", "");
  return handle;
}

const c10::OperatorHandle& backward_operator() {
  static const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow("camber::biased_attention_backward", "");
  return handle;
}

}  // namespace

AttentionArguments pop_arguments(Stack& stack) {
  AttentionArguments a;
  a.implementation = torch::jit::pop(stack).toStringRef();
  a.statistics = torch::jit::pop(stack).toBool();
  a.seed = torch::jit::pop(stack).toInt();
  a.dropout = torch::jit::pop(stack).toDouble();
  a.softmax_scale = torch::jit::pop(stack).toOptional<double>();
  const auto tensors = a.tensors();
  for (std::size_t i = tensors.size(); i-- > 0;) {
    const c10::IValue value = torch::jit::pop(stack);
    if (!value.isNone()) *tensors[i] = value.toTensor();
  }
  return a;
}

void push_result(Stack& stack, ForwardResult result) {
  torch::jit::push(stack, std::move(result.output), std::move(result.logsumexp), std::move(result.row_statistics),
                   std::move(result.segment_mass));
}

BackwardArguments pop_backward_arguments(Stack& stack) {
  BackwardArguments b;
  const auto needs = torch::jit::pop(stack).toBoolList();
  TORCH_CHECK_VALUE(needs.size() == kGradients, "[biased_attention_backward] needs must have ", int{kGradients},
                    " entries, got ", needs.size());
  for (std::size_t i = 0; i < kGradients; ++i) b.needs[i] = needs.get(i);
  b.forward = pop_arguments(stack);
  for (at::Tensor* tensor : {&b.logsumexp, &b.output}) *tensor = torch::jit::pop(stack).toTensor();
  if (const c10::IValue value = torch::jit::pop(stack); !value.isNone()) b.grad_logsumexp = value.toTensor();
  b.grad_output = torch::jit::pop(stack).toTensor();
  return b;
}

ForwardResult call_forward(const AttentionArguments& a) {
  Stack stack;
  push_arguments(stack, a);
  forward_operator().callBoxed(stack);
  return pop_result(stack);
}

std::vector<at::Tensor> call_backward(const BackwardArguments& b) {
  Stack stack;
  push_backward_arguments(stack, b);
  backward_operator().callBoxed(stack);
  std::vector<at::Tensor> gradients;
  for (const auto& value : stack) gradients.push_back(value.toTensor());
  return gradients;
}

}  // namespace camber::ops
