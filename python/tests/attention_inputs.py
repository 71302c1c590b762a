"""Small inputs for the tests of attention, and the definition written out."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

import camber

BATCH, HEADS, QUERIES, WIDTH = 2, 2, 5, 4
MAPS = [(3, 2), (2, 4)]
KEYS = sum(columns * rows for columns, rows in MAPS)


class Inputs(NamedTuple):
    q: Tensor
    k: Tensor
    v: Tensor
    bias: camber.StructuredBias
    attn_mask: Tensor


def leaf(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


def make_inputs(dtype: torch.dtype = torch.float64, bias_heads: int = HEADS) -> Inputs:
    torch.manual_seed(7)
    center = torch.stack([torch.randint(-1, columns, (BATCH, QUERIES, 2)) for columns, _ in MAPS], 2)
    center[..., 1].clamp_(0, 1)
    index = camber.StructuredBias.from_windows(center, 3, MAPS, torch.ones(BATCH, QUERIES, 2, dtype=dtype))
    assert index.windows is not None and index.segments is not None
    value = leaf(bias_heads, index.windows.key_index.numel(), dtype=dtype)
    bias = camber.StructuredBias(
        index.windows._replace(value=value),
        index.segments._replace(value=leaf(BATCH, 1, QUERIES, len(MAPS), dtype=dtype)),
        index.shape,
    )
    return Inputs(
        leaf(BATCH, HEADS, QUERIES, WIDTH, dtype=dtype),
        leaf(BATCH, HEADS, KEYS, WIDTH, dtype=dtype),
        leaf(BATCH, HEADS, KEYS, WIDTH + 1, dtype=dtype),
        bias,
        leaf(1, HEADS, QUERIES, KEYS, dtype=dtype),
    )


def by_definition(q: Tensor, k: Tensor, v: Tensor, added: Tensor | float = 0.0) -> tuple[Tensor, Tensor]:
    """output and logsumexp of softmax(q k^T / sqrt(D) + added) v, rows without a finite score giving 0."""
    z = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + added
    return torch.softmax(z, -1).nan_to_num(0.0) @ v, z.logsumexp(-1)
