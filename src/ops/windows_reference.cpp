#include "ops/windows_reference.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>

namespace camber::ops {
namespace {

// [nnz]: row * maps + map of every entry, an index into strength [Hb, B*Q * M].
at::Tensor index_of_entries(const at::Tensor& row_offsets, const at::Tensor& map_index, std::int64_t maps) {
  const auto lengths = row_offsets.slice(0, 1) - row_offsets.slice(0, 0, -1);
  const auto row = at::arange(lengths.size(0), row_offsets.options()).repeat_interleave(lengths, 0, map_index.size(0));
  return row * maps + map_index;
}

}  // namespace

at::Tensor window_values_reference(const at::Tensor& strength, const at::Tensor& profile, const at::Tensor& row_offsets,
                                   const at::Tensor& map_index) {
  const auto position = index_of_entries(row_offsets, map_index, strength.size(2));
  return strength.flatten(1).index_select(1, position) * profile;
}

at::Tensor window_values_backward_reference(const at::Tensor& grad, const at::Tensor& profile,
                                            const at::Tensor& row_offsets, const at::Tensor& map_index,
                                            std::int64_t maps) {
  const std::int64_t heads = grad.size(0), rows = row_offsets.size(0) - 1;
  const auto position = index_of_entries(row_offsets, map_index, maps);
  return at::zeros({heads, rows * maps}, grad.options())
      .scatter_add_(1, position.expand({heads, -1}), grad * profile)
      .view({heads, rows, maps});
}

}  // namespace camber::ops
