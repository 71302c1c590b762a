#include "ops/window_correction.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/core/TensorOptions.h>

#include "camber/kernels/sparse.h"
#include "ops/kernel_views.h"
#include "ops/sparse_entries.h"

namespace camber::ops {
namespace {

bool by_kernels(const AttentionArguments& a) {
  return a.q.is_cpu() && a.compute_type() == at::kFloat;
}

// --- by the kernels ---

// The problem with everything it points into.
struct KernelCorrection {
  at::Tensor q, k, v, row_offsets, key_index, value, shift;
  kernels::SparseProblem problem{};
  kernels::Correction correction{};

  KernelCorrection(const AttentionArguments& a, const at::Tensor& shift_of_entries)
      : q(with_unit_stride(a.q.to(at::kFloat))),
        k(with_unit_stride(a.k.to(at::kFloat))),
        v(with_unit_stride(a.v.to(at::kFloat))),
        row_offsets(a.row_offsets.contiguous()),
        key_index(a.key_index.contiguous()),
        value(a.window_value.to(at::kFloat).contiguous()),
        shift(shift_of_entries.defined() ? shift_of_entries.to(at::kFloat).contiguous() : shift_of_entries) {
    problem = {.batches = a.batch(),
               .heads = a.heads(),
               .queries = a.queries(),
               .keys = a.keys(),
               .key_width = a.q.size(3),
               .value_width = a.v.size(3),
               .softmax_scale = static_cast<float>(a.scale()),
               .q = kernel_rows(q),
               .k = kernel_rows(k),
               .v = kernel_rows(v),
               .lists = {.row_offsets = row_offsets.const_data_ptr<std::int64_t>(),
                         .key_index = key_index.const_data_ptr<std::int32_t>(),
                         .value = value.const_data_ptr<float>(),
                         .heads = value.size(0),
                         .entries = value.size(1)},
               .parallel = torch_threads()};
    if (shift.defined()) {
      correction.shift = shift.const_data_ptr<float>();
      correction.shift_heads = shift.size(0);
    }
  }
};

at::Tensor kernel_totals(const AttentionArguments& a, const at::Tensor& shift, const at::Tensor& output,
                         const at::Tensor& logsumexp) {
  KernelCorrection c(a, shift);
  auto total = at::empty(logsumexp.sizes(), logsumexp.options());
  c.correction.logsumexp = logsumexp.const_data_ptr<float>();
  c.correction.total = total.data_ptr<float>();
  kernels::SparseResult result{};
  if (output.defined())
    result = {.output = output.data_ptr<float>(),
              .output_strides = kernel_strides(output),
              .logsumexp = logsumexp.data_ptr<float>()};
  kernels::sparse_correct(c.problem, c.correction, result, kernels::chosen_isa());
  return total;
}

// --- in plain tensor operations ---

// One head's entries: with the bias and without it, exp(z - logsumexp); [nnz] each.
struct EntryWeights {
  at::Tensor plain, biased;
};

EntryWeights entry_weights(const AttentionArguments& a, const SparseEntries& entries, const at::Tensor& shift,
                           const at::Tensor& logsumexp, std::int64_t h) {
  const auto type = a.compute_type();
  auto z = entry_products(entries, rows_of_head(a.q, h), rows_of_head(a.k, h), type).mul_(a.scale());
  const auto of_head = [h](const at::Tensor& t) { return t.select(0, t.size(0) == 1 ? 0 : h); };
  if (shift.defined()) z = add_bias(z, of_head(shift).to(type));
  // A row without keys has none to correct: +inf makes its weights 0.
  const auto row_lse = logsumexp.select(1, h).reshape({-1});
  z = z - row_lse.masked_fill(row_lse.eq(-kInfinity), kInfinity).index_select(0, entries.row);
  const auto value = of_head(a.window_value).to(type);
  return {z.exp(), add_bias(z, value).exp()};
}

SparseEntries window_entries(const AttentionArguments& a) {
  return entries_of(a.row_offsets, a.key_index, a.batch(), a.queries(), a.keys());
}

at::Tensor plain_totals(const AttentionArguments& a, const at::Tensor& shift, const at::Tensor& output,
                        const at::Tensor& logsumexp) {
  const auto entries = window_entries(a);
  auto total = at::ones(logsumexp.sizes(), logsumexp.options());
  for (std::int64_t h = 0; h < a.heads(); ++h) {
    const auto weights = entry_weights(a, entries, shift, logsumexp, h);
    const auto difference = weights.biased - weights.plain;
    const auto sums = 1 + sum_by_row(difference, entries.row_offsets, 0);
    total.select(1, h).copy_(sums.view({a.batch(), a.queries()}));
    if (!output.defined()) continue;
    const auto good = sums.gt(0).logical_and(sums.lt(kInfinity));
    auto rows = rows_of_head(output, h).clone();
    const auto before = rows.clone();
    add_weighted_by_row(entries, difference, rows_of_head(a.v, h), rows);
    const auto divided = rows.div_(sums.unsqueeze(-1)).where(good.unsqueeze(-1), before);
    output.select(1, h).copy_(divided.view({a.batch(), a.queries(), -1}));
    const auto gain = sums.where(good, at::ones_like(sums)).log();
    logsumexp.select(1, h).add_(gain.view({a.batch(), a.queries()}));
  }
  return total;
}

void plain_gradients(const AttentionArguments& a, const EntryTensors& of_entries, const BackwardTensors& t,
                     const Needs& needs, std::array<at::Tensor, kGradients>& gradients) {
  const auto type = a.compute_type();
  const auto entries = window_entries(a);
  const auto keys = needs[kKey] || needs[kValue] ? by_key(entries, a.batch() * a.keys()) : EntriesByKey{};
  auto delta = (t.grad_output.to(type) * t.output.to(type)).sum(-1);
  if (t.grad_logsumexp.defined()) delta = delta - t.grad_logsumexp;
  // A head of a gradient is seldom one piece of memory: its sums are made apart and added.
  const auto add = [&](Gradient which, std::int64_t h, std::int64_t rows, const auto& sum_into) {
    auto& gradient = gradients[which];
    auto sums = at::zeros({a.batch() * rows, gradient.size(3)}, gradient.options());
    sum_into(sums);
    gradient.select(1, h).add_(sums.view({a.batch(), rows, gradient.size(3)}));
  };
  for (std::int64_t h = 0; h < a.heads(); ++h) {
    const auto weights = entry_weights(a, entries, of_entries.shift, t.logsumexp, h);
    const auto incoming = rows_of_head(t.grad_output, h);
    const auto distance = entry_products(entries, incoming, rows_of_head(a.v, h), type) -
                          delta.select(1, h).reshape({-1}).index_select(0, entries.row);
    const auto difference = weights.biased - weights.plain;
    const auto change = (difference * distance).masked_fill(entries.unused, 0), slope = change * a.scale();
    if (of_entries.slopes.defined()) of_entries.slopes.select(0, h).copy_(change);
    if (needs[kWindowValue]) {
      const auto own = (weights.biased * distance).masked_fill(entries.unused, 0);
      const std::int64_t heads = a.window_value.size(0);
      if (heads == 1)
        gradients[kWindowValue].select(0, 0).add_(own);
      else
        gradients[kWindowValue].select(0, h).copy_(own);
    }
    if (needs[kQuery])
      add(kQuery, h, a.queries(),
          [&](const at::Tensor& sums) { add_weighted_by_row(entries, slope, rows_of_head(a.k, h), sums); });
    if (needs[kKey])
      add(kKey, h, a.keys(),
          [&](const at::Tensor& sums) { add_weighted_by_key(entries, keys, slope, rows_of_head(a.q, h), sums); });
    if (needs[kValue])
      add(kValue, h, a.keys(),
          [&](const at::Tensor& sums) { add_weighted_by_key(entries, keys, difference, incoming, sums); });
  }
}

// --- by kernels that somebody registered for the device ---

using Optional = const std::optional<at::Tensor>&;
using OwnForward = std::tuple<at::Tensor, at::Tensor, at::Tensor>(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor& row_offsets,
    const at::Tensor& key_index, const at::Tensor& window_value, Optional shift, Optional output,
    const at::Tensor& logsumexp, double scale);
using OwnBackward = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const at::Tensor& row_offsets,
    const at::Tensor& key_index, const at::Tensor& window_value, Optional shift, const at::Tensor& grad_output,
    Optional grad_logsumexp, const at::Tensor& output, const at::Tensor& logsumexp, double scale);

// The operator's handle where the device of q has a kernel of its own for it.
std::optional<c10::OperatorHandle> own_kernel(const char* name, const AttentionArguments& a) {
  if (a.compute_type() != at::kFloat) return std::nullopt;
  const auto handle = c10::Dispatcher::singleton().findSchema({name, ""});
  const auto key = c10::computeDispatchKey(a.q.scalar_type(), a.q.layout(), a.q.device());
  return handle && handle->hasKernelForDispatchKey(key) ? handle : std::nullopt;
}

std::optional<at::Tensor> given(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional(tensor) : std::nullopt;
}

at::Tensor own_totals(const c10::OperatorHandle& handle, const AttentionArguments& a, const at::Tensor& shift,
                      const at::Tensor& output, const at::Tensor& logsumexp) {
  const auto [corrected, lse, total] =
      handle.typed<OwnForward>().call(a.q, a.k, a.v, a.row_offsets, a.key_index, a.window_value.to(at::kFloat),
                                      given(shift), given(output), logsumexp, a.scale());
  if (output.defined()) {
    output.copy_(corrected);
    logsumexp.copy_(lse);
  }
  return total;
}

void own_gradients(const c10::OperatorHandle& handle, const AttentionArguments& a, const EntryTensors& entries,
                   const BackwardTensors& t, const Needs& needs, std::array<at::Tensor, kGradients>& gradients) {
  const auto [dq, dk, dv, dvalue, slopes] = handle.typed<OwnBackward>().call(
      a.q, a.k, a.v, a.row_offsets, a.key_index, a.window_value.to(at::kFloat), given(entries.shift), t.grad_output,
      given(t.grad_logsumexp), t.output, t.logsumexp, a.scale());
  if (needs[kQuery]) gradients[kQuery].add_(dq);
  if (needs[kKey]) gradients[kKey].add_(dk);
  if (needs[kValue]) gradients[kValue].add_(dv);
  if (needs[kWindowValue]) gradients[kWindowValue].copy_(a.window_value.size(0) == 1 ? dvalue.sum(0, true) : dvalue);
  if (entries.slopes.defined()) entries.slopes.copy_(slopes);
}

at::Tensor totals_of(const AttentionArguments& a, const at::Tensor& shift, const at::Tensor& output,
                     const at::Tensor& logsumexp) {
  if (by_kernels(a)) return kernel_totals(a, shift, output, logsumexp);
  if (const auto own = own_kernel("camber::correct_windows", a)) return own_totals(*own, a, shift, output, logsumexp);
  return plain_totals(a, shift, output, logsumexp);
}

}  // namespace

