#include "camber/ops/sparse_attention.h"

#include <array>
#include <cmath>

#include <ATen/autocast_mode.h>
#include <ATen/core/List.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "camber/kernels/sparse.h"
#include "ops/attention_arguments.h"
#include "ops/kernel_views.h"
#include "ops/sparse_attention_reference.h"

namespace camber::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using OptionalTensor = std::optional<at::Tensor>;

double scale_of(const at::Tensor& q, std::optional<double> scale) {
  return scale ? *scale : 1.0 / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, q.size(3))));
}

void check(const char* op, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& row_offsets,
           const at::Tensor& key_index, const OptionalTensor& bias, std::optional<double> softmax_scale) {
  const bool known = q.scalar_type() == at::kFloat || q.scalar_type() == at::kDouble;
  TORCH_CHECK_VALUE(q.dim() == 4 && known, "[", op, "] q must be a float or double tensor [B, H, Q, D], got ",
                    describe(q));
  const auto fits = [&](const at::Tensor& t) {
    return t.dim() == 4 && t.scalar_type() == q.scalar_type() && t.sym_size(0) == q.sym_size(0) &&
           t.sym_size(1) == q.sym_size(1);
  };
  TORCH_CHECK_VALUE(fits(k) && k.sym_size(3) == q.sym_size(3), "[", op,
                    "] k must be [B, H, K, D] with the batch, heads, head dimension and dtype of q ", describe(q),
                    ", got ", describe(k));
  TORCH_CHECK_VALUE(fits(v) && v.sym_size(2) == k.sym_size(2), "[", op,
                    "] v must be [B, H, K, Dv] with the batch, heads, keys and dtype of k ", describe(k), ", got ",
                    describe(v));
  TORCH_CHECK_VALUE(row_offsets.scalar_type() == at::kLong && row_offsets.dim() == 1 &&
                        row_offsets.sym_size(0) == q.sym_size(0) * q.sym_size(2) + 1,
                    "[", op, "] row_offsets must be int64 [B*Q+1] = [", q.sym_size(0) * q.sym_size(2) + 1, "], got ",
                    describe(row_offsets));
  TORCH_CHECK_VALUE(key_index.scalar_type() == at::kInt && key_index.dim() == 1, "[", op,
                    "] key_index must be int32 [nnz], got ", describe(key_index));
  if (bias)
    TORCH_CHECK_VALUE(bias->scalar_type() == q.scalar_type() && bias->dim() == 2 &&
                          bias->sym_size(1) == key_index.sym_size(0) &&
                          (bias->sym_size(0) == 1 || bias->sym_size(0) == q.sym_size(1)),
                      "[", op, "] value must be [1 or H, nnz] = [1 or ", q.sym_size(1), ", ", key_index.sym_size(0),
                      "] with the dtype of q, got ", describe(*bias));
  check_softmax_scale(op, softmax_scale, q.scalar_type());
}

void check_contents(const char* op, const at::Tensor& k, const at::Tensor& row_offsets, const at::Tensor& key_index,
                    const OptionalTensor& bias) {
  check_rows(op, row_offsets, key_index, k.size(2));
  if (bias) check_bias_values(op, "value", *bias, k.scalar_type());
}

// What the backward takes beside the forward's arguments.
void check_saved(const at::Tensor& grad, const at::Tensor& output, const at::Tensor& logsumexp, const at::Tensor& q,
                 const at::Tensor& v, const c10::List<bool>& needs) {
  TORCH_CHECK_VALUE(needs.size() == 4, "[sparse_attention_backward] needs must hold 4 flags, got ", needs.size());
  const c10::SymDimVector rows = {q.sym_size(0), q.sym_size(1), q.sym_size(2)};
  c10::SymDimVector outputs = rows;
  outputs.push_back(v.sym_size(3));
  const auto check_one = [&](const char* name, const at::Tensor& tensor, c10::SymIntArrayRef sizes) {
    TORCH_CHECK_VALUE(tensor.scalar_type() == q.scalar_type() && tensor.sym_sizes() == sizes,
                      "[sparse_attention_backward] ", name, " must be ", c10::toString(q.scalar_type()), " ", sizes,
                      ", got ", describe(tensor));
  };
  check_one("grad_output", grad, outputs);
  check_one("output", output, outputs);
  check_one("logsumexp", logsumexp, rows);
}

