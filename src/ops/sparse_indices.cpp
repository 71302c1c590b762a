#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <torch/library.h>

#include "camber/kernels/sparse_pairs.h"
#include "camber/ops/sparse_convolution.h"
#include "ops/argument_checks.h"
#include "ops/kernel_views.h"

namespace camber::ops {
namespace {

constexpr std::int64_t kMostCells = std::int64_t{1} << 32, kMostTaps = 4096;
constexpr std::int64_t kMostRows = std::numeric_limits<std::int32_t>::max();

std::string listed(const GridShape& shape) {
  return "(" + std::to_string(shape[0]) + ", " + std::to_string(shape[1]) + ", " + std::to_string(shape[2]) + ")";
}

void check_axes(const char* name, const GridShape& value, std::int64_t least) {
  for (const std::int64_t v : value)
    TORCH_CHECK_VALUE(v >= least && v <= kMostRows, "[build_sparse_indices] ", name, " must be at least ", least,
                      " and below 2^31 along every axis, got ", listed(value));
}

// Divisions, so that no product overflows.
bool has_few_cells(const GridShape& shape, std::int64_t batch) {
  std::int64_t left = kMostCells - 1;
  for (const std::int64_t n : shape) left /= n;
  return batch <= left;
}

void check_kernel(const SparseKernel& kernel) {
  check_axes("kernel", kernel.size, 1);
  check_axes("stride", kernel.stride, 1);
  check_axes("padding", kernel.padding, 0);
  check_axes("dilation", kernel.dilation, 1);
  TORCH_CHECK_VALUE(kernel.size[0] <= kMostTaps / kernel.size[1] / kernel.size[2],
                    "[build_sparse_indices] kernel must have at most ", kMostTaps, " taps, got ", listed(kernel.size));
  if (!kernel.submanifold) return;
  for (std::size_t d = 0; d < 3; ++d) {
    TORCH_CHECK_VALUE(kernel.size[d] % 2 == 1, "[build_sparse_indices] kernel must be odd where submanifold, got ",
                      listed(kernel.size));
    TORCH_CHECK_VALUE(kernel.stride[d] == 1, "[build_sparse_indices] stride must be 1 where submanifold, got ",
                      listed(kernel.stride));
  }
}

kernels::SparseGeometry geometry_of(const GridShape& shape, std::int64_t batch, const SparseKernel& kernel) {
  check_axes("spatial_shape", shape, 1);
  TORCH_CHECK_VALUE(batch >= 0, "[build_sparse_indices] batch must be at least 0, got ", batch);
  check_kernel(kernel);
  GridShape output = shape, padding = kernel.padding;
  for (std::size_t d = 0; d < 3; ++d) {
    if (kernel.submanifold) {
      padding[d] = kernel.size[d] / 2 * kernel.dilation[d];
      continue;
    }
    const std::int64_t span = kernel.dilation[d] * (kernel.size[d] - 1) + 1;
    const std::int64_t padded = shape[d] + 2 * kernel.padding[d];
    TORCH_CHECK_VALUE(span <= padded, "[build_sparse_indices] kernel must fit into the padded grid, got a span of ",
                      span, " on ", padded, " cells along axis ", d);
    output[d] = (padded - span) / kernel.stride[d] + 1;
  }
  for (const auto& [name, grid] : {std::pair{"spatial_shape", shape}, std::pair{"the output grid", output}})
    TORCH_CHECK_VALUE(has_few_cells(grid, batch), "[build_sparse_indices] ", name,
                      " must have fewer than 2^32 cells over all batches, got ", listed(grid), " times ", batch);
  return {.batches = batch,
          .input_shape = shape,
          .output_shape = output,
          .kernel = kernel.size,
          .stride = kernel.stride,
          .padding = padding,
          .dilation = kernel.dilation};
}

// int32 [N, 4], after a check of shape, type and batches. Sites beyond int32 lie outside every grid.
at::Tensor checked_coordinates(const at::Tensor& coordinates, std::int64_t batch) {
  const bool integers = coordinates.scalar_type() == at::kInt || coordinates.scalar_type() == at::kLong;
  TORCH_CHECK_VALUE(integers && coordinates.dim() == 2 && coordinates.size(1) == 4,
                    "[build_sparse_indices] coordinates must be int32 or int64 [N, 4], got ", describe(coordinates));
  TORCH_CHECK_VALUE(coordinates.size(0) <= kMostRows, "[build_sparse_indices] coordinates must have fewer than 2^31 ",
                    "rows, got ", coordinates.size(0));
  const auto wide = coordinates.to(at::kCPU, at::kLong).contiguous();
  const auto* from = wide.const_data_ptr<std::int64_t>();
  auto narrow = at::empty(wide.sizes(), wide.options().dtype(at::kInt));
  auto* to = narrow.data_ptr<std::int32_t>();
  for (std::int64_t row = 0; row < wide.size(0); ++row) {
    TORCH_CHECK_VALUE(from[4 * row] >= 0 && from[4 * row] < batch,
                      "[build_sparse_indices] coordinates must have batches in 0 .. ", batch - 1, ", got ",
                      from[4 * row], " in row ", row);
    for (std::int64_t i = 4 * row; i < 4 * row + 4; ++i)
      to[i] =
          static_cast<std::int32_t>(std::clamp<std::int64_t>(from[i], -1, std::numeric_limits<std::int32_t>::max()));
  }
  return narrow;
}

// Memory of an int32 tensor that is made when its size is known.
kernels::Allocate tensor_memory(at::Tensor& tensor) {
  return [&tensor](std::int64_t count) {
    tensor = at::empty({count}, at::kInt);
    return tensor.data_ptr<std::int32_t>();
  };
}

at::Tensor offsets_of(const kernels::PairMemory& lists, std::int64_t taps) {
  auto offsets = at::empty({taps, static_cast<std::int64_t>(lists.offsets.size()) / taps}, at::kLong);
  std::copy(lists.offsets.begin(), lists.offsets.end(), offsets.data_ptr<std::int64_t>());
  return offsets;
}

}  // namespace

SparseIndices build_sparse_indices(const at::Tensor& coordinates, GridShape spatial_shape, std::int64_t batch,
                                   const SparseKernel& kernel) {
  const auto geometry = geometry_of(spatial_shape, batch, kernel);
  const auto inputs = checked_coordinates(coordinates, batch);
  SparseIndices built{.spatial_shape = geometry.output_shape,
                      .batch = batch,
                      .inputs = inputs.size(0),
                      .dropped = 0,
                      .kernel = kernel.size};
  kernels::SparseSites sites{
      .coordinates = tensor_memory(built.coordinates),
      .forward = {.from = tensor_memory(built.pair_input), .to = tensor_memory(built.pair_output)},
      .back = {.from = tensor_memory(built.back_output), .to = tensor_memory(built.back_input)}};
  try {
    kernels::find_sites(geometry, kernel.submanifold, inputs.const_data_ptr<std::int32_t>(), built.inputs,
                        torch_threads(), sites);
  } catch (const std::invalid_argument& error) {
    TORCH_CHECK_VALUE(false, "[build_sparse_indices] ", error.what());
  }
  built.coordinates = built.coordinates.view({sites.outputs, 4});
  built.dropped = sites.dropped;
  built.pair_offsets = offsets_of(sites.forward, geometry.taps());
  if (sites.mirrored) {
    // A site is at once input and output: the pair (i, o) of a tap is the pair (o, i) of the opposite one.
    built.back_output = built.pair_input;
    built.back_input = built.pair_output;
    built.back_offsets = built.pair_offsets.flip(0);
  } else {
    built.back_offsets = offsets_of(sites.back, geometry.taps());
  }
  return built;
}

namespace {

GridShape shape_of(const char* name, at::IntArrayRef values) {
  TORCH_CHECK_VALUE(values.size() == 3, "[build_sparse_indices] ", name, " must hold 3 sizes (z, y, x), got ",
                    values.size());
  return {values[0], values[1], values[2]};
}

using IndexTensors =
    std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

// The operator's results share no memory: the schema promises that.
IndexTensors build_sparse_indices_cpu(const at::Tensor& coordinates, at::IntArrayRef spatial_shape, std::int64_t batch,
                                      at::IntArrayRef kernel, at::IntArrayRef stride, at::IntArrayRef padding,
                                      at::IntArrayRef dilation, bool submanifold) {
  const auto built = build_sparse_indices(coordinates, shape_of("spatial_shape", spatial_shape), batch,
                                          {.size = shape_of("kernel", kernel),
                                           .stride = shape_of("stride", stride),
                                           .padding = shape_of("padding", padding),
                                           .dilation = shape_of("dilation", dilation),
                                           .submanifold = submanifold});
  const bool shared = built.back_output.is_same(built.pair_input);
  return {built.coordinates,
          built.pair_input,
          built.pair_output,
          built.pair_offsets,
          shared ? built.back_input.clone() : built.back_input,
          shared ? built.back_output.clone() : built.back_output,
          built.back_offsets,
          at::scalar_tensor(built.dropped, at::kLong)};
}

}  // namespace

TORCH_LIBRARY_IMPL(camber, CPU, m) {
  m.impl("build_sparse_indices", &build_sparse_indices_cpu);
}

}  // namespace camber::ops
