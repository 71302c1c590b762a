#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "ops/attention_arguments.h"
#include "ops/sparse_entries.h"

/// Parts of a problem: what its window entries hold, and some of its queries as a problem of their own.
namespace camber::ops {

/// [1|H, nnz] in the compute type: what z of each entry holds beside its product and the window's value; undefined
/// where that is nothing. `removed` is all_removed_keys().
at::Tensor shift_of_entries(const AttentionArguments& arguments, const at::Tensor& removed);

/// int64 [B*Q*S+1]: where the entries of each row and segment begin; entries of a row are sorted by their keys, so by
/// their segments.
at::Tensor entry_offsets_by_segment(const AttentionArguments& arguments, const SparseEntries& entries);

/// How many of some rows of scores, each of so many bytes, are computed together: 24 MB, or one.
std::int64_t rows_within_chunk(std::int64_t row_bytes, std::int64_t rows);

/// The queries of each batch element that `rows` [B, Q] calls true. How many there are decides what runs: a device is
/// waited for.
std::vector<at::Tensor> queries_of(const AttentionArguments& arguments, const at::Tensor& rows);
/// Bool [B, Q], true.
at::Tensor every_row(const AttentionArguments& arguments);

/// The rows of some queries of batch element b: their offsets, and where their entries stand in the whole list.
std::pair<at::Tensor, at::Tensor> entries_of_part(const AttentionArguments& arguments, std::int64_t b,
                                                  const at::Tensor& queries);
/// Some queries of batch element b as a problem for `streamed`.
AttentionArguments part_of(const AttentionArguments& arguments, std::int64_t b, const at::Tensor& queries);

}  // namespace camber::ops
