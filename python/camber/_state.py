"""What the modules' states have in common."""

from __future__ import annotations

import torch
from torch import Tensor


def unrounded(before: Tensor, moved: Tensor) -> Tensor:
    """A float64 setting after its module was cast or moved: where the module is now, with the digits it had."""
    if moved.dtype == before.dtype:
        return moved
    return torch.empty_like(moved, dtype=before.dtype) if before.is_meta else before.to(moved.device)
