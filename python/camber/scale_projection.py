"""The projection that keeps bounded scales inside their bounds, after each step of an optimiser."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from .bounded_scale import ALL_SCALES, BoundedScale, whole

# Running means of the gradient, in the names of torch and of those who follow it: a step goes against them.
_MOMENTUM = ("momentum_buffer", "exp_avg")
# What else torch's own optimisers keep of a parameter: squares, sizes and counts, which push nowhere.
_WITHOUT_DIRECTION = {
    "step",
    "exp_avg_sq",
    "max_exp_avg_sq",
    "exp_inf",
    "square_avg",
    "grad_avg",
    "acc_delta",
    "sum",
    "mu_product",
    "ax",
    "eta",
    "mu",
    "prev",
    "step_size",
    "variance",
    "row_var",
    "col_var",
}
_TOLD: set[str] = set()


def _tell_of_unknown(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Once for every kind of optimiser."""
    kind = type(optimizer).__name__
    tensors = [name for name, value in state.items() if isinstance(value, torch.Tensor)]
    unknown = [repr(name) for name in tensors if name not in _MOMENTUM and name not in _WITHOUT_DIRECTION]
    if unknown and kind not in _TOLD:
        _TOLD.add(kind)
        warnings.warn(
            f"[project_scales] the state of a scale must be {' or '.join(_MOMENTUM)} to be reset at a bound, got "
            f"{', '.join(unknown)} of {kind}, which is left alone",
            stacklevel=3,
        )


@torch.no_grad()
def project_scales(model_or_optimizer: torch.nn.Module | torch.optim.Optimizer) -> int:
    """To be called after every `optimizer.step()`: puts the projected scales of a model or optimiser back onto their bounds.

    Of a model, every BoundedScale in it; momentum is then the optimiser's own affair. Of an optimiser, those that it holds.
    Where an element was projected, momentum that points outward is zeroed: the state momentum_buffer (SGD, RMSprop) or
    exp_avg (Adam, AdamW and their kin); squares and the step count stay. Any optimiser will do: one without momentum has
    nothing to zero, and state of another name is left alone, which is told once. Returns how many elements were
    projected. Weight decay on a scale is warned of: it pulls a scale to 0, one in log space to 1. Sharded scales (FSDP2)
    are projected where they lie; all ranks make the call.

    >>> import torch, camber
    >>> scale = camber.BoundedScale()
    >>> optimizer = torch.optim.Adam(scale.parameters(), lr=0.1)
    >>> scale().square().backward()
    >>> optimizer.step()
    >>> camber.project_scales(optimizer), camber.project_scales(scale)
    (0, 0)
    """
    if isinstance(model_or_optimizer, torch.nn.Module):
        scales = [module for module in model_or_optimizer.modules() if isinstance(module, BoundedScale)]
        moves = [scale.project() for scale in scales]
        return sum(int(whole(moved.above | moved.below).sum()) for moved in moves)
    if not isinstance(model_or_optimizer, torch.optim.Optimizer):
        raise TypeError(
            "[project_scales] model_or_optimizer must be a torch.nn.Module or a torch.optim.Optimizer, got "
            f"{type(model_or_optimizer).__name__}"
        )
    optimizer = model_or_optimizer
    decay = {id(p): float(group.get("weight_decay", 0.0)) for group in optimizer.param_groups for p in group["params"]}
    projected = 0
    for scale in [s for s in ALL_SCALES if id(s.raw) in decay]:
        if decay[id(scale.raw)] != 0:
            warnings.warn(
                f"[project_scales] weight decay of a BoundedScale must be 0, got {decay[id(scale.raw)]}: put it into a "
                "parameter group of its own",
                stacklevel=2,
            )
        moved = scale.project()
        projected += int(whole(moved.above | moved.below).sum())
        state = optimizer.state.get(scale.raw, {})
        _tell_of_unknown(optimizer, state)
        for momentum in (state[name] for name in _MOMENTUM if isinstance(state.get(name), torch.Tensor)):
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

    def project(held: torch.optim.Optimizer, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        project_scales(held)

    return optimizer.register_step_post_hook(project)
