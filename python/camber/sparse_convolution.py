"""Convolution over the occupied cells of a 3-D grid, and the pairs of rows that it joins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class SparseIndices(NamedTuple):
    """Which rows of features each tap of a kernel joins: what `build_sparse_indices` gives.

    Built once from the sites, and shared by every layer of the same geometry. N input rows, M output rows, T taps
    (z, y, x row-major), P pairs; rows come in blocks of 64.
    """

    coordinates: Tensor  # int32 [M, 4]: (batch, z, y, x) of the output rows
    pair_input: Tensor  # int32 [P], by tap and output row
    pair_output: Tensor  # int32 [P]
    pair_offsets: Tensor  # int64 [T, blocks of M + 1]: the first pair of each tap and block
    back_input: Tensor  # int32 [P], the same pairs by tap and input row
    back_output: Tensor  # int32 [P]
    back_offsets: Tensor  # int64 [T, blocks of N + 1]
    dropped: Tensor  # int64 []: input rows outside the grid, which no pair reads
    inputs: int  # N
    spatial_shape: tuple[int, int, int]  # of the output grid, (z, y, x)
    batch: int
    kernel: tuple[int, int, int]


def _axes(name: str, value: int | Sequence[int]) -> tuple[int, int, int]:
    """(z, y, x) of one number for all axes or of three."""
    if isinstance(value, int):
        return value, value, value
    if len(value) != 3:
        raise ValueError(f"[build_sparse_indices] {name} must be a number or 3 of them (z, y, x), got {len(value)}")
    return value[0], value[1], value[2]


def build_sparse_indices(
    coordinates: Tensor,
    spatial_shape: Sequence[int],
    batch: int,
    kernel: int | Sequence[int] = 3,
    *,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    submanifold: bool = False,
) -> SparseIndices:
    """The pairs of rows of a sparse convolution: tap t of output site o reads o * stride + t * dilation - padding.

    coordinates int32 or int64 [N, 4] hold (batch, z, y, x), each site once. Sites outside the grid are dropped and
    counted. A site of the output grid, floor((n + 2 padding - dilation (kernel - 1) - 1) / stride) + 1 along each axis,
    is active when any input falls on one of its taps; output rows are sorted by (batch, z, y, x). With `submanifold`
    the output sites are the input sites in their order, and the kernel is odd and centred (`padding` is not used).

    >>> import torch, camber
    >>> sites = torch.tensor([[0, 0, 0, 0], [0, 0, 0, 3], [0, 9, 0, 0]])              # the last one is outside
    >>> halved = camber.build_sparse_indices(sites, (4, 4, 4), 1, 3, stride=2, padding=1)
    >>> halved.coordinates.tolist(), halved.spatial_shape, halved.dropped.item()
    ([[0, 0, 0, 0], [0, 0, 0, 1]], (2, 2, 2), 1)
    """
    shape, sizes = _axes("spatial_shape", spatial_shape), _axes("kernel", kernel)
    strides, paddings, dilations = _axes("stride", stride), _axes("padding", padding), _axes("dilation", dilation)
    tensors = torch.ops.camber.build_sparse_indices(
        coordinates, shape, batch, sizes, strides, paddings, dilations, submanifold
    )
    axes = zip(shape, sizes, strides, paddings, dilations, strict=True)
    output = tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in axes)
    grid = shape if submanifold else (output[0], output[1], output[2])
    return SparseIndices._make((*tensors, coordinates.shape[0], grid, batch, sizes))


def sparse_convolution(features: Tensor, weight: Tensor, indices: SparseIndices) -> Tensor:
    """Sparse convolution (a cross-correlation): output[o] = sum over taps t of weight[:, t] features[input of (t, o)].

    features [N, Cin] and weight [Cout, kz, ky, kx, Cin] (the layout of spconv 2) -> [M, Cout], in the order of
    `indices.coordinates`. Gradients flow to features and weight; their bits do not depend on the number of threads.
    float32 runs on the kernels, float64 on the plain definition; bfloat16 serves inference. A second derivative is
    refused.

    >>> import torch, camber
    >>> sites = torch.tensor([[0, 0, 0, 0], [0, 0, 0, 1]], dtype=torch.int32)
    >>> same = camber.build_sparse_indices(sites, (1, 4, 4), 1, submanifold=True)
    >>> weight = torch.zeros(1, 3, 3, 3, 1)
    >>> weight[0, 1, 1, :, 0] = torch.tensor([100.0, 10.0, 1.0])        # what lies before, at and behind a site in x
    >>> camber.sparse_convolution(torch.tensor([[2.0], [3.0]]), weight, same).flatten().tolist()
    [23.0, 230.0]
    """
    if features.dim() != 2 or features.shape[0] != indices.inputs:
        raise ValueError(
            f"[sparse_convolution] features must be [N, Cin] with the {indices.inputs} input rows of indices, got "
            f"{list(features.shape)}"
        )
    if weight.dim() != 5 or tuple(weight.shape[1:4]) != indices.kernel:
        raise ValueError(
            f"[sparse_convolution] weight must be [Cout, kz, ky, kx, Cin] with the kernel {indices.kernel} of indices, "
            f"got {list(weight.shape)}"
        )
    output: Tensor = torch.ops.camber.sparse_convolution(
        features, weight, list(indices[1:7]), indices.coordinates.shape[0]
    )
    return output
