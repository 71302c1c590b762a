#include "camber/ops/structured_bias.h"

#include <ATen/TensorIndexing.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>

#include "ops/attention_arguments.h"

namespace camber::ops {
namespace {

std::int64_t bytes_of(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.numel() * static_cast<std::int64_t>(tensor.element_size()) : 0;
}

// Each entry's row, [nnz].
at::Tensor rows_of(const at::Tensor& row_offsets) {
  const auto lengths = row_offsets.slice(0, 1) - row_offsets.slice(0, 0, -1);
  return at::arange(lengths.size(0), row_offsets.options()).repeat_interleave(lengths);
}

const char* layout_name(DenseLayout layout) {
  switch (layout) {
    case DenseLayout::kBatchQueryKey:
      return "[B, Q, K]";
    case DenseLayout::kQueryBatchKey:
      return "[Q, B, K]";
    default:
      return "[B*H, Q, K]";
  }
}

}  // namespace

at::Tensor StructuredBias::materialize(std::int64_t batch, std::int64_t queries, std::int64_t keys,
                                       const at::Tensor& example) const {
  at::Tensor dense;
  if (windows) {
    const auto& value = windows->value;
    const auto row = rows_of(windows->row_offsets);
    const std::int64_t entries = row.size(0);  // a device's list may go on behind its last row
    const auto flat = row * keys + windows->key_index.slice(0, 0, entries);
    dense = at::zeros({value.size(0), batch * queries * keys}, value.options())
                .index_copy(1, flat, value.slice(1, 0, entries))
                .view({value.size(0), batch, queries, keys})
                .transpose(0, 1);
  }
  if (segments && segments->value) {
    const auto offsets = segments->offsets.to(segments->value->device());
    const auto lengths = offsets.slice(0, 1) - offsets.slice(0, 0, -1);
    const auto spread = segments->value->repeat_interleave(lengths, -1, keys);
    dense = dense.defined() ? add_bias(dense, spread) : spread;
  }
  return dense.defined() ? dense : at::zeros({batch, 1, queries, keys}, example.options());
}

std::int64_t StructuredBias::bytes() const {
  std::int64_t total = 0;
  if (windows) total += bytes_of(windows->row_offsets) + bytes_of(windows->key_index) + bytes_of(windows->value);
  if (segments) total += bytes_of(segments->offsets) + (segments->value ? bytes_of(*segments->value) : 0);
  return total;
}

at::Tensor dense_mask(const at::Tensor& dense, DenseLayout layout, std::int64_t batch, std::int64_t heads) {
  const bool per_head = layout == DenseLayout::kBatchHeadQueryKey;
  const std::int64_t axis = layout == DenseLayout::kQueryBatchKey ? 1 : 0;
  const std::int64_t expected = per_head ? batch * heads : batch;
  TORCH_CHECK_VALUE(dense.dim() == 3 && dense.size(axis) == expected, "[StructuredBias] dense must be ",
                    layout_name(layout), " with B = ", batch, " and H = ", heads, ", got ", describe(dense));
  if (per_head) return dense.view({batch, heads, dense.size(1), dense.size(2)});
  return (axis == 1 ? dense.transpose(0, 1) : dense).unsqueeze(1);
}

StructuredBias StructuredBias::from_dense(const at::Tensor& dense, DenseLayout layout, std::int64_t batch,
                                          std::int64_t heads, const std::optional<at::Tensor>& support) {
  TORCH_CHECK_VALUE(support || !dense.requires_grad(),
                    "[StructuredBias] support must be given for a dense bias that requires a gradient: entries that "
                    "happen to be zero would never learn (or pass the bias as attn_mask)");
  const auto values = dense_mask(dense, layout, batch, heads);  // [B, Hb, Q, K]
  const auto kept = support ? dense_mask(*support, layout, batch, heads).to(at::kBool) : values.detach().ne(0);
  const auto in_any_head = kept.any(1);                      // [B, Q, K]
  const auto entries = in_any_head.flatten(0, 1).nonzero();  // [nnz, 2]
  const auto row_count = in_any_head.flatten(0, 1).sum(1);
  const auto row_offsets = at::zeros({row_count.size(0) + 1}, row_count.options());
  row_offsets.slice(0, 1).copy_(row_count.cumsum(0));
  const auto queries = values.size(2);
  const auto row = entries.select(1, 0), key = entries.select(1, 1);
  const auto b = row.floor_divide(queries), q = row.remainder(queries);
  const auto value = values.permute({1, 0, 2, 3}).index({at::indexing::Slice(), b, q, key});  // [Hb, nnz]
  return {.windows = Windows{row_offsets, key.to(at::kInt), value}};
}

}  // namespace camber::ops
