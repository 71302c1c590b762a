#include "support/sparse_cases.h"

#include <ATen/ATen.h>

namespace camber::proof {
namespace {

// Where the sites lie in a grid [B, D, H, W].
std::vector<std::optional<at::Tensor>> index_of(const at::Tensor& sites) {
  std::vector<std::optional<at::Tensor>> index;
  index.reserve(4);
  for (std::int64_t axis = 0; axis < 4; ++axis) index.emplace_back(sites.select(1, axis).to(at::kLong));
  return index;
}

at::Tensor in_grid(const at::Tensor& sites, ops::GridShape shape, std::int64_t batch, const at::Tensor& features) {
  const auto grid = at::zeros({batch, shape[0], shape[1], shape[2], features.size(1)}, features.options());
  const c10::List<std::optional<at::Tensor>> index(index_of(sites));
  return at::index_put(grid, index, features).permute({0, 4, 1, 2, 3});
}

}  // namespace

at::Tensor draw_sites(std::int64_t batch, ops::GridShape shape, std::int64_t sites) {
  const std::int64_t cells = batch * shape[0] * shape[1] * shape[2];
  const auto cell = at::randperm(cells, at::kLong).slice(0, 0, sites);
  const auto row = at::floor_divide(cell, shape[2]), slice = at::floor_divide(row, shape[1]);
  return at::stack(
      {at::floor_divide(slice, shape[0]), slice.remainder(shape[0]), row.remainder(shape[1]), cell.remainder(shape[2])},
      1);
}

DenseConvolution dense_convolution(const at::Tensor& sites, ops::GridShape shape, std::int64_t batch,
                                   const at::Tensor& features, const at::Tensor& weight,
                                   const ops::SparseKernel& kernel) {
  auto padding = kernel.padding;
  for (std::size_t d = 0; d < 3 && kernel.submanifold; ++d) padding[d] = kernel.size[d] / 2 * kernel.dilation[d];
  const auto convolve = [&](const at::Tensor& x, const at::Tensor& w) {
    return at::conv3d(in_grid(sites, shape, batch, x), w.permute({0, 4, 1, 2, 3}), {}, kernel.stride, padding,
                      kernel.dilation);
  };
  const auto held =
      convolve(at::ones({sites.size(0), 1}, features.options()), at::ones_like(weight).slice(0, 0, 1).slice(4, 0, 1));
  return {convolve(features, weight), held.select(1, 0).gt(0.5).nonzero()};
}

at::Tensor rows_at(const at::Tensor& grid, const at::Tensor& sites) {
  const c10::List<std::optional<at::Tensor>> index(index_of(sites));
  return at::index(grid.permute({0, 2, 3, 4, 1}), index);
}

}  // namespace camber::proof
