#include "ops/attention_arguments.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include "camber/random/philox.h"

namespace camber::ops {

std::array<at::Tensor*, AttentionArguments::kTensors> AttentionArguments::tensors() {
  return {&q,
          &k,
          &v,
          &row_offsets,
          &key_index,
          &window_value,
          &segment_offsets,
          &segment_value,
          &segment_available,
          &attn_mask,
          &blocked_mask,
          &key_padding_mask,
          &key_lengths,
          &row_lengths,
          &table_value,
          &table_index,
          &query_code,
          &key_code};
}

std::array<const at::Tensor*, AttentionArguments::kTensors> AttentionArguments::tensors() const {
  std::array<const at::Tensor*, kTensors> result{};
  const auto pointers = const_cast<AttentionArguments*>(this)->tensors();
  std::copy(pointers.begin(), pointers.end(), result.begin());
  return result;
}

std::array<const at::Tensor*, kGradients> AttentionArguments::differentiable() const {
  return {&q, &k, &v, &window_value, &segment_value, &attn_mask, &table_value};
}

bool AttentionArguments::any_of_python() const {
  const auto all = tensors();
  return std::any_of(all.begin(), all.end(), [](const at::Tensor* tensor) {
    return tensor->defined() && tensor->unsafeGetTensorImpl()->is_python_dispatch();
  });
}

bool AttentionArguments::readable() const {
  const auto all = tensors();
  return !any_of_python() && std::all_of(all.begin(), all.end(), [](const at::Tensor* tensor) {
    return !tensor->defined() || (tensor->is_cpu() && tensor->has_storage());
  });
}

double AttentionArguments::scale() const {
  return softmax_scale ? *softmax_scale : 1.0 / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, q.size(3))));
}

