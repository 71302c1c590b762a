"""The projection that keeps bounded scales inside their bounds, after each step of an optimiser."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from .bounded_scale import ALL_SCALES


def _momentum_name(optimizer: torch.optim.Optimizer) -> str:
    """The state that holds the running mean of the gradient."""
    if isinstance(optimizer, torch.optim.SGD):
        return "momentum_buffer"
    if isinstance(optimizer, (torch.optim.Adam, torch.optim.AdamW)):
        return "exp_avg"
    raise ValueError(
        f"[project_scales] optimizer must be torch.optim.SGD, Adam or AdamW, got {type(optimizer).__name__}"
    )


@torch.no_grad()
def project_scales(optimizer: torch.optim.Optimizer) -> int:
    """To be called after every `optimizer.step()`: puts the projected scales that it holds back onto their bounds.

    Where an element was projected, momentum that points outward is zeroed: SGD's momentum_buffer, Adam's and AdamW's
    exp_avg; exp_avg_sq and the step count stay. Returns how many elements were projected. An optimiser other than SGD,
    Adam or AdamW is an error. Weight decay on a scale is warned of: it pulls a scale to 0, one in log space to 1.

    >>> import torch, camber
    >>> scale = camber.BoundedScale()
    >>> optimizer = torch.optim.Adam(scale.parameters(), lr=0.1)
    >>> scale().square().backward()
    >>> optimizer.step()
    >>> camber.project_scales(optimizer)
    0
    """
    momentum_name = _momentum_name(optimizer)
    decay = {id(p): float(group["weight_decay"]) for group in optimizer.param_groups for p in group["params"]}
    projected = 0
    for scale in [s for s in ALL_SCALES if id(s.raw) in decay]:
        if decay[id(scale.raw)] != 0:
            warnings.warn(
                f"[project_scales] weight decay of a BoundedScale must be 0, got {decay[id(scale.raw)]}: put it into a "
                "parameter group of its own",
                stacklevel=2,
            )
        moved = scale.project()
        projected += int((moved.above | moved.below).sum())
        momentum = optimizer.state.get(scale.raw, {}).get(momentum_name)
        if momentum is not None:
            # A step goes against the momentum: below zero it pushes the raw value up.
            momentum.masked_fill_(moved.above & (momentum < 0), 0.0)
            momentum.masked_fill_(moved.below & (momentum > 0), 0.0)
    return projected


def project_after_step(optimizer: torch.optim.Optimizer) -> RemovableHandle:
    """Calls `project_scales` after every step of this optimiser, whoever makes it (a trainer's loop, a GradScaler).

    >>> import torch, camber
    >>> scale = camber.BoundedScale(init=5.0)
    >>> optimizer = torch.optim.SGD(scale.parameters(), lr=1.0)
    >>> handle = camber.project_after_step(optimizer)
    >>> (-scale()).backward()
    >>> optimizer.step()
    >>> scale.raw.item()
    5.0
    """
    _momentum_name(optimizer)  # an unknown optimiser is refused at once

    def project(held: torch.optim.Optimizer, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        project_scales(held)

    return optimizer.register_step_post_hook(project)
