"""A learnable number that stays inside its bounds."""

from __future__ import annotations

import math
import warnings
import weakref
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from ._state import unrounded
from .bounded_map import ApplyBoundedMap, BoundedMap

Constraint = Literal["clamp", "sigmoid", "log_clamp", "straight_through", "projected", "none"]
Space = Literal["linear", "log"]

_CONSTRAINTS: tuple[Constraint, ...] = ("clamp", "sigmoid", "log_clamp", "straight_through", "projected", "none")
ALL_SCALES: weakref.WeakSet[BoundedScale] = weakref.WeakSet()


class BoundsStage(NamedTuple):
    """One entry of a schedule of bounds: from this epoch, or from this step, [min, max] holds.

    >>> BoundsStage(min=1.0, max=2.5, from_epoch=0)
    BoundsStage(min=1.0, max=2.5, from_epoch=0, from_step=None)
    """

    min: float
    max: float
    from_epoch: int | None = None
    from_step: int | None = None


class ScaleProjection(NamedTuple):
    """Which elements `project` moved: bool masks of the scale's shape."""

    above: Tensor
    below: Tensor


def _fail(sentence: str) -> None:
    raise ValueError(f"[BoundedScale] {sentence}")


def _check_bounds(owner: str, low: float, high: float, log: bool) -> None:
    for name, value in (("min", low), ("max", high)):
        if not math.isfinite(value):
            _fail(f"{owner}{name} must be a finite number, got {value}")
    if low >= high:
        _fail(f"{owner}min must be below {owner}max, got {low} and {high}")
    if log and low <= 0:
        _fail(f"{owner}min must be above 0 in log space, got {low}")


