"""How a raw parameter becomes a bounded value, and with which gradient."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

# Where a sigmoid scale lands when new bounds cut its value off, as a share of the range. Closer to the bound its
# gradient would be as good as dead.
_SIGMOID_MARGIN = 1e-3


class BoundedMap(NamedTuple):
    """The map from raw to value. Bounds of raw are rounded to raw's type, so that a projected raw compares as equal."""

    constraint: str
    log: bool
    bounds: Tensor  # float64 [2]: min, max
    raw_bounds: Tensor  # float64 [2]

    def lowest_raw(self) -> Tensor:
        return self.raw_bounds[0] - math.inf if self.constraint == "log_clamp" else self.raw_bounds[0]

    def share_value(self, share: Tensor) -> Tensor:
        ends = self.bounds.log() if self.log else self.bounds
        value = ends[0] + (ends[1] - ends[0]) * share
        return (value.exp() if self.log else value).clamp(self.bounds[0], self.bounds[1])

    def value(self, x: Tensor) -> Tensor:
        if self.constraint == "sigmoid":
            return self.share_value(x.sigmoid())
        if self.constraint == "none":
            return x.exp() if self.log else x.clone()
        inside = x.clamp(self.lowest_raw(), self.raw_bounds[1])
        if not self.log:
            return inside
        # exp(ln max) rounds to either side of max; on the bound the value is the bound.
        value = torch.where(x >= self.raw_bounds[1], self.bounds[1], inside.exp())
        return value if self.constraint == "log_clamp" else torch.where(x <= self.raw_bounds[0], self.bounds[0], value)

    def slope(self, x: Tensor) -> Tensor:
        if self.constraint == "sigmoid":
            share = x.sigmoid()
            steepness = share * (1 - share)
            if not self.log:
                return (self.bounds[1] - self.bounds[0]) * steepness
            ends = self.bounds.log()
            return self.share_value(share) * (ends[1] - ends[0]) * steepness
        if self.constraint == "none":
            return x.exp() if self.log else torch.ones_like(x)
        lowest, highest = self.lowest_raw(), self.raw_bounds[1]
        if self.constraint in ("clamp", "log_clamp"):
            alive = ((x >= lowest) & (x <= highest)).to(x.dtype)
        else:
            alive = torch.ones_like(x)
        return alive * x.clamp(lowest, highest).exp() if self.log else alive

    def raw_of(self, value: Tensor) -> Tensor:
        """The raw value that maps to `value`, in double."""
        inner = value.log() if self.log else value
        if self.constraint != "sigmoid":
            return inner
        ends = self.bounds.log() if self.log else self.bounds
        share = (inner - ends[0]) / (ends[1] - ends[0])
        above = torch.where(share >= 1, 1 - _SIGMOID_MARGIN, share)
        return torch.where(share <= 0, _SIGMOID_MARGIN, above).logit()


class ApplyBoundedMap(torch.autograd.Function):
    """Value and gradient are chosen separately, and both must hold to the bit."""

    @staticmethod
    def forward(ctx: Any, raw: Tensor, bounds: Tensor, raw_bounds: Tensor, constraint: str, log: bool) -> Tensor:
        ctx.save_for_backward(raw, bounds, raw_bounds)
        ctx.constraint, ctx.log = constraint, log
        return BoundedMap(constraint, log, bounds, raw_bounds).value(raw.double()).to(raw.dtype)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None, None]:
        raw, bounds, raw_bounds = ctx.saved_tensors
        slope = BoundedMap(ctx.constraint, ctx.log, bounds, raw_bounds).slope(raw.double())
        return (gradient.double() * slope).to(raw.dtype), None, None, None, None
