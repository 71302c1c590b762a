#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/ops/segment_reduce.h>
#include <ATen/ops/zeros.h>

#include "ops/attention_arguments.h"
#include "ops/sparse_attention_reference.h"
#include "ops/sparse_entries.h"

// sparse_attention head by head over its entries; see sparse_entries.h for what keeps it deterministic.
namespace camber::ops {
namespace {

SparseEntries entries_of_lists(const SparseInputs& in) {
  return entries_of(in.row_offsets, in.key_index, in.q.size(0), in.q.size(2), in.k.size(2));
}

// z of one head's entries, [nnz].
at::Tensor entry_scores(const SparseInputs& in, const SparseEntries& entries, std::int64_t h) {
  const auto z =
      entry_products(entries, rows_of_head(in.q, h), rows_of_head(in.k, h), in.q.scalar_type()).mul_(in.scale);
  return in.bias.defined() ? add_bias(z, in.bias.select(0, in.bias.size(0) == 1 ? 0 : h)) : z;
}

// A value of weight 0 adds nothing, even where it is not finite.
at::Tensor only_weighted(const SparseEntries& entries, const at::Tensor& weight, const at::Tensor& values,
                         std::int64_t first, std::int64_t end) {
  const auto part = values.index_select(0, entries.key.slice(0, first, end));
  const auto w = weight.slice(0, first, end).unsqueeze(-1);
  return (part * w).masked_fill(w.eq(0), 0);
}

}  // namespace

void sparse_tensor_forward(const SparseInputs& in, const at::Tensor& output, const at::Tensor& logsumexp) {
  const auto entries = entries_of_lists(in);
  const std::int64_t batch = in.q.size(0), queries = in.q.size(2);
  for (std::int64_t h = 0; h < in.q.size(1); ++h) {
    const auto z = entry_scores(in, entries, h);
    if (entries.count() == 0) {
      output.zero_();
      logsumexp.fill_(-kInfinity);
      return;
    }
    auto highest = at::segment_reduce(z, "max", {}, {}, entries.row_offsets, 0, /*unsafe=*/true, -kInfinity);
    const auto dead = highest.eq(-kInfinity);
    highest = highest.masked_fill(dead, 0);
    const auto weight = (z - highest.index_select(0, entries.row)).exp();
    const auto sum = sum_by_row(weight, entries.row_offsets, 0).masked_fill(dead, 1);
    auto rows = at::zeros({batch * queries, in.v.size(3)}, in.q.options());
    const auto values = rows_of_head(in.v, h);
    for_entry_ranges(entries.count(), values.size(1), [&](std::int64_t first, std::int64_t end) {
      rows.add_(sum_by_row(only_weighted(entries, weight, values, first, end), entries.row_offsets, first));
    });
    output.select(1, h).copy_(rows.div_(sum.unsqueeze(-1)).view({batch, queries, -1}));
    logsumexp.select(1, h).copy_((sum.log() + highest).masked_fill(dead, -kInfinity).view({batch, queries}));
  }
}

void sparse_tensor_backward(const SparseInputs& in, const at::Tensor& grad_output, const at::Tensor& output,
                            const at::Tensor& logsumexp, const SparseGradients& wanted) {
  const auto entries = entries_of_lists(in);
  const std::int64_t batch = in.q.size(0);
  const auto type = in.q.scalar_type();
  const bool by_keys = wanted[1].defined() || wanted[2].defined();
  const auto keys = by_keys ? by_key(entries, batch * in.k.size(2)) : EntriesByKey{};
  const auto delta = (grad_output * output).sum(-1);
  if (wanted[3].defined()) wanted[3].zero_();
  const auto put = [&](const at::Tensor& gradient, std::int64_t h, const auto& sum_into) {
    if (!gradient.defined()) return;
    auto sums = at::zeros({batch * gradient.size(2), gradient.size(3)}, gradient.options());
    sum_into(sums);
    gradient.select(1, h).copy_(sums.view({batch, gradient.size(2), gradient.size(3)}));
  };
  for (std::int64_t h = 0; h < in.q.size(1); ++h) {
    const auto row_lse = logsumexp.select(1, h).reshape({-1});
    const auto reference = row_lse.masked_fill(row_lse.eq(-kInfinity), kInfinity).index_select(0, entries.row);
    const auto weight = (entry_scores(in, entries, h) - reference).exp();
    const auto incoming = rows_of_head(grad_output, h);
    const auto distance = entry_products(entries, incoming, rows_of_head(in.v, h), type) -
                          delta.select(1, h).reshape({-1}).index_select(0, entries.row);
    const auto slope = (weight * distance).masked_fill(weight.eq(0).logical_or(entries.unused), 0);
    if (wanted[3].defined()) wanted[3].select(0, wanted[3].size(0) == 1 ? 0 : h).add_(slope);
    const auto scaled = slope * in.scale;
    put(
        wanted[0], h,
        [&](const at::Tensor& sums) { add_weighted_by_row(entries, scaled, rows_of_head(in.k, h), sums); });
    put(
        wanted[1], h,
        [&](const at::Tensor& sums) { add_weighted_by_key(entries, keys, scaled, rows_of_head(in.q, h), sums); });
    put(wanted[2], h, [&](const at::Tensor& sums) { add_weighted_by_key(entries, keys, weight, incoming, sums); });
  }
}

}  // namespace camber::ops