def whole(tensor: Tensor) -> Tensor:
    """The whole of a tensor that is sharded over processes (a DTensor of FSDP2); any other is whole."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


class BoundedScale(torch.nn.Module):
    """A learnable number, or one per modality, layer or head, that stays inside [min, max].

    ================  =============================  =========================================================
    constraint        value of raw r                 d value / d r
    ================  =============================  =========================================================
    clamp             clamp(r, min, max)             1 inside and at the bounds, 0 beyond: never comes back
    sigmoid           min + (max - min) sigmoid(r)   (max - min) s (1 - s), never 0, soon tiny
    log_clamp         exp(min(r, ln max))            the value up to and at the bound, 0 beyond
    straight_through  clamp(r, min, max)             1 everywhere; r winds up beyond the bound
    projected         clamp(r, min, max)             1 everywhere; r is put back on the bound after each step
    none              r                              1
    ================  =============================  =========================================================

    With space = "log" r is ln(scale). The parameter `raw` (a buffer when not learnable), the float64 buffer `bounds`
    and the int64 buffer `mapping` = (constraint, 1 in log space) have the names and meanings of the C++ module, so that
    files of either open in the other. `load_state_dict` takes the saved value with its bounds, constraint and space,
    and warns where the constructor said otherwise; a state without `mapping` is read as constructed. Casts change `raw`
    alone. `project_scales` is called after every optimiser step. Give the scale a parameter group without weight decay.

    >>> import torch, camber
    >>> scale = camber.BoundedScale(init=4.9, min=0.5, max=5.0)
    >>> optimizer = torch.optim.SGD(scale.parameters(), lr=1.0)
    >>> (-scale()).backward()
    >>> optimizer.step()
    >>> camber.project_scales(optimizer)      # one element was put back onto its bound
    1
    >>> scale()
    tensor(5., grad_fn=<ApplyBoundedMapBackward>)
    """

    raw: Tensor
    bounds: Tensor
    mapping: Tensor
    steps_at_bound: Tensor
    num_steps: int

    def __init__(
        self,
        init: float = 2.5,
        *,
        learnable: bool = True,
        min: float = 0.5,
        max: float = 5.0,
        constraint: Constraint = "projected",
        space: Space = "linear",
        warn_threshold: float = 4.0,
        l2_weight: float = 0.0,
        l2_center: float | Sequence[float] | None = None,
        bounds_schedule: Sequence[BoundsStage] = (),
        shape: Sequence[int] = (),
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.init, self.learnable, self.constraint, self.space = float(init), learnable, constraint, space
        self.initial_bounds = (float(min), float(max))
        self.warn_threshold, self.l2_weight, self.l2_center = warn_threshold, l2_weight, l2_center
        self.bounds_schedule, self.shape = tuple(bounds_schedule), tuple(shape)
        self._check()
        self._constructed = (_CONSTRAINTS.index(constraint), int(self.in_log_space))
        self.register_buffer("bounds", torch.empty(2, dtype=torch.float64, device=device))
        self.register_buffer("mapping", torch.empty(2, dtype=torch.int64, device=device))
        raw = torch.empty(self.shape, dtype=dtype or torch.get_default_dtype(), device=device)
        if learnable:
            self.raw = torch.nn.Parameter(raw)
        else:
            self.register_buffer("raw", raw)
        self.reset_parameters()
        ALL_SCALES.add(self)

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Value, bounds and counters of the start. A scale made on the meta device needs it after `to_empty`.

        >>> import torch, camber
        >>> scale = camber.BoundedScale(init=3.0, device="meta").to_empty(device="cpu")
        >>> scale.reset_parameters()
        >>> scale().item(), scale.max
        (3.0, 5.0)
        """
        bounds = torch.tensor(self.bounds_at(epoch=0, step=0), dtype=torch.float64, device="cpu")
        first = torch.tensor(self.init, dtype=torch.float64, device="cpu")
        self.bounds.copy_(bounds)
        self.mapping.copy_(torch.tensor(self._constructed, device="cpu"))
        self.raw.fill_(self._map(self.raw.dtype, bounds).raw_of(first).item())
        self.reset_counters()
        self._warned = False

    @staticmethod
    def preset(name: str, **changes: Any) -> BoundedScale:
        """conservative, aggressive, ultra_conservative, fixed, strong_fixed or logit, with any option changed.

        >>> import camber
        >>> camber.BoundedScale.preset("logit", shape=(8,))
        BoundedScale(projected, log, init=25.0, bounds=[1.0, 100.0], shape=[8])
        """
        if name not in SCALE_PRESETS:
            raise ValueError(f"[BoundedScale] preset must be one of {', '.join(SCALE_PRESETS)}, got {name!r}")
        return BoundedScale(**{**SCALE_PRESETS[name], **changes})

    def __setstate__(self, state: dict[str, Any]) -> None:  # copies and unpickled scales are scales too
        super().__setstate__(state)
        ALL_SCALES.add(self)

    def _apply(self, fn: Any, recurse: bool = True) -> BoundedScale:
        before = self.bounds
        super()._apply(fn, recurse)
        self.bounds = unrounded(before, self.bounds)
        return self

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        # A state that was saved before there was a mapping is read as the constructor says.
        written = state_dict.setdefault(prefix + "mapping", torch.tensor(self._constructed))
        if written.is_meta:  # shapes alone: there is nothing to read
            constraint, log = self._constructed
        else:
            constraint, log = written.tolist() if written.shape == (2,) else (-1, -1)
        if constraint not in range(len(_CONSTRAINTS)) or log not in (0, 1):
            error_msgs.append(
                f"[BoundedScale] mapping must be [constraint 0 to {len(_CONSTRAINTS) - 1}, log space 0 or 1], got "
                f"{written.tolist()}"
            )
            return
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
        self.constraint, self.space = _CONSTRAINTS[constraint], "log" if log else "linear"
        bounds = state_dict.get(prefix + "bounds")
        in_force = list(self.initial_bounds)
        if bounds is not None and not bounds.is_meta and bounds.shape == (2,):
            in_force = bounds.tolist()
        self._warn_of_other_options(constraint, log, in_force)

    def _warn_of_other_options(self, constraint: int, log: int, bounds: list[float]) -> None:
        said = [self.initial_bounds, *((float(stage.min), float(stage.max)) for stage in self.bounds_schedule)]
        changes = [
            ("constraint is", self.constraint, _CONSTRAINTS[self._constructed[0]], constraint != self._constructed[0]),
            ("space is", self.space, "log" if self._constructed[1] else "linear", log != self._constructed[1]),
            ("bounds are", bounds, list(said[0]), tuple(bounds) not in said),
        ]
        for what, loaded, constructed, differs in changes:
            if differs:
                warnings.warn(
                    f"[BoundedScale] {what} {loaded} as loaded, the constructor said {constructed}", stacklevel=2
                )

    def extra_repr(self) -> str:
        low, high = self.bounds_at(epoch=0, step=0) if self.bounds.is_meta else self.bounds.tolist()
        space = "log" if self.in_log_space else "linear"
        fixed = "" if self.learnable else ", fixed"
        return f"{self.constraint}, {space}, init={self.init}, bounds=[{low}, {high}], shape={list(self.shape)}{fixed}"

    @property
    def in_log_space(self) -> bool:
        """True where raw is the logarithm of the scale."""
        return self.space == "log" or self.constraint == "log_clamp"

    @property
    def min(self) -> float:
        """The lower bound in force."""
        return float(self.bounds[0])

    @property
    def max(self) -> float:
        """The upper bound in force."""
        return float(self.bounds[1])

    def forward(self) -> Tensor:
        """The scale, shape [] or `shape`, differentiable in raw. A projector that was forgotten is told once."""
        mapping = self._map(self.raw.dtype)
        if self.constraint == "projected" and not self._warned and not torch.compiler.is_compiling():
            self._warn_when_outside(mapping)
        result: Tensor = ApplyBoundedMap.apply(
            self.raw, mapping.bounds, mapping.raw_bounds, self.constraint, self.in_log_space
        )
        return result

    def penalty(self) -> Tensor:
        """l2_weight * sum (scale - l2_center)^2, a scalar to add to the loss; the centre is `init` by default.

        >>> import camber
        >>> camber.BoundedScale(init=3.0, l2_weight=0.01, l2_center=2.5).penalty().item()
        0.0024999999441206455
        """
        value = self()
        center = self.init if self.l2_center is None else self.l2_center
        target = torch.as_tensor(center, dtype=torch.float64, device=value.device).to(value.dtype)
        if target.dim() == 1 and target.numel() > 1:
            target = target.view(value.shape)
        return self.l2_weight * (value - target).square().sum()

    @torch.no_grad()
    def set_bounds(self, min: float, max: float) -> None:
        """Changes the bounds between two steps.

        sigmoid: raw is derived anew, so that the value stays; where the new bounds do not hold it, it goes to the nearer
        bound less 1/1000 of the range. projected: raw is put onto the new bounds. The others keep raw.

        >>> import camber
        >>> scale = camber.BoundedScale(init=4.0)
        >>> scale.set_bounds(0.5, 3.0)
        >>> scale().item()
        3.0
        """
        _check_bounds("", min, max, self.in_log_space)
        value = self._map(self.raw.dtype).value(self.raw.double())
        self.bounds.copy_(torch.tensor([min, max], dtype=torch.float64))
        mapping = self._map(self.raw.dtype)
        if self.constraint == "sigmoid":
            self.raw.copy_(mapping.raw_of(value))
        elif self.constraint == "projected":
            self.raw.copy_(self.raw.double().clamp(mapping.raw_bounds[0], mapping.raw_bounds[1]))

    def bounds_at(self, epoch: int, step: int) -> tuple[float, float]:
        """The bounds of the last stage that has begun, else those given first."""
        bounds = self.initial_bounds
        for stage in self.bounds_schedule:
            begun = stage.from_epoch <= epoch if stage.from_epoch is not None else (stage.from_step or 0) <= step
            if begun:
                bounds = (float(stage.min), float(stage.max))
        return bounds

    def apply_schedule(self, epoch: int = 0, step: int = 0) -> bool:
        """Takes the bounds of `bounds_schedule` for this epoch and step; True when they changed.

        >>> import camber
        >>> stages = [camber.BoundsStage(1.0, 2.5, from_epoch=0), camber.BoundsStage(0.5, 4.0, from_epoch=5)]
        >>> scale = camber.BoundedScale(init=2.0, bounds_schedule=stages)
        >>> scale.max, scale.apply_schedule(epoch=5), scale.max
        (2.5, True, 4.0)
        """
        if not self.bounds_schedule:
            return False
        bounds = torch.tensor(self.bounds_at(epoch, step), dtype=torch.float64).to(self.bounds)
        if torch.equal(self.bounds, bounds):
            return False
        self.set_bounds(*self.bounds_at(epoch, step))
        return True

    @torch.no_grad()
    def project(self) -> ScaleProjection:
        """What `project_scales` calls after each step: counts it and, for projected, puts raw onto the bounds."""
        mapping = self._map(self.raw.dtype)
        raw = self.raw.double()
        above, below = torch.zeros_like(raw, dtype=torch.bool), torch.zeros_like(raw, dtype=torch.bool)
        if self.constraint not in ("sigmoid", "none"):
            above, below = raw > mapping.raw_bounds[1], raw < mapping.lowest_raw()
        self.num_steps += 1
        self.steps_at_bound = self.steps_at_bound + whole(above | below).cpu().long()
        if self.constraint != "projected":
            return ScaleProjection(torch.zeros_like(above), torch.zeros_like(below))
        self.raw.copy_(raw.clamp(mapping.raw_bounds[0], mapping.raw_bounds[1]))
        return ScaleProjection(above, below)

    def share_at_bound(self) -> Tensor:
        """Share of the counted steps after which each element was projected or lay clamped, double."""
        return self.steps_at_bound.double() / (self.num_steps or 1)

    def reset_counters(self) -> None:
        """Starts the counting of steps anew."""
        self.num_steps = 0
        self.steps_at_bound = torch.zeros(self.shape, dtype=torch.int64, device="cpu")

    def _map(self, raw_type: torch.dtype, bounds: Tensor | None = None) -> BoundedMap:
        bounds = self.bounds.double() if bounds is None else bounds
        raw_bounds = (bounds.log() if self.in_log_space else bounds).to(raw_type).double()
        return BoundedMap(self.constraint, self.in_log_space, bounds, raw_bounds)

    def _warn_when_outside(self, mapping: BoundedMap) -> None:
        raw = self.raw.detach().double()
        low, high = mapping.raw_bounds.tolist()
        if bool(((raw < low) | (raw > high)).any()):
            self._warned = True
            warnings.warn(
                f"[BoundedScale] raw must lie inside [{low}, {high}] in forward for projected, got {raw.min().item()} to "
                f"{raw.max().item()}: call camber.project_scales(optimizer) after optimizer.step()",
                stacklevel=3,
            )

    def _check(self) -> None:
        if self.constraint not in _CONSTRAINTS:
            _fail(f"constraint must be one of {', '.join(_CONSTRAINTS)}, got {self.constraint!r}")
        if self.space not in ("linear", "log"):
            _fail(f"space must be linear or log, got {self.space!r}")
        if not math.isfinite(self.init):
            _fail(f"init must be a finite number, got {self.init}")
        _check_bounds("", *self.initial_bounds, self.in_log_space)
        self._check_init(*self.initial_bounds, "[min, max]")
        if not (math.isfinite(self.l2_weight) and self.l2_weight >= 0):
            _fail(f"l2_weight must be a finite number of at least 0, got {self.l2_weight}")
        if any(size < 1 for size in self.shape):
            _fail(f"shape must hold sizes of at least 1, got {list(self.shape)}")
        if isinstance(self.l2_center, Sequence) and len(self.l2_center) not in (1, math.prod(self.shape)):
            _fail(
                f"l2_center must be one number or one for each of the {math.prod(self.shape)} elements, got "
                f"{len(self.l2_center)} numbers"
            )
        self._check_schedule()

    def _check_init(self, low: float, high: float, whose: str) -> None:
        if not low <= self.init <= high:
            _fail(f"init must lie inside {whose} = [{low}, {high}], got {self.init}")
        if self.constraint == "sigmoid" and self.init in (low, high):
            _fail(
                f"init must lie strictly inside {whose} = [{low}, {high}] for sigmoid, which never touches a bound, got "
                f"{self.init}"
            )

    def _check_schedule(self) -> None:
        before: BoundsStage | None = None
        for i, stage in enumerate(self.bounds_schedule):
            name = f"bounds_schedule[{i}]"
            if (stage.from_epoch is None) == (stage.from_step is None):
                _fail(f"{name} must give either from_epoch or from_step, got {stage.from_epoch} and {stage.from_step}")
            _check_bounds(f"{name}.", stage.min, stage.max, self.in_log_space)
            if before is not None:
                if (before.from_epoch is None) != (stage.from_epoch is None):
                    _fail(f"{name} must count like the stage before it, in epochs or in steps")
                start, start_before = (s.from_epoch if s.from_step is None else s.from_step for s in (stage, before))
                if (start or 0) <= (start_before or 0):
                    _fail(f"{name} must begin after the stage before it, at {start_before}, got {start}")
            elif 0 in (stage.from_epoch, stage.from_step):
                self._check_init(stage.min, stage.max, "the bounds of bounds_schedule[0]")
            before = stage


SCALE_PRESETS: dict[str, dict[str, Any]] = {
    "conservative": {"init": 2.5, "min": 0.5, "max": 5.0, "warn_threshold": 4.0},
    "aggressive": {"init": 3.5, "min": 1.0, "max": 8.0, "warn_threshold": 6.0},
    "ultra_conservative": {"init": 2.0, "min": 0.5, "max": 3.0, "warn_threshold": 2.5},
    "fixed": {"init": 2.5, "learnable": False},
    "strong_fixed": {"init": 5.0, "learnable": False},
    "logit": {"init": 25.0, "min": 1.0, "max": 100.0, "space": "log", "warn_threshold": 80.0},
}