SparseInputs inputs_of(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& row_offsets,
                       const at::Tensor& key_index, const OptionalTensor& bias, std::optional<double> softmax_scale) {
  return {with_unit_stride(q),       with_unit_stride(k),    with_unit_stride(v),
          row_offsets.contiguous(),  key_index.contiguous(), bias ? bias->contiguous() : at::Tensor{},
          scale_of(q, softmax_scale)};
}

at::Tensor empty_output(const at::Tensor& q, const at::Tensor& v) {
  return at::empty_symint({q.sym_size(0), q.sym_size(2), q.sym_size(1), v.sym_size(3)}, q.options()).transpose(1, 2);
}
at::Tensor empty_logsumexp(const at::Tensor& q) {
  return at::empty_symint({q.sym_size(0), q.sym_size(1), q.sym_size(2)}, q.options());
}

// --- float: the kernels ---

kernels::GradientRows gradient_rows(const at::Tensor& t) {
  return t.defined() ? kernels::GradientRows{t.data_ptr<float>(), kernel_strides(t)} : kernels::GradientRows{};
}

kernels::SparseProblem kernel_problem(const SparseInputs& in) {
  kernels::SparseProblem problem{.batches = in.q.size(0),
                                 .heads = in.q.size(1),
                                 .queries = in.q.size(2),
                                 .keys = in.k.size(2),
                                 .key_width = in.q.size(3),
                                 .value_width = in.v.size(3),
                                 .softmax_scale = static_cast<float>(in.scale),
                                 .q = kernel_rows(in.q),
                                 .k = kernel_rows(in.k),
                                 .v = kernel_rows(in.v),
                                 .lists = {},
                                 .parallel = torch_threads()};
  problem.lists = {.row_offsets = in.row_offsets.const_data_ptr<std::int64_t>(),
                   .key_index = in.key_index.const_data_ptr<std::int32_t>(),
                   .value = in.bias.defined() ? in.bias.const_data_ptr<float>() : nullptr,
                   .heads = in.bias.defined() ? in.bias.size(0) : 1,
                   .entries = in.key_index.size(0)};
  return problem;
}

void forward_float(const SparseInputs& in, const at::Tensor& output, const at::Tensor& logsumexp) {
  kernels::sparse_forward(kernel_problem(in),
                          {.output = output.data_ptr<float>(),
                           .output_strides = kernel_strides(output),
                           .logsumexp = logsumexp.data_ptr<float>()},
                          kernels::chosen_isa());
}

void backward_float(const SparseInputs& in, const at::Tensor& grad, const at::Tensor& output,
                    const at::Tensor& logsumexp, const SparseGradients& wanted) {
  kernels::sparse_backward(kernel_problem(in),
                           {.output = kernel_rows(output),
                            .logsumexp = logsumexp.const_data_ptr<float>(),
                            .grad_output = kernel_rows(grad),
                            .grad_logsumexp = nullptr},
                           {.q = gradient_rows(wanted[0]),
                            .k = gradient_rows(wanted[1]),
                            .v = gradient_rows(wanted[2]),
                            .value = wanted[3].defined() ? wanted[3].data_ptr<float>() : nullptr},
                           kernels::chosen_isa());
}

// --- The operators ---

std::tuple<at::Tensor, at::Tensor> run_sparse_forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                      const at::Tensor& row_offsets, const at::Tensor& key_index,
                                                      const OptionalTensor& bias, std::optional<double> softmax_scale) {
  check("sparse_attention", q, k, v, row_offsets, key_index, bias, softmax_scale);
  if (q.is_cpu()) check_contents("sparse_attention", k, row_offsets, key_index, bias);
  const SparseInputs in = inputs_of(q, k, v, row_offsets, key_index, bias, softmax_scale);
  auto output = empty_output(q, v), logsumexp = empty_logsumexp(q);
  (!q.is_cpu()                     ? sparse_tensor_forward
   : q.scalar_type() == at::kFloat ? forward_float
                                   : sparse_reference_forward)(in, output, logsumexp);
  return {output, logsumexp};
}

