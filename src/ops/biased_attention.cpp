#include "camber/ops/biased_attention.h"

#include <algorithm>
#include <tuple>

#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "camber/ops/deferred_check.h"
#include "ops/attention_arguments.h"
#include "ops/attention_stack.h"
#include "ops/implementation_choice.h"

// The operator camber::biased_attention: its kernels are boxed, so that the 23 arguments of its schema are taken apart
// and put together in one place (ops/attention_stack.h).
namespace camber::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Whether the backward pass at hand belongs to a forward pass under a DeferredCheck: another thing that a schema has no
// room for.
thread_local bool backward_is_checked = false;

// The queries of each batch element that the last call of `corrected` on this thread recomputed: what a report tells
// and a schema has no room for.
thread_local std::vector<at::Tensor> last_recomputed;

void report_recomputed(AttentionReport& report, std::int64_t queries) {
  std::vector<at::Tensor> rows;
  rows.reserve(last_recomputed.size());
  for (std::size_t b = 0; b < last_recomputed.size(); ++b)
    rows.push_back(last_recomputed[b].cpu() + static_cast<std::int64_t>(b) * queries);
  if (rows.empty()) return;
  report.recomputed = at::cat(rows);
  report.recomputed_rows = report.recomputed.size(0);
}

void run_forward(const c10::OperatorHandle&, Stack* stack) {
  const auto a = pop_arguments(*stack);
  check_shapes(a);
  if (a.readable()) check_contents(a);
  switch (choose_implementation(a).ran) {
    case Implementation::kReference: {
      auto result = reference_forward(a);
      // Every implementation returns the strides that the Meta kernel promises.
      auto output = empty_results(a).output;
      output.copy_(result.output);
      result.output = output;
      return push_result(*stack, result);
    }
    case Implementation::kFused:
      return push_result(*stack, fused_forward(a));
    case Implementation::kCorrected: {
      auto corrected = corrected_forward(a);
      last_recomputed = std::move(corrected.recomputed);
      return push_result(*stack, std::move(corrected.result));
    }
    default:
      return push_result(*stack, streamed_forward(a));
  }
}

void run_report(const c10::OperatorHandle&, Stack* stack) {
  const auto a = pop_arguments(*stack);
  check_shapes(a);
  stack->emplace_back(choose_implementation(a).sentence());
}

std::array<at::Tensor, kGradients> gradients_by(Implementation implementation, const BackwardArguments& b) {
  const auto& a = b.forward;
  // Torch's operators give a mask no gradient.
  if (implementation == Implementation::kCorrected && !b.needs[kAttnMask])
    return corrected_backward(a, b, b.needs, backward_is_checked);
  const auto backward = implementation == Implementation::kFused ? fused_backward : streamed_backward;
  return backward(a, b.output, b.logsumexp, b.grad_output, b.grad_logsumexp, b.needs);
}

void run_backward(const c10::OperatorHandle&, Stack* stack) {
  auto b = pop_backward_arguments(*stack);
  check_shapes(b.forward);
  check_backward_shapes(b.forward, b);
  // What is indexed with is checked anew; the bias values were checked by the forward, whose logsumexp comes along.
  if (b.forward.readable()) check_indices(b.forward);
  const auto inputs = b.forward.differentiable();
  for (std::size_t i = 0; i < kGradients; ++i) b.needs[i] = b.needs[i] && inputs[i]->defined();
  for (auto& gradient : gradients_by(choose_implementation(b.forward).ran, b)) stack->emplace_back(std::move(gradient));
}

void run_forward_meta(const c10::OperatorHandle&, Stack* stack) {
  const auto a = pop_arguments(*stack);
  check_shapes(a);
  push_result(*stack, empty_results(a));
}

void run_backward_meta(const c10::OperatorHandle&, Stack* stack) {
  const auto b = pop_backward_arguments(*stack);
  check_shapes(b.forward);
  check_backward_shapes(b.forward, b);
  for (auto& gradient : empty_gradients(b.forward, b.needs)) stack->emplace_back(std::move(gradient));
}

// q, k and v go to the lower precision; the bias never does.
void run_forward_autocast(const c10::OperatorHandle&, Stack* stack) {
  auto a = pop_arguments(*stack);
  const auto device = a.q.device().type();
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(
      at::autocast::get_autocast_dispatch_key_from_device_type(device));
  const auto type = at::autocast::get_autocast_dtype(device);
  for (at::Tensor* tensor : {&a.q, &a.k, &a.v}) *tensor = at::autocast::cached_cast(type, *tensor, device);
  push_result(*stack, call_forward(a));
}

