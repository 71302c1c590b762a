#pragma once
#include <cstdint>

#include <ATen/core/Tensor.h>

#include "camber/ops/sparse_convolution.h"

/// Sites and dense grids to hold sparse convolution against.
namespace camber::proof {

/// About `sites` different sites (batch, z, y, x), int64, in no order; the generator is torch's.
at::Tensor draw_sites(std::int64_t batch, ops::GridShape shape, std::int64_t sites);

struct DenseConvolution {
  at::Tensor grid;   // [B, Cout, D, H, W]
  at::Tensor sites;  // int64 [M, 4]: where a window holds an input, sorted
};

/// conv3d of the features put into a grid of zeros.
DenseConvolution dense_convolution(const at::Tensor& sites, ops::GridShape shape, std::int64_t batch,
                                   const at::Tensor& features, const at::Tensor& weight,
                                   const ops::SparseKernel& kernel);

/// [M, C]: the grid [B, C, D, H, W] at the sites.
at::Tensor rows_at(const at::Tensor& grid, const at::Tensor& sites);

}  // namespace camber::proof