SparseGradients empty_gradients(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                const OptionalTensor& bias, const c10::List<bool>& needs, bool placeholders) {
  const std::array<OptionalTensor, 4> of = {q, k, v, bias};
  SparseGradients gradients;
  for (std::size_t i = 0; i < of.size(); ++i)
    if (of[i] && needs.get(i))
      gradients[i] = at::empty_symint(of[i]->sym_sizes(), of[i]->options());
    else if (placeholders)
      gradients[i] = at::empty({0}, q.options());
  return gradients;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> run_sparse_backward(
    const at::Tensor& grad, const at::Tensor& output, const at::Tensor& logsumexp, const at::Tensor& q,
    const at::Tensor& k, const at::Tensor& v, const at::Tensor& row_offsets, const at::Tensor& key_index,
    const OptionalTensor& bias, std::optional<double> softmax_scale, const c10::List<bool>& needs) {
  constexpr const char* kOp = "sparse_attention_backward";
  check(kOp, q, k, v, row_offsets, key_index, bias, softmax_scale);
  check_saved(grad, output, logsumexp, q, v, needs);
  if (q.is_cpu()) check_rows(kOp, row_offsets, key_index, k.size(2));
  const SparseInputs in = inputs_of(q, k, v, row_offsets, key_index, bias, softmax_scale);
  SparseGradients gradients = empty_gradients(q, k, v, bias, needs, false);
  (!q.is_cpu()                     ? sparse_tensor_backward
   : q.scalar_type() == at::kFloat ? backward_float
                                   : sparse_reference_backward)(in, with_unit_stride(grad), with_unit_stride(output),
                                                                logsumexp.contiguous(), gradients);
  for (auto& gradient : gradients)
    if (!gradient.defined()) gradient = at::empty({0}, q.options());
  return {gradients[0], gradients[1], gradients[2], gradients[3]};
}

std::tuple<at::Tensor, at::Tensor> forward_meta(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                const at::Tensor& row_offsets, const at::Tensor& key_index,
                                                const OptionalTensor& bias, std::optional<double> softmax_scale) {
  check("sparse_attention", q, k, v, row_offsets, key_index, bias, softmax_scale);
  return {empty_output(q, v), empty_logsumexp(q)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> backward_meta(
    const at::Tensor& grad, const at::Tensor& output, const at::Tensor& logsumexp, const at::Tensor& q,
    const at::Tensor& k, const at::Tensor& v, const at::Tensor& row_offsets, const at::Tensor& key_index,
    const OptionalTensor& bias, std::optional<double> softmax_scale, const c10::List<bool>& needs) {
  check("sparse_attention_backward", q, k, v, row_offsets, key_index, bias, softmax_scale);
  check_saved(grad, output, logsumexp, q, v, needs);
  const SparseGradients gradients = empty_gradients(q, k, v, bias, needs, true);
  return {gradients[0], gradients[1], gradients[2], gradients[3]};
}

using Forward = std::tuple<at::Tensor, at::Tensor>(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                                   const at::Tensor&, const at::Tensor&, const OptionalTensor&,
                                                   std::optional<double>);
using Backward = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>(
    const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
    const at::Tensor&, const at::Tensor&, const OptionalTensor&, std::optional<double>, const c10::List<bool>&);

std::tuple<at::Tensor, at::Tensor> call_forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                const at::Tensor& row_offsets, const at::Tensor& key_index,
                                                const OptionalTensor& bias, std::optional<double> scale) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("camber::sparse_attention", "").typed<Forward>();
  return op.call(q, k, v, row_offsets, key_index, bias, scale);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> call_backward(
    const at::Tensor& grad, const at::Tensor& output, const at::Tensor& logsumexp, const at::Tensor& q,
    const at::Tensor& k, const at::Tensor& v, const at::Tensor& row_offsets, const at::Tensor& key_index,
    const OptionalTensor& bias, std::optional<double> scale, const c10::List<bool>& needs) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("camber::sparse_attention_backward", "").typed<Backward>();
  return op.call(grad, output, logsumexp, q, k, v, row_offsets, key_index, bias, scale, needs);
}

struct SparseAttention : public torch::autograd::Function<SparseAttention> {
  static variable_list forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const at::Tensor& row_offsets, const at::Tensor& key_index, const OptionalTensor& bias,
                               std::optional<double> scale) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    auto [output, logsumexp] = call_forward(q, k, v, row_offsets, key_index, bias, scale);
    context->save_for_backward({q, k, v, row_offsets, key_index, output, logsumexp, bias ? *bias : at::Tensor{}});
    context->saved_data["scale"] = scale;
    context->mark_non_differentiable({logsumexp});
    return {output, logsumexp};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto s = context->get_saved_variables();
    const auto bias = s[7].defined() ? OptionalTensor(s[7]) : std::nullopt;
    const std::array<bool, 4> needs = {context->needs_input_grad(0), context->needs_input_grad(1),
                                       context->needs_input_grad(2), bias && context->needs_input_grad(5)};
    const auto [grad_q, grad_k, grad_v, grad_bias] =
        call_backward(gradients[0], s[5], s[6], s[0], s[1], s[2], s[3], s[4], bias,
                      context->saved_data["scale"].toOptional<double>(), c10::List<bool>(c10::ArrayRef<bool>(needs)));
    const auto wanted = [&](const at::Tensor& gradient, std::size_t which) {
      return needs[which] ? gradient : at::Tensor{};
    };
    return {wanted(grad_q, 0), wanted(grad_k, 1), wanted(grad_v, 2), {}, {}, wanted(grad_bias, 3), {}};
  }
};

