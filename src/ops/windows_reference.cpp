#include "ops/windows_reference.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/argsort.h>
#include <ATen/ops/searchsorted.h>

#include "ops/sparse_entries.h"

namespace camber::ops {
namespace {

// [nnz]: row * maps + map of every entry, an index into strength [Hb, B*Q * M]; `unused` for entries of no row.
at::Tensor index_of_entries(const at::Tensor& row_offsets, const at::Tensor& map_index, std::int64_t maps,
                            std::int64_t unused) {
  const auto entries = entries_of(row_offsets, map_index, 1, row_offsets.size(0) - 1, 0);
  return (entries.row * maps + map_index).masked_fill(entries.unused, unused);
}

}  // namespace

at::Tensor window_values_reference(const at::Tensor& strength, const at::Tensor& profile, const at::Tensor& row_offsets,
                                   const at::Tensor& map_index) {
  const auto position = index_of_entries(row_offsets, map_index, strength.size(2), 0);
  return strength.flatten(1).index_select(1, position) * profile;
}

at::Tensor window_values_backward_reference(const at::Tensor& grad, const at::Tensor& profile,
                                            const at::Tensor& row_offsets, const at::Tensor& map_index,
                                            std::int64_t maps) {
  const std::int64_t heads = grad.size(0), rows = row_offsets.size(0) - 1;
  const auto position = index_of_entries(row_offsets, map_index, maps, rows * maps);
  // By sums over sorted entries: a scattered sum has no order on a GPU. Sorted they are where build_windows made them.
  const auto order = at::argsort(position, /*stable=*/true, 0);
  const auto borders = at::arange(rows * maps + 1, position.options());
  const auto offsets = at::searchsorted(position.index_select(0, order), borders);
  return sum_by_row((grad * profile).index_select(1, order).t().contiguous(), offsets, 0)
      .t()
      .reshape({heads, rows, maps});
}

}  // namespace camber::ops