at::ScalarType AttentionArguments::compute_type() const {
  return q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

ForwardResult empty_results(const AttentionArguments& a) {
  const auto batch = a.q.sym_size(0), heads = a.q.sym_size(1), queries = a.q.sym_size(2);
  const auto wide = a.q.options().dtype(a.compute_type());
  ForwardResult result;
  result.output = at::empty_symint({batch, queries, heads, a.v.sym_size(3)}, a.q.options()).transpose(1, 2);
  result.logsumexp = at::empty_symint({batch, heads, queries}, wide);
  result.row_statistics =
      a.statistics ? at::empty_symint({kStatistics, batch, heads, queries}, wide) : at::empty({0}, wide);
  result.segment_mass = a.statistics && a.segment_offsets.defined()
                            ? at::empty_symint({batch, heads, queries, a.segment_offsets.sym_size(0) - 1}, wide)
                            : at::empty({0}, wide);
  return result;
}

std::array<at::Tensor, kGradients> empty_gradients(const AttentionArguments& a, const Needs& needs,
                                                   std::optional<at::ScalarType> type) {
  const auto inputs = a.differentiable();
  std::array<at::Tensor, kGradients> gradients;
  for (std::size_t i = 0; i < kGradients; ++i) {
    if (!needs[i] || !inputs[i]->defined()) {
      gradients[i] = at::empty({0}, a.q.options());
      continue;
    }
    const at::Tensor& input = *inputs[i];
    const auto options = input.options().dtype(type.value_or(input.scalar_type()));
    const bool rows_outside = (i == kQuery || i == kKey || i == kValue) && input.sym_stride(1) < input.sym_stride(2);
    gradients[i] =
        rows_outside
            ? at::empty_symint({input.sym_size(0), input.sym_size(2), input.sym_size(1), input.sym_size(3)}, options)
                  .transpose(1, 2)
            : at::empty_symint(input.sym_sizes(), options);
  }
  return gradients;
}

at::Tensor add_bias(const at::Tensor& score, const at::Tensor& bias) {
  return (score + bias).masked_fill(score.eq(-kInfinity).logical_or(bias.eq(-kInfinity)), -kInfinity);
}

at::Tensor removed_keys(const AttentionArguments& a, std::int64_t b) {
  at::Tensor removed;
  const auto add = [&](const at::Tensor& mask) { removed = removed.defined() ? removed.logical_or(mask) : mask; };
  if (a.key_padding_mask.defined()) add(a.key_padding_mask[b]);
  if (a.key_lengths.defined()) add(at::arange(a.keys(), a.key_lengths.options()).ge(a.key_lengths[b]));
  if (a.segment_available.defined()) {
    const auto offsets = a.segment_offsets.to(a.q.device());
    const auto lengths = offsets.slice(0, 1) - offsets.slice(0, 0, -1);
    add(a.segment_available[b].logical_not().repeat_interleave(lengths, 0, a.keys()));
  }
  return removed;
}

at::Tensor all_removed_keys(const AttentionArguments& a) {
  if (!a.key_padding_mask.defined() && !a.key_lengths.defined() && !a.segment_available.defined()) return {};
  std::vector<at::Tensor> rows;
  rows.reserve(static_cast<std::size_t>(a.batch()));
  for (std::int64_t b = 0; b < a.batch(); ++b) rows.push_back(removed_keys(a, b));
  return rows.empty() ? at::Tensor{} : at::stack(rows);
}

at::Tensor table_entries(const AttentionArguments& a, std::int64_t q0, std::int64_t q1) {
  if (a.table_index.defined()) return a.table_index.slice(0, q0, q1).to(at::kLong);
  return a.key_code.to(at::kLong).unsqueeze(0) - a.query_code.slice(0, q0, q1).to(at::kLong).unsqueeze(1);
}

at::Tensor table_scores(const AttentionArguments& a, std::int64_t q0, std::int64_t q1) {
  const auto entries = table_entries(a, q0, q1);
  return a.table_value.to(a.compute_type())
      .index_select(1, entries.flatten())
      .view({a.table_value.size(0), q1 - q0, a.keys()});
}

at::Tensor beyond_row_lengths(const AttentionArguments& a, std::int64_t q0, std::int64_t q1) {
  const auto lengths = a.row_lengths.slice(1, q0, q1).unsqueeze(-1);
  return at::arange(a.keys(), lengths.options()).ge(lengths);
}

AttentionArguments with_rows_blocked(const AttentionArguments& a) {
  AttentionArguments blocked = a;
  if (!a.row_lengths.defined()) return blocked;
  const auto beyond = beyond_row_lengths(a, 0, a.queries()).unsqueeze(1);
  blocked.blocked_mask = a.blocked_mask.defined() ? a.blocked_mask.logical_or(beyond) : beyond;
  blocked.row_lengths.reset();
  return blocked;
}

std::vector<std::int64_t> host_offsets(const at::Tensor& offsets) {
  const auto host = offsets.cpu().contiguous();
  const auto* data = host.const_data_ptr<std::int64_t>();
  return {data, data + host.numel()};
}

bool holds_non_finite(const AttentionArguments& a) {
  for (const at::Tensor* tensor : {&a.q, &a.k, &a.v})
    if (!std::isfinite(tensor->sum(at::kDouble).item<double>())) return true;
  for (const at::Tensor* tensor : {&a.window_value, &a.segment_value, &a.attn_mask, &a.table_value})
    if (tensor->defined() && std::isnan(tensor->sum(at::kDouble).item<double>())) return true;
  return false;
}

at::Tensor dropout_factors(const AttentionArguments& a, std::int64_t b, std::int64_t q0, std::int64_t q1) {
  const std::int64_t heads = a.heads(), rows = q1 - q0, keys = a.keys();
  auto factors = at::empty({heads, rows, keys}, at::device(at::kCPU).dtype(at::kFloat));
  auto* out = factors.data_ptr<float>();
  const auto threshold = random::dropout_threshold(a.dropout);
  const auto key = random::philox_key(static_cast<std::uint64_t>(a.seed));
  const auto kept = static_cast<float>(1.0 / (1.0 - a.dropout));
  at::parallel_for(0, heads * rows, 8, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const auto head = static_cast<std::uint32_t>(row / rows), query = static_cast<std::uint32_t>(q0 + row % rows);
      for (std::int64_t j = 0; j < keys; j += 4) {
        const auto words =
            random::philox4x32({static_cast<std::uint32_t>(j >> 2), query, head, static_cast<std::uint32_t>(b)}, key);
        for (std::int64_t lane = 0; lane < 4 && j + lane < keys; ++lane)
          out[row * keys + j + lane] = words[static_cast<std::size_t>(lane)] >= threshold ? kept : 0.0F;
      }
    }
  });
  return factors.to(a.q.device(), a.compute_type());
}

at::Tensor with_unit_stride(const at::Tensor& tensor) {
  return tensor.size(-1) <= 1 || tensor.stride(-1) == 1 ? tensor : tensor.contiguous();
}

}  // namespace camber::ops