// A second derivative would need the derivative of the recomputing pass; nobody has asked for it.
struct RefuseDoubleBackward : public torch::autograd::Function<RefuseDoubleBackward> {
  // The tensors stand apart to make edges in the graph; `b` holds everything.
  template <class... Edges>
  static variable_list forward(AutogradContext*, const BackwardArguments& b, const Edges&... /*edges*/) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    return call_backward(b);
  }
  static variable_list backward(AutogradContext*, const variable_list&) {
    TORCH_CHECK_NOT_IMPLEMENTED(false,
                                "[biased_attention] double backward must not be asked for: only first derivatives "
                                "exist (use implementation = reference for higher ones)");
  }
};

std::optional<at::Tensor> optional_of(const at::Tensor& t) {
  return t.defined() ? std::optional(t) : std::nullopt;
}

void run_backward_autograd(const c10::OperatorHandle&, Stack* stack) {
  const auto b = pop_backward_arguments(*stack);
  auto gradients = std::apply(
      [&b](const auto*... input) {
        return RefuseDoubleBackward::apply(b, b.grad_output, optional_of(b.grad_logsumexp), optional_of(*input)...);
      },
      b.forward.differentiable());
  for (auto& gradient : gradients) stack->emplace_back(std::move(gradient));
}

struct BiasedAttention : public torch::autograd::Function<BiasedAttention> {
  // The differentiable inputs stand apart, so that autograd sees them; `a` holds everything.
  template <class... Inputs>
  static variable_list forward(AutogradContext* context, const AttentionArguments& a, const Inputs&... /*inputs*/) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    const auto result = call_forward(a);
    variable_list saved;
    for (const at::Tensor* tensor : a.tensors()) saved.push_back(*tensor);
    saved.push_back(result.output);
    saved.push_back(result.logsumexp);
    context->save_for_backward(std::move(saved));
    context->saved_data["softmax_scale"] = a.softmax_scale;
    context->saved_data["dropout"] = a.dropout;
    context->saved_data["seed"] = a.seed;
    context->saved_data["implementation"] = a.implementation;
    context->saved_data["checked"] = DeferredCheck::current(a.q.device()) != nullptr;
    context->set_materialize_grads(false);
    context->mark_non_differentiable({result.row_statistics, result.segment_mass});
    return {result.output, result.logsumexp, result.row_statistics, result.segment_mass};
  }

  // Autograd numbers only the inputs that are there.
  static Needs needed(AutogradContext* context, const AttentionArguments& a) {
    const auto inputs = a.differentiable();
    Needs needs{};
    std::size_t edge = 0;
    for (std::size_t i = 0; i < kGradients; ++i)
      if (inputs[i]->defined()) needs[i] = context->needs_input_grad(edge++);
    return needs;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    BackwardArguments b;
    const auto tensors = b.forward.tensors();
    for (std::size_t i = 0; i < tensors.size(); ++i) *tensors[i] = saved[i];
    b.output = saved[tensors.size()];
    b.logsumexp = saved[tensors.size() + 1];
    b.forward.softmax_scale = context->saved_data["softmax_scale"].toOptional<double>();
    b.forward.dropout = context->saved_data["dropout"].toDouble();
    b.forward.seed = context->saved_data["seed"].toInt();
    b.forward.implementation = context->saved_data["implementation"].toStringRef();
    variable_list result(1 + kGradients);  // what forward takes: the arguments, then the differentiable inputs
    if (!gradients[0].defined() && !gradients[1].defined()) return result;
    b.grad_output = gradients[0].defined() ? gradients[0] : at::zeros_like(b.output);
    b.grad_logsumexp = gradients[1];
    b.needs = needed(context, b.forward);
    backward_is_checked = context->saved_data["checked"].toBool();
    const auto reset = c10::make_scope_exit([] { backward_is_checked = false; });
    const auto computed = call_backward(b);
    for (std::size_t i = 0; i < kGradients; ++i)
      if (b.needs[i]) result[1 + i] = computed[i];
    return result;
  }
};

// Whether a tensor among the last arguments on the stack takes part in differentiation, of whatever mode.
bool differentiated(const c10::OperatorHandle& op, const Stack& stack) {
  const auto takes_part = [](const c10::IValue& value) {
    return value.isTensor() && value.toTensor().defined() &&
           ((at::GradMode::is_enabled() && value.toTensor().requires_grad()) || value.toTensor()._fw_grad(0).defined());
  };
  const auto count = static_cast<std::ptrdiff_t>(op.schema().arguments().size());
  return std::any_of(stack.end() - count, stack.end(), takes_part);
}