at::Tensor correct_for_windows(const AttentionArguments& a, const at::Tensor& shift, const at::Tensor& output,
                               const at::Tensor& logsumexp) {
  return totals_of(a, shift, output, logsumexp);
}

at::Tensor inverse_totals(const AttentionArguments& a, const at::Tensor& shift, const at::Tensor& logsumexp) {
  const auto dense = logsumexp.contiguous();
  // With the logsumexp of the biased attention, 1 + sum (biased - plain) is 2 - 1 / Z.
  return 2 - totals_of(a, shift, at::Tensor{}, dense);
}

void correct_gradients_for_windows(const AttentionArguments& a, const EntryTensors& entries, const BackwardTensors& t,
                                   const Needs& needs, std::array<at::Tensor, kGradients>& gradients) {
  if (!by_kernels(a)) {
    if (const auto own = own_kernel("camber::correct_windows_backward", a))
      return own_gradients(*own, a, entries, t, needs, gradients);
    return plain_gradients(a, entries, t, needs, gradients);
  }
  KernelCorrection c(a, entries.shift);
  if (entries.slopes.defined()) c.correction.slopes = entries.slopes.data_ptr<float>();
  const auto rows = [&](Gradient which) {
    return needs[which] ? kernels::GradientRows{gradients[which].data_ptr<float>(), kernel_strides(gradients[which])}
                        : kernels::GradientRows{};
  };
  const auto saved = with_unit_stride(t.output.to(at::kFloat)),
             incoming = with_unit_stride(t.grad_output.to(at::kFloat));
  const auto lse = t.logsumexp.contiguous();
  const auto grad_lse = t.grad_logsumexp.defined() ? t.grad_logsumexp.contiguous() : t.grad_logsumexp;
  kernels::sparse_correct_backward(c.problem, c.correction,
                                   {.output = kernel_rows(saved),
                                    .logsumexp = lse.const_data_ptr<float>(),
                                    .grad_output = kernel_rows(incoming),
                                    .grad_logsumexp = grad_lse.defined() ? grad_lse.const_data_ptr<float>() : nullptr},
                                   {.q = rows(kQuery),
                                    .k = rows(kKey),
                                    .v = rows(kValue),
                                    .value = needs[kWindowValue] ? gradients[kWindowValue].data_ptr<float>() : nullptr},
                                   kernels::chosen_isa());
}

}  // namespace camber::ops