// A gradient of the gradient would need the derivative of the recomputing pass.
struct RefuseSparseDoubleBackward : public torch::autograd::Function<RefuseSparseDoubleBackward> {
  static variable_list forward(AutogradContext*, const at::Tensor& grad, const at::Tensor& output,
                               const at::Tensor& logsumexp, const at::Tensor& q, const at::Tensor& k,
                               const at::Tensor& v, const at::Tensor& row_offsets, const at::Tensor& key_index,
                               const OptionalTensor& bias, std::optional<double> scale, const c10::List<bool>& needs) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    const auto [grad_q, grad_k, grad_v, grad_bias] =
        call_backward(grad, output, logsumexp, q, k, v, row_offsets, key_index, bias, scale, needs);
    return {grad_q, grad_k, grad_v, grad_bias};
  }
  static variable_list backward(AutogradContext*, const variable_list&) {
    TORCH_CHECK_NOT_IMPLEMENTED(false,
                                "[sparse_attention] double backward must not be asked for: only first derivatives "
                                "exist (biased_attention with implementation = reference has higher ones)");
  }
};

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> backward_autograd(
    const at::Tensor& grad, const at::Tensor& output, const at::Tensor& logsumexp, const at::Tensor& q,
    const at::Tensor& k, const at::Tensor& v, const at::Tensor& row_offsets, const at::Tensor& key_index,
    const OptionalTensor& bias, std::optional<double> scale, const c10::List<bool>& needs) {
  const auto result =
      RefuseSparseDoubleBackward::apply(grad, output, logsumexp, q, k, v, row_offsets, key_index, bias, scale, needs);
  return {result[0], result[1], result[2], result[3]};
}

// The kernels take float: what autocast lowered is raised again.
std::tuple<at::Tensor, at::Tensor> forward_autocast(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                    const at::Tensor& row_offsets, const at::Tensor& key_index,
                                                    const OptionalTensor& bias, std::optional<double> scale) {
  const auto device = q.device().type();
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(
      at::autocast::get_autocast_dispatch_key_from_device_type(device));
  const auto raised = [device](const at::Tensor& t) { return at::autocast::cached_cast(at::kFloat, t, device); };
  return call_forward(raised(q), raised(k), raised(v), row_offsets, key_index,
                      bias ? OptionalTensor(raised(*bias)) : std::nullopt, scale);
}

std::tuple<at::Tensor, at::Tensor> forward_autograd(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                    const at::Tensor& row_offsets, const at::Tensor& key_index,
                                                    const OptionalTensor& bias, std::optional<double> scale) {
  const auto result = SparseAttention::apply(q, k, v, row_offsets, key_index, bias, scale);
  return {result[0], result[1]};
}

}  // namespace

at::Tensor sparse_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const at::Tensor& row_offsets, const at::Tensor& key_index, const OptionalTensor& value,
                            std::optional<double> softmax_scale) {
  return std::get<0>(call_forward(q, k, v, row_offsets, key_index, value, softmax_scale));
}

TORCH_LIBRARY_IMPL(camber, CompositeExplicitAutograd, m) {
  m.impl("sparse_attention", &run_sparse_forward);
  m.impl("sparse_attention_backward", &run_sparse_backward);
}
TORCH_LIBRARY_IMPL(camber, Meta, m) {
  m.impl("sparse_attention", &forward_meta);
  m.impl("sparse_attention_backward", &backward_meta);
}
TORCH_LIBRARY_IMPL(camber, Autograd, m) {
  m.impl("sparse_attention", &forward_autograd);
  m.impl("sparse_attention_backward", &backward_autograd);
}
TORCH_LIBRARY_IMPL(camber, AutocastCPU, m) {
  m.impl("sparse_attention", &forward_autocast);
}
TORCH_LIBRARY_IMPL(camber, AutocastCUDA, m) {
  m.impl("sparse_attention", &forward_autocast);
}
TORCH_LIBRARY_IMPL(camber, AutocastPrivateUse1, m) {
  m.impl("sparse_attention", &forward_autocast);
}

}  // namespace camber::ops
