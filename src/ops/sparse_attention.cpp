#include "camber/ops/sparse_attention.h"

#include <cmath>

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "ops/attention_arguments.h"
#include "ops/sparse_attention_loops.h"

namespace camber::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using OptionalTensor = std::optional<at::Tensor>;

double scale_of(const at::Tensor& q, std::optional<double> scale) {
  return scale ? *scale : 1.0 / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, q.size(3))));
}

void check(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& row_offsets,
           const at::Tensor& key_index, const OptionalTensor& bias) {
  const bool known = q.scalar_type() == at::kFloat || q.scalar_type() == at::kDouble;
  TORCH_CHECK_VALUE(q.dim() == 4 && known, "[sparse_attention] q must be a float or double tensor [B, H, Q, D], got ",
                    describe(q));
  const auto fits = [&](const at::Tensor& t) {
    return t.dim() == 4 && t.scalar_type() == q.scalar_type() && t.sym_size(0) == q.sym_size(0) &&
           t.sym_size(1) == q.sym_size(1);
  };
  TORCH_CHECK_VALUE(fits(k) && k.sym_size(3) == q.sym_size(3),
                    "[sparse_attention] k must be [B, H, K, D] with the batch, heads, head dimension and dtype of q ",
                    describe(q), ", got ", describe(k));
  TORCH_CHECK_VALUE(fits(v) && v.sym_size(2) == k.sym_size(2),
                    "[sparse_attention] v must be [B, H, K, Dv] with the batch, heads, keys and dtype of k ",
                    describe(k), ", got ", describe(v));
  TORCH_CHECK_VALUE(row_offsets.scalar_type() == at::kLong && row_offsets.dim() == 1 &&
                        row_offsets.sym_size(0) == q.sym_size(0) * q.sym_size(2) + 1,
                    "[sparse_attention] row_offsets must be int64 [B*Q+1] = [", q.sym_size(0) * q.sym_size(2) + 1,
                    "], got ", describe(row_offsets));
  TORCH_CHECK_VALUE(key_index.scalar_type() == at::kInt && key_index.dim() == 1,
                    "[sparse_attention] key_index must be int32 [nnz], got ", describe(key_index));
  if (bias)
    TORCH_CHECK_VALUE(bias->scalar_type() == q.scalar_type() && bias->dim() == 2 &&
                          bias->sym_size(1) == key_index.sym_size(0) &&
                          (bias->sym_size(0) == 1 || bias->sym_size(0) == q.sym_size(1)),
                      "[sparse_attention] value must be [1 or H, nnz] = [1 or ", q.sym_size(1), ", ",
                      key_index.sym_size(0), "] with the dtype of q, got ", describe(*bias));
}

at::Tensor with_unit_stride(const at::Tensor& t) {
  return t.stride(-1) == 1 ? t : t.contiguous();
}

template <class T>
sparse::Rows<T> rows_of(const at::Tensor& t) {
  using Value = std::remove_const_t<T>;
  return {const_cast<T*>(t.const_data_ptr<Value>()), t.stride(0), t.stride(1), t.stride(2), t.size(3)};
}

template <class T>
sparse::Problem<T> problem_of(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                              const at::Tensor& row_offsets, const at::Tensor& key_index, const at::Tensor& bias,
                              double scale) {
  return {.heads = q.size(1),
          .queries = q.size(2),
          .entries = key_index.size(0),
          .q = rows_of<const T>(q),
          .k = rows_of<const T>(k),
          .v = rows_of<const T>(v),
          .row_offsets = row_offsets.const_data_ptr<std::int64_t>(),
          .key_index = key_index.const_data_ptr<std::int32_t>(),
          .bias = bias.defined() ? bias.const_data_ptr<T>() : nullptr,
          .bias_heads = bias.defined() ? bias.size(0) : 0,
          .scale = static_cast<T>(scale)};
}

at::Tensor empty_output(const at::Tensor& q, const at::Tensor& v) {
  return at::empty_symint({q.sym_size(0), q.sym_size(2), q.sym_size(1), v.sym_size(3)}, q.options()).transpose(1, 2);
}

