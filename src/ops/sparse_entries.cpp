#include "ops/sparse_entries.h"

#include <algorithm>
#include <limits>

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/segment_reduce.h>
#include <ATen/ops/zeros.h>

namespace camber::ops {

SparseEntries entries_of(const at::Tensor& row_offsets, const at::Tensor& key_index, std::int64_t batch,
                         std::int64_t queries, std::int64_t keys) {
  const auto offsets = row_offsets.contiguous();
  const auto position = at::arange(key_index.size(0), offsets.options());
  // The row is the number of rows that end at or before the entry.
  const auto row = at::searchsorted(offsets.slice(0, 1).contiguous(), position, /*out_int32=*/false, /*right=*/true);
  const auto unused = row.ge(batch * queries);
  const auto own = row.clamp_max(std::max<std::int64_t>(0, batch * queries - 1));
  return {offsets, own, own.floor_divide(std::max<std::int64_t>(1, queries)) * keys + key_index, unused};
}

EntriesByKey by_key(const SparseEntries& entries, std::int64_t all_keys) {
  const auto key = entries.key.masked_fill(entries.unused, all_keys);
  const auto order = at::argsort(key, /*stable=*/true, 0);
  const auto borders = at::arange(all_keys + 1, key.options());
  return {at::searchsorted(key.index_select(0, order), borders), order};
}

void for_entry_ranges(std::int64_t count, std::int64_t width,
                      const std::function<void(std::int64_t, std::int64_t)>& visit) {
  constexpr std::int64_t kRangeBytes = std::int64_t{16} << 20;
  const std::int64_t step = std::max<std::int64_t>(1024, kRangeBytes / (8 * std::max<std::int64_t>(1, width)));
  for (std::int64_t first = 0; first < count; first += step) visit(first, std::min(count, first + step));
}

at::Tensor sum_by_row(const at::Tensor& data, const at::Tensor& row_offsets, std::int64_t first) {
  if (data.size(0) == 0) {
    auto sizes = data.sizes().vec();
    sizes[0] = row_offsets.size(0) - 1;
    return at::zeros(sizes, data.options());
  }
  const auto borders = row_offsets.clamp(first, first + data.size(0)) - first;
  // `unsafe` leaves out checks that would wait for the device.
  return at::segment_reduce(data, "sum", {}, {}, borders, 0, /*unsafe=*/true, 0);
}

at::Tensor max_by_row(const at::Tensor& data, const at::Tensor& row_offsets) {
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  if (data.size(0) == 0) return at::full({row_offsets.size(0) - 1}, kNone, data.options());
  return at::segment_reduce(data, "max", {}, {}, row_offsets, 0, /*unsafe=*/true, kNone);
}

at::Tensor rows_of_head(const at::Tensor& tensor, std::int64_t head) {
  return tensor.select(1, head).reshape({tensor.size(0) * tensor.size(2), tensor.size(3)});
}

at::Tensor entry_products(const SparseEntries& entries, const at::Tensor& left, const at::Tensor& right,
                          at::ScalarType type) {
  auto products = at::empty({entries.count()}, left.options().dtype(type));
  for_entry_ranges(entries.count(), left.size(1), [&](std::int64_t first, std::int64_t end) {
    const auto a = left.index_select(0, entries.row.slice(0, first, end)).to(type);
    const auto b = right.index_select(0, entries.key.slice(0, first, end)).to(type);
    products.slice(0, first, end).copy_((a * b).sum(-1));
  });
  return products;
}

void add_weighted_by_row(const SparseEntries& entries, const at::Tensor& weight, const at::Tensor& values,
                         const at::Tensor& sums) {
  for_entry_ranges(
      entries.count(), values.size(1),
      [&](std::int64_t first, std::int64_t end) {
        const auto part = values.index_select(0, entries.key.slice(0, first, end)).to(weight.scalar_type());
        sums.add_(sum_by_row(part * weight.slice(0, first, end).unsqueeze(-1), entries.row_offsets, first));
      });
}

void add_weighted_by_key(const SparseEntries& entries, const EntriesByKey& keys, const at::Tensor& weight,
                         const at::Tensor& values, const at::Tensor& sums) {
  for_entry_ranges(
      entries.count(), values.size(1),
      [&](std::int64_t first, std::int64_t end) {
        const auto chosen = keys.entry.slice(0, first, end);
        const auto part = values.index_select(0, entries.row.index_select(0, chosen)).to(weight.scalar_type());
        sums.add_(sum_by_row(part * weight.index_select(0, chosen).unsqueeze(-1), keys.offsets, first));
      });
}

}  // namespace camber::ops