void run_forward_autograd(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  if (!differentiated(op, *stack)) {
    // Nothing to remember: the arguments go on as they are.
    op.redispatchBoxed(keys & c10::after_ADInplaceOrView_keyset, stack);
    return;
  }
  const auto a = pop_arguments(*stack);
  if (a.implementation == "reference" && !a.any_of_python()) {
    // Plain differentiable operations: autograd goes through them, to any order. (A compiled graph has no second
    // derivatives, and holds the operator as one whole.)
    check_shapes(a);
    if (a.readable()) check_contents(a);
    return push_result(*stack, reference_forward(a));
  }
  const auto result = std::apply(
      [&a](const auto*... input) { return BiasedAttention::apply(a, optional_of(*input)...); }, a.differentiable());
  push_result(*stack, {result[0], result[1], result[2], result[3]});
}

AttentionArguments arguments_of(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                const StructuredBias& bias, const AttentionOptions& options) {
  const auto tensor = [](const std::optional<at::Tensor>& t) { return t.value_or(at::Tensor{}); };
  AttentionArguments a{.q = q, .k = k, .v = v};
  if (bias.windows) {
    a.row_offsets = bias.windows->row_offsets;
    a.key_index = bias.windows->key_index;
    a.window_value = bias.windows->value;
  }
  if (bias.segments) {
    a.segment_offsets = bias.segments->offsets;
    a.segment_value = tensor(bias.segments->value);
  }
  if (bias.table) {
    a.table_value = bias.table->value;
    a.table_index = tensor(bias.table->index);
    a.query_code = tensor(bias.table->query_code);
    a.key_code = tensor(bias.table->key_code);
  }
  a.segment_available = tensor(options.masks.segment_available);
  a.attn_mask = tensor(options.masks.attn_mask);
  a.blocked_mask = tensor(options.masks.blocked_mask);
  a.key_padding_mask = tensor(options.masks.key_padding_mask);
  a.key_lengths = tensor(options.masks.key_lengths);
  a.row_lengths = tensor(options.masks.row_lengths);
  a.softmax_scale = options.softmax_scale;
  a.dropout = options.dropout;
  a.seed = static_cast<std::int64_t>(options.dropout_seed);
  a.statistics = options.statistics;
  a.implementation = name_of(options.implementation);
  return a;
}

}  // namespace

AttentionOutput biased_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                 const StructuredBias& bias, const AttentionOptions& options, AttentionReport* report) {
  const auto arguments = arguments_of(q, k, v, bias, options);
  if (report != nullptr) {
    check_shapes(arguments);
    *report = choose_implementation(arguments);
  }
  last_recomputed.clear();
  const auto result = call_forward(arguments);
  if (report != nullptr) report_recomputed(*report, arguments.queries());
  AttentionOutput output{.output = result.output, .logsumexp = result.logsumexp};
  if (options.statistics) {
    const auto row = [&](Statistic which) { return result.row_statistics.select(0, which); };
    output.statistics = AttentionStatistics{.entropy = row(kEntropy),
                                            .largest_weight = row(kLargestWeight),
                                            .sum_of_squares = row(kSumOfSquares),
                                            .change = row(kChange),
                                            .divergence = row(kDivergence),
                                            .keys_left = row(kKeysLeft)};
    if (bias.segments) output.statistics->segment_mass = result.segment_mass;
  }
  return output;
}

TORCH_LIBRARY_IMPL(camber, CompositeExplicitAutograd, m) {
  m.impl("biased_attention", torch::CppFunction::makeFromBoxedFunction<&run_forward>());
  m.impl("biased_attention_backward", torch::CppFunction::makeFromBoxedFunction<&run_backward>());
}

TORCH_LIBRARY_IMPL(camber, CompositeImplicitAutograd, m) {
  m.impl("biased_attention_report", torch::CppFunction::makeFromBoxedFunction<&run_report>());
}

TORCH_LIBRARY_IMPL(camber, Meta, m) {
  m.impl("biased_attention", torch::CppFunction::makeFromBoxedFunction<&run_forward_meta>());
  m.impl("biased_attention_backward", torch::CppFunction::makeFromBoxedFunction<&run_backward_meta>());
}

TORCH_LIBRARY_IMPL(camber, Autograd, m) {
  m.impl("biased_attention", torch::CppFunction::makeFromBoxedFunction<&run_forward_autograd>());
  m.impl("biased_attention_backward", torch::CppFunction::makeFromBoxedFunction<&run_backward_autograd>());
}

TORCH_LIBRARY_IMPL(camber, AutocastCPU, m) {
  m.impl("biased_attention", torch::CppFunction::makeFromBoxedFunction<&run_forward_autocast>());
}
TORCH_LIBRARY_IMPL(camber, AutocastCUDA, m) {
  m.impl("biased_attention", torch::CppFunction::makeFromBoxedFunction<&run_forward_autocast>());
}
TORCH_LIBRARY_IMPL(camber, AutocastPrivateUse1, m) {
  m.impl("biased_attention", torch::CppFunction::makeFromBoxedFunction<&run_forward_autocast>());
}

}  // namespace camber::ops
