#pragma once
#include <cstdint>
#include <functional>

#include <ATen/core/Tensor.h>

/// Sparse rows in plain tensor operations, for devices without kernels of ours and for double: gathers and segment sums
/// over ranges of entries that bound the memory. Every sum has one owner and a fixed order; nothing is scattered, and
/// nothing is asked of the host.
namespace camber::ops {

/// Entries behind the last row are nobody's: lists that a device made without telling the host how long they are end in
/// some (camber/ops/windows.h). Sums leave them out; what else is made of them is `unused`'s to mask.
struct SparseEntries {
  at::Tensor row_offsets{};  // int64 [B*Q+1]
  at::Tensor row{};          // int64 [nnz]: b*Q + q; the last row for those of none
  at::Tensor key{};          // int64 [nnz]: b*K + key
  at::Tensor unused{};       // bool [nnz]
  std::int64_t count() const { return row.size(0); }
};
SparseEntries entries_of(const at::Tensor& row_offsets, const at::Tensor& key_index, std::int64_t batch,
                         std::int64_t queries, std::int64_t keys);

/// The same entries in the order of their keys, a key's in the order of the rows.
struct EntriesByKey {
  at::Tensor offsets{};  // int64 [B*K+1]
  at::Tensor entry{};    // int64 [nnz]
};
EntriesByKey by_key(const SparseEntries& entries, std::int64_t all_keys);

/// Calls visit(first, end) for ranges of entries whose gathered rows of `width` numbers stay within some 16 MB.
void for_entry_ranges(std::int64_t count, std::int64_t width,
                      const std::function<void(std::int64_t, std::int64_t)>& visit);

/// sums[r] = sum of data[e - first] over the entries e of row r that lie in first .. first + len(data); data [n] or
/// [n, width].
at::Tensor sum_by_row(const at::Tensor& data, const at::Tensor& row_offsets, std::int64_t first);

/// The largest data[e], [nnz], of each row; -inf in a row without entries.
at::Tensor max_by_row(const at::Tensor& data, const at::Tensor& row_offsets);

/// Head h of a [B, H, N, W] tensor as [B*N, W].
at::Tensor rows_of_head(const at::Tensor& tensor, std::int64_t head);

/// products[e] = left[row e] . right[key e] for one head, in `type`, [nnz].
at::Tensor entry_products(const SparseEntries& entries, const at::Tensor& left, const at::Tensor& right,
                          at::ScalarType type);
/// sums[r] += sum over the entries of row r of weight[e] * values[key e]; sums [B*Q, W].
void add_weighted_by_row(const SparseEntries& entries, const at::Tensor& weight, const at::Tensor& values,
                         const at::Tensor& sums);
/// sums[k] += sum over the entries of key k of weight[e] * values[row e]; sums [B*K, W].
void add_weighted_by_key(const SparseEntries& entries, const EntriesByKey& keys, const at::Tensor& weight,
                         const at::Tensor& values, const at::Tensor& sums);

}  // namespace camber::ops