std::tuple<at::Tensor, at::Tensor> forward_cpu(const at::Tensor& q_in, const at::Tensor& k_in, const at::Tensor& v_in,
                                               const at::Tensor& row_offsets_in, const at::Tensor& key_index_in,
                                               const OptionalTensor& bias_in, std::optional<double> softmax_scale) {
  check(q_in, k_in, v_in, row_offsets_in, key_index_in, bias_in);
  const auto rows = q_in.size(0) * q_in.size(2);
  check_rows("sparse_attention", row_offsets_in, key_index_in, rows, k_in.size(2));
  const auto q = with_unit_stride(q_in), k = with_unit_stride(k_in), v = with_unit_stride(v_in);
  const auto row_offsets = row_offsets_in.contiguous(), key_index = key_index_in.contiguous();
  const auto bias = bias_in ? bias_in->contiguous() : at::Tensor{};
  auto output = empty_output(q, v);
  auto weights = at::empty({q.size(1), key_index.size(0)}, q.options());
  AT_DISPATCH_FLOATING_TYPES(q.scalar_type(), "sparse_attention", [&] {
    const auto problem = problem_of<scalar_t>(q, k, v, row_offsets, key_index, bias, scale_of(q, softmax_scale));
    const auto out = rows_of<scalar_t>(output);
    auto* w = weights.data_ptr<scalar_t>();
    at::parallel_for(0, rows, 8, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) sparse::forward_row<scalar_t>(problem, row, w, out);
    });
  });
  return {output, weights};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> backward_cpu(
    const at::Tensor& grad_in, const at::Tensor& q_in, const at::Tensor& k_in, const at::Tensor& v_in,
    const at::Tensor& row_offsets_in, const at::Tensor& key_index_in, const at::Tensor& weights,
    const at::Tensor& output, std::optional<double> softmax_scale, std::int64_t bias_heads) {
  const auto grad = with_unit_stride(grad_in), q = with_unit_stride(q_in), k = with_unit_stride(k_in),
             v = with_unit_stride(v_in);
  const auto row_offsets = row_offsets_in.contiguous(), key_index = key_index_in.contiguous();
  auto grad_q = at::empty(q.sizes(), q.options()), grad_k = at::empty(k.sizes(), k.options()),
       grad_v = at::empty(v.sizes(), v.options());
  auto score_gradient = at::empty_like(weights);
  const std::int64_t batch = q.size(0), rows = batch * q.size(2), keys = k.size(2);
  AT_DISPATCH_FLOATING_TYPES(q.scalar_type(), "sparse_attention_backward", [&] {
    const auto problem = problem_of<scalar_t>(q, k, v, row_offsets, key_index, {}, scale_of(q, softmax_scale));
    const auto* w = weights.const_data_ptr<scalar_t>();
    auto* ds = score_gradient.data_ptr<scalar_t>();
    const auto out = rows_of<const scalar_t>(output), go = rows_of<const scalar_t>(grad);
    const auto gq = rows_of<scalar_t>(grad_q), gk = rows_of<scalar_t>(grad_k), gv = rows_of<scalar_t>(grad_v);
    at::parallel_for(0, rows, 8, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) sparse::backward_row<scalar_t>(problem, row, w, out, go, ds, gq);
    });
    const sparse::Transposed list(problem.row_offsets, problem.key_index, batch, q.size(2), keys);
    at::parallel_for(0, batch * keys, 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        sparse::backward_key<scalar_t>(problem, list, i / keys, i % keys, keys, w, ds, go, gk, gv);
    });
  });
  at::Tensor grad_bias = bias_heads == 0                     ? at::empty({0}, q.options())
                         : bias_heads == 1 && q.size(1) != 1 ? score_gradient.sum(0, true)
                                                             : score_gradient;
  return {grad_q, grad_k, grad_v, grad_bias};
}

std::tuple<at::Tensor, at::Tensor> forward_meta(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                const at::Tensor& row_offsets, const at::Tensor& key_index,
                                                const OptionalTensor& bias, std::optional<double>) {
  check(q, k, v, row_offsets, key_index, bias);
  return {empty_output(q, v), at::empty_symint({q.sym_size(1), key_index.sym_size(0)}, q.options())};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> backward_meta(
    const at::Tensor&, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor&,
    const at::Tensor& key_index, const at::Tensor&, const at::Tensor&, std::optional<double>, std::int64_t bias_heads) {
  const auto grad_bias = bias_heads == 0 ? at::empty({0}, q.options())
                                         : at::empty_symint({bias_heads, key_index.sym_size(0)}, q.options());
  return {at::empty_symint(q.sym_sizes(), q.options()), at::empty_symint(k.sym_sizes(), k.options()),
          at::empty_symint(v.sym_sizes(), v.options()), grad_bias};
}

using Forward = std::tuple<at::Tensor, at::Tensor>(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                                   const at::Tensor&, const at::Tensor&, const OptionalTensor&,
                                                   std::optional<double>);
using Backward = decltype(backward_cpu);

std::tuple<at::Tensor, at::Tensor> call_forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                                const at::Tensor& row_offsets, const at::Tensor& key_index,
                                                const OptionalTensor& bias, std::optional<double> scale) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("camber::sparse_attention", "").typed<Forward>();
  return op.call(q, k, v, row_offsets, key_index, bias, scale);
}

struct SparseAttention : public torch::autograd::Function<SparseAttention> {
  static variable_list forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                               const at::Tensor& row_offsets, const at::Tensor& key_index, const OptionalTensor& bias,
                               std::optional<double> scale) {
    const at::AutoDispatchBelowADInplaceOrView guard;
    auto [output, weights] = call_forward(q, k, v, row_offsets, key_index, bias, scale);
    context->save_for_backward({q, k, v, row_offsets, key_index, weights, output});
    context->saved_data["scale"] = scale;
    context->saved_data["bias_heads"] = bias ? bias->size(0) : std::int64_t{0};
    context->mark_non_differentiable({weights});
    return {output, weights};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    static const auto op =
        c10::Dispatcher::singleton().findSchemaOrThrow("camber::sparse_attention_backward", "").typed<Backward>();
    const auto s = context->get_saved_variables();
    const std::int64_t bias_heads = context->saved_data["bias_heads"].toInt();
    auto [grad_q, grad_k, grad_v, grad_bias] = op.call(gradients[0], s[0], s[1], s[2], s[3], s[4], s[5], s[6],
                                                       context->saved_data["scale"].toOptional<double>(), bias_heads);
    return {grad_q, grad_k, grad_v, {}, {}, bias_heads == 0 ? at::Tensor{} : grad_bias, {}};
  }
};

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

TORCH_LIBRARY_IMPL(camber, CPU, m) {
  m.impl("sparse_attention", &forward_cpu);
  m.impl("sparse_attention_backward", &backward_cpu);
}
TORCH_LIBRARY_IMPL(camber, Meta, m) {
  m.impl("sparse_attention", &forward_meta);
  m.impl("sparse_attention_backward", &backward_meta);
}
TORCH_LIBRARY_IMPL(camber, Autograd, m) {
  m.impl("sparse_attention", &forward_autograd);
}

}  // namespace camber::ops
