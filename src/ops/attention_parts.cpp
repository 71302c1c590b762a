#include "ops/attention_parts.h"

#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/zeros.h>

namespace camber::ops {
namespace {

// int64 [nnz]
at::Tensor segment_of_entries(const AttentionArguments& a) {
  const auto ends = a.segment_offsets.to(a.q.device()).slice(0, 1);
  return at::searchsorted(ends, a.key_index.to(at::kLong), /*out_int32=*/false, /*right=*/true);
}

}  // namespace

at::Tensor shift_of_entries(const AttentionArguments& a, const at::Tensor& removed) {
  if (!a.segment_value.defined() && !removed.defined() && !a.attn_mask.defined() && !a.blocked_mask.defined())
    return {};
  const auto entries = entries_of(a.row_offsets, a.key_index, a.batch(), a.queries(), a.keys());
  auto shift = at::zeros({1, entries.count()}, a.q.options().dtype(a.compute_type()));
  if (a.segment_value.defined()) {
    shift = a.segment_value.transpose(0, 1)
                .flatten(1)
                .index_select(1, entries.row * a.segments() + segment_of_entries(a))
                .to(a.compute_type());
  }
  // (b, q, key) in a mask [1|B, 1|H, Q, K]
  const auto of_mask = [&](const at::Tensor& mask) {
    const auto batch_row = mask.size(0) == 1 ? entries.row.remainder(a.queries()) : entries.row;
    return mask.transpose(0, 1).flatten(1).index_select(1, batch_row * a.keys() + a.key_index);
  };
  if (a.attn_mask.defined()) shift = add_bias(shift, of_mask(a.attn_mask).to(a.compute_type()));
  if (a.blocked_mask.defined()) shift = shift.masked_fill(of_mask(a.blocked_mask), -kInfinity);
  if (removed.defined()) shift = shift.masked_fill(removed.flatten().index_select(0, entries.key), -kInfinity);
  return shift;
}

at::Tensor entry_offsets_by_segment(const AttentionArguments& a, const SparseEntries& entries) {
  const auto cells = at::arange(a.batch() * a.queries() * a.segments() + 1, entries.row.options());
  const auto cell = (entries.row * a.segments() + segment_of_entries(a)).masked_fill(entries.unused, cells.size(0));
  return at::searchsorted(cell, cells);
}

std::int64_t rows_within_chunk(std::int64_t row_bytes, std::int64_t rows) {
  constexpr std::int64_t kChunkBytes = std::int64_t{24} << 20;
  return std::clamp<std::int64_t>(kChunkBytes / std::max<std::int64_t>(1, row_bytes), 1,
                                  std::max<std::int64_t>(1, rows));
}

std::vector<at::Tensor> queries_of(const AttentionArguments& a, const at::Tensor& rows) {
  const auto host = rows.cpu();
  std::vector<at::Tensor> queries;
  queries.reserve(static_cast<std::size_t>(a.batch()));
  for (std::int64_t b = 0; b < a.batch(); ++b) queries.push_back(host[b].nonzero().flatten().to(a.q.device()));
  return queries;
}

std::pair<at::Tensor, at::Tensor> entries_of_part(const AttentionArguments& a, std::int64_t b,
                                                  const at::Tensor& queries) {
  const auto first = a.row_offsets.index_select(0, queries + b * a.queries());
  const auto lengths = a.row_offsets.index_select(0, queries + b * a.queries() + 1) - first;
  const auto offsets = at::cat({at::zeros({1}, lengths.options()), lengths.cumsum(0)});
  const auto shift = (first - offsets.slice(0, 0, -1)).repeat_interleave(lengths);
  return {offsets, shift + at::arange(shift.size(0), shift.options())};
}

AttentionArguments part_of(const AttentionArguments& a, std::int64_t b, const at::Tensor& queries) {
  AttentionArguments part = a;
  part.implementation = name_of(Implementation::kStreamed);
  const auto one = [b](const at::Tensor& t) { return t.slice(0, b, b + 1); };
  const auto mask = [&](const at::Tensor& t) {
    return t.defined() ? (t.size(0) == 1 ? t : one(t)).index_select(2, queries) : t;
  };
  part.q = one(a.q).index_select(2, queries);
  part.k = one(a.k);
  part.v = one(a.v);
  if (a.row_offsets.defined()) {
    const auto [offsets, entry] = entries_of_part(a, b, queries);
    part.row_offsets = offsets;
    part.key_index = a.key_index.index_select(0, entry);
    part.window_value = a.window_value.index_select(1, entry);
  }
  if (a.segment_value.defined()) part.segment_value = one(a.segment_value).index_select(2, queries);
  if (a.segment_available.defined()) part.segment_available = one(a.segment_available);
  part.attn_mask = mask(a.attn_mask);
  part.blocked_mask = mask(a.blocked_mask);
  if (a.key_padding_mask.defined()) part.key_padding_mask = one(a.key_padding_mask);
  if (a.key_lengths.defined()) part.key_lengths = one(a.key_lengths);
  return part;
}

at::Tensor every_row(const AttentionArguments& a) {
  return at::full({a.batch(), a.queries()}, true, a.q.options().dtype(at::kBool));
}

}  // namespace camber::ops
