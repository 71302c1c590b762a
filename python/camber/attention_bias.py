"""Trust and a bounded scale turned into a structured bias, for the cross-attention of a CMT- or PETR-like decoder."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from ._state import unrounded
from .bounded_scale import BoundedScale
from .sensors import BevGrid, CameraMap, Matrices, host_matrices, object_window_sizes, project
from .structured_bias import (
    Segments,
    StructuredBias,
    WindowForm,
    WindowIndex,
    Windows,
    in_float,
    once,
    segment_offsets,
    window_profile,
)

# Instead of a clip: the scale's max, whatever it is at the moment.
_SCALE_MAX = -1.0
_REFERENCE_GRID, _REFERENCE_CAMERA = BevGrid(), CameraMap()
ScaleSharing = Literal["shared", "per_modality", "per_layer", "per_head"]


@dataclass(frozen=True)
class BiasWindows:
    """Windows round the queries' positions, made once and shared by all layers and heads."""

    index: WindowIndex
    profile: Tensor  # float [nnz]: g(d)
    offsets: Tensor  # int64 [M+1]: the keys of each map
    shape: tuple[int, int, int]  # (B, Q, K)


def _check_range(trust: Tensor) -> None:
    """Beyond 1 a weight would carry the bias past the scale's max, where the clip kills the gradients of both.

    NaN is passed on: a training that skips broken steps must see it.
    """
    outside = trust.abs() > 1
    if torch.compiler.is_compiling():
        torch._assert_async(~outside.any(), "[AttentionBias] trust must lie in [-1, 1]")
    elif bool(outside.any()):
        worst = trust.flatten()[trust.abs().nan_to_num(0).argmax()].item()
        raise ValueError(f"[AttentionBias] trust must lie in [-1, 1], got {worst}")


class AttentionBias(torch.nn.Module):
    """Reference points, camera matrices and trust in, a `StructuredBias` out.

    windows: value = g(d) * clip(trust * scale, +-c) on the cells round the query's position, on the grid for the trust in
    LiDAR and in every camera that sees the point for the trust in the cameras; nothing elsewhere. segments: value =
    clip(trust * segment_scale) on all keys of the grid and of each camera. locality=True gives the windows a bias of
    their own, g(d) * clip(locality_scale + trust * scale, +-c), and window_trust=False leaves them that alone: trust
    then moves the segments only. It is the form for training from scratch, where trust would else learn to mean
    locality.

    Keys are ordered as in CMT: the grid row by row, then every camera's map row by row. grid=None leaves the grid out
    (PETR), camera=None the cameras. point_range = (x_min, y_min, z_min, x_max, y_max, z_max) says that reference points
    come in [0, 1] and what they span (CMT's pc_range). trust is [B, Q, X]: LiDAR, then one for all cameras, or one a
    camera with per_camera, and lies in [-1, 1], which is checked: then the bias stays within the scale, and a clip of
    the scale's max or more leaves every gradient alive; beyond a smaller clip trust and scale have none. No gradient
    flows through reference points: cells are whole numbers.

    scale, segment_scale and locality_scale are the options of their `BoundedScale`. Call `project_scales` after each step. The clip
    that a schedule has set is saved (buffer `clip_in_force`, -1: the scale's max) and loaded with the scales; a state
    without it means the constructor's clip, and one with a clip that the constructor never named is warned of.

    >>> import torch, camber
    >>> bias = camber.AttentionBias(camber.BevGrid(-8, 8, -8, 8, cell=1), camber.CameraMap(64, 32, 16, 8), camera_window=3)
    >>> matrix = torch.tensor([[20.0, 32, 0, 0], [0, 16, -20, 0], [0, 1, 0, 0], [0, 0, 0, 1]])    # looks along +y
    >>> points = torch.tensor([[[0.5, 4.0, 0.0], [0.5, -4.0, 0.0]]])                 # before and behind the camera
    >>> trust = torch.full((1, 2, 2), 0.8, requires_grad=True)
    >>> structured = bias(points, matrix[None, None], trust)
    >>> structured.windows.row_offsets.tolist(), structured.segments.offsets.tolist()
    ([0, 34, 59], [0, 256, 384])
    >>> structured.windows.value.unique().tolist()
    [2.0]
    """

    scale: BoundedScale
    clip_in_force: Tensor

    def __init__(
        self,
        grid: BevGrid | None = _REFERENCE_GRID,
        camera: CameraMap | None = _REFERENCE_CAMERA,
        *,
        windows: bool = True,
        segments: bool = False,
        locality: bool = False,
        window_trust: bool = True,
        per_camera: bool = False,
        form: WindowForm = "box",
        bev_window: int = 5,
        camera_window: int = 15,
        clip: float | None = None,
        clip_schedule: Sequence[tuple[int, float]] = (),
        sharing: ScaleSharing = "shared",
        num_layers: int = 6,
        num_heads: int = 8,
        point_range: Sequence[float] | None = None,
        value_dtype: torch.dtype = torch.float32,
        scale: Mapping[str, Any] | None = None,
        segment_scale: Mapping[str, Any] | None = None,
        locality_scale: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.grid, self.camera, self.per_camera = grid, camera, per_camera
        self.windows, self.segments, self.form = windows, segments, form
        self.locality, self.window_trust = locality, window_trust
        self.bev_window, self.camera_window = bev_window, camera_window
        self.clip_option, self.clip_schedule, self.value_dtype = clip, tuple(clip_schedule), value_dtype
        self.sharing, self.num_layers, self.num_heads = sharing, num_layers, num_heads
        self.point_range = tuple(point_range) if point_range is not None else None
        self._check()
        self.register_buffer("clip_in_force", torch.empty((), dtype=torch.float64))
        self.reset_parameters()
        self.scale = BoundedScale(**self._with_shape("scale", scale or {}))
        first = clip if clip is not None else self.scale.bounds_at(epoch=0, step=0)[1]
        largest = max(first, *(value for _, value in self.clip_schedule), 0.0)
        if value_dtype == torch.float16 and largest > 10:
            raise ValueError(
                "[AttentionBias] clip must be at most 10 in half precision, where exp overflows beyond 11.09, got "
                f"{largest}"
            )
        self.segment_scale: BoundedScale | None = None
        if segments:
            defaults = {"init": 2.5, "min": 0.0, "max": 10.0, "warn_threshold": 8.0}
            self.segment_scale = BoundedScale(
                **self._with_shape("segment_scale", {**defaults, **(segment_scale or {})})
            )
        self.locality_scale: BoundedScale | None = None
        if locality:
            defaults = {"init": 2.5, "min": 0.0, "max": 5.0, "warn_threshold": 4.5}
            self.locality_scale = BoundedScale(
                **self._with_shape("locality_scale", {**defaults, **(locality_scale or {})})
            )

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """The clip of the start. A bias made on the meta device needs it after `to_empty`, as its scales do."""
        self.clip_in_force.fill_(_SCALE_MAX if self.clip_option is None else self.clip_option)

    def forward(
        self,
        reference_points: Tensor,
        lidar2img: Matrices | None,
        trust: Tensor,
        *,
        layer: int = 0,
        available: Tensor | None = None,
        boxes: Tensor | None = None,
    ) -> StructuredBias:
        """The bias of one decoder layer: `from_windows` at the windows of `windows_at`."""
        return self.from_windows(
            trust, self.windows_at(reference_points, lidar2img, available=available, boxes=boxes), layer=layer
        )

    @torch.no_grad()
    def windows_at(
        self,
        reference_points: Tensor,
        lidar2img: Matrices | None = None,
        *,
        available: Tensor | None = None,
        boxes: Tensor | None = None,
    ) -> BiasWindows:
        """The windows of queries at reference points [B, Q, 3] (metres, LiDAR frame, or [0, 1] with point_range).

        lidar2img [B, V, 4, 4] takes LiDAR points onto the network's image: a tensor, an array, or lists of them as
        mmdetection3d's img_metas hold them (for each element of the batch a list of one 4 x 4 array a camera). Maps that available [B, M] calls absent get
        no window. With boxes [B, Q, 7] = (cx, cy, cz, length, width, height, yaw) the windows follow the objects: the
        smallest odd size that covers the projected box, within 3 .. 31.

        >>> import torch, camber
        >>> bias = camber.AttentionBias(camera=None, point_range=(-51.2, -51.2, -5, 51.2, 51.2, 3))
        >>> placed = bias.windows_at(torch.full((1, 1, 3), 0.5))
        >>> placed.index.key_index.numel(), placed.shape
        (25, (1, 1, 16384))
        """
        points, matrices = self._checked(reference_points, lidar2img)
        cells = []
        if self.grid is not None:
            cells.append(self.grid.cells_at(points).unsqueeze(2))
        if self.camera is not None:
            cells.append(self.camera.cells_at(project(points, matrices)))
        center = torch.cat(cells, 2)  # [B, Q, M, 2]
        if available is not None:
            if available.dtype != torch.bool or available.shape != (center.shape[0], center.shape[2]):
                raise ValueError(
                    f"[AttentionBias] available must be bool [B, M] = {[center.shape[0], center.shape[2]]}, got "
                    f"{available.dtype} {list(available.shape)}"
                )
            center = center.where(available.cpu()[:, None, :, None], -1)
        if boxes is not None:
            sizes = object_window_sizes(boxes.detach().cpu().double(), self.grid, self.camera, matrices)
        else:
            sizes = self._fixed_sizes(center.shape[2]).expand(center.shape[:3]).contiguous()
        maps = self._map_shapes(matrices.shape[1])
        # Sizes that follow boxes are known when the graph runs, not when it is compiled.
        if not torch.compiler.is_compiling():
            self._warn_of_wide_windows(sizes, maps)
        shapes = torch.tensor(maps, dtype=torch.int64)
        index = WindowIndex(*torch.ops.camber.build_windows(center, sizes, shapes))
        shape = (center.shape[0], center.shape[1], sum(columns * rows for columns, rows in maps))
        return BiasWindows(index, window_profile(index, sizes, self.form), segment_offsets(shapes), shape)

    def from_windows(self, trust: Tensor, placed: BiasWindows, *, layer: int = 0) -> StructuredBias:
        """The bias of a layer from trust [B, Q, X]; differentiable in trust and in the scales."""
        maps = placed.offsets.shape[0] - 1
        windows: Windows | None = None
        if self.windows:
            strength = self.strength(trust, maps, layer=layer)
            value = torch.ops.camber.window_values(
                strength, placed.profile.to(strength.dtype), placed.index.row_offsets, placed.index.map_index
            )
            windows = Windows(placed.index.row_offsets, placed.index.key_index, once(self._hand_over(value)))
        segment_value: Tensor | None = None
        if self.segment_scale is not None:
            bias = self._weights_by_map(trust, maps) * self._factor(self.segment_scale(), maps, layer)
            limit = self.segment_scale.bounds[1].to(bias.dtype)
            segment_value = once(self._hand_over(bias.clamp(-limit, limit).transpose(0, 1)))
        return StructuredBias(windows, Segments(placed.offsets, segment_value), placed.shape)

    def strength(self, trust: Tensor, maps: int, *, layer: int = 0) -> Tensor:
        """clip(trust * scale, +-c), or with locality clip(locality_scale + trust * scale, +-c), per map, [Hb, B*Q, M]:
        the effective bias without the window's profile."""
        weights = self._weights_by_map(trust, maps)
        bias = weights * self._factor(self.scale(), maps, layer) if self.window_trust else torch.zeros_like(weights)
        if self.locality_scale is not None:
            bias = bias + self._factor(self.locality_scale(), maps, layer)
        limit = self._clip_tensor().to(bias.dtype)
        return bias.clamp(-limit, limit).flatten(1, 2)

    @property
    def clip(self) -> float:
        """The clip in force: the schedule's, the option's, or the scale's max."""
        return float(self._clip_tensor())

    def apply_schedule(self, epoch: int = 0, step: int = 0) -> None:
        """Takes the clip and the scales' bounds for this epoch and step."""
        self.scale.apply_schedule(epoch, step)
        for scale in (self.segment_scale, self.locality_scale):
            if scale is not None:
                scale.apply_schedule(epoch, step)
        for from_epoch, clip in self.clip_schedule:
            if epoch >= from_epoch:
                self.clip_in_force.fill_(clip)

    def penalty(self) -> Tensor:
        """The penalties of the scales, to add to the loss."""
        penalty = self.scale.penalty()
        for scale in (self.segment_scale, self.locality_scale):
            if scale is not None:
                penalty = penalty + scale.penalty()
        return penalty

    def _clip_tensor(self) -> Tensor:
        return self.clip_in_force.where(self.clip_in_force >= 0, self.scale.bounds[1])

    def _apply(self, fn: Any, recurse: bool = True) -> AttentionBias:
        before = self.clip_in_force
        super()._apply(fn, recurse)
        self.clip_in_force = unrounded(before, self.clip_in_force)
        return self

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *arguments: Any) -> None:
        said = [_SCALE_MAX if self.clip_option is None else float(self.clip_option)]
        said += [float(clip) for _, clip in self.clip_schedule]
        # A state that was saved before the clip was kept means the constructor's.
        state_dict.setdefault(prefix + "clip_in_force", torch.tensor(said[0], dtype=torch.float64))
        super()._load_from_state_dict(state_dict, prefix, *arguments)
        written = state_dict[prefix + "clip_in_force"]
        loaded = said[0] if written.is_meta else float(written)
        if loaded not in said:
            own, constructed = (clip if clip >= 0 else "the scale's max" for clip in (loaded, said[0]))
            warnings.warn(f"[AttentionBias] clip is {own} as loaded, the constructor said {constructed}", stacklevel=2)

    def _weights_by_map(self, trust: Tensor, maps: int) -> Tensor:
        """[1, B, Q, M]: the weight of each map's sensor, float whatever came (a router under autocast), or double."""
        grids = int(self.grid is not None)
        cameras = maps - grids
        sensors = maps if self.per_camera else grids + int(self.camera is not None)
        if trust.dim() != 3 or trust.shape[2] != sensors:
            raise ValueError(f"[AttentionBias] trust must be [B, Q, {sensors}], got {list(trust.shape)}")
        _check_range(trust.detach())
        if not self.per_camera and cameras > 0:
            trust = torch.cat((trust[..., :grids], trust[..., grids:].expand(-1, -1, cameras)), 2)
        return in_float(trust).unsqueeze(0)

    def _factor(self, value: Tensor, maps: int, layer: int) -> Tensor:
        """The scale as a factor of [Hb, B, Q, M]."""
        if self.sharing == "per_modality":
            grids = int(self.grid is not None)
            return torch.cat((value[:grids], value[grids:].expand(maps - grids))) if maps > grids else value
        if self.sharing == "per_layer":
            return value[layer]
        return value.view(-1, 1, 1, 1) if self.sharing == "per_head" else value

    def _hand_over(self, value: Tensor) -> Tensor:
        """Values are computed in float and handed over in the type asked for; double stays double."""
        return value if value.dtype == torch.float64 else value.to(self.value_dtype)

    def _with_shape(self, name: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options of a scale with the shape that `sharing` asks for. A shared one may be [1]: FSDP2 shards no []."""
        modalities = int(self.grid is not None) + int(self.camera is not None)
        shapes = {"per_modality": (modalities,), "per_layer": (self.num_layers,), "per_head": (self.num_heads,)}
        wanted = shapes.get(self.sharing, ())
        given = tuple(options.get("shape", wanted))
        if given not in (wanted, wanted or (1,)):
            raise ValueError(
                f"[AttentionBias] shape of {name} must be {list(wanted)}{'' if wanted else ' or [1]'} for sharing = "
                f"{self.sharing!r}, got {list(given)}"
            )
        return {**options, "shape": given}

    def _fixed_sizes(self, maps: int) -> Tensor:
        grids = [self.bev_window] if self.grid is not None else []
        return torch.tensor(grids + [self.camera_window] * (maps - len(grids)), dtype=torch.int32)

    def _map_shapes(self, cameras: int) -> list[tuple[int, int]]:
        shapes = [(self.grid.columns, self.grid.rows)] if self.grid is not None else []
        if self.camera is not None:
            shapes += [(self.camera.columns, self.camera.rows)] * cameras
        return shapes

    def _checked(self, points: Tensor, lidar2img: Matrices | None) -> tuple[Tensor, Tensor]:
        """Points in metres and matrices, both double on the host."""
        if points.dim() != 3 or points.shape[2] != 3:
            raise ValueError(f"[AttentionBias] reference_points must be [B, Q, 3], got {list(points.shape)}")
        host = points.detach().cpu().double()
        if self.point_range is not None:
            low, high = host.new_tensor(self.point_range).view(2, 3)
            host = host * (high - low) + low
        if self.camera is None:
            return host, host.new_zeros(points.shape[0], 0, 4, 4)
        matrices = None if lidar2img is None else host_matrices(lidar2img)
        if (
            matrices is None
            or matrices.dim() != 4
            or matrices.shape[0] != points.shape[0]
            or (matrices.shape[2:] != (4, 4))
        ):
            raise ValueError(
                f"[AttentionBias] lidar2img must be [B, V, 4, 4] with B = {points.shape[0]}, got "
                f"{None if matrices is None else list(matrices.shape)}"
            )
        return host, matrices

    def _warn_of_wide_windows(self, sizes: Tensor, maps: Sequence[tuple[int, int]]) -> None:
        if sizes.numel() == 0 or not self.windows:
            return
        for m, (largest, (columns, rows)) in enumerate(zip(sizes.amax((0, 1)).tolist(), maps)):
            if 4 * min(largest, columns) * min(largest, rows) > columns * rows:
                warnings.warn(
                    f"[AttentionBias] a window of {largest} x {largest} cells covers more than a quarter of map {m} "
                    f"({columns} x {rows}): it hardly tells one position from another",
                    stacklevel=4,
                )

    def _check(self) -> None:
        if self.grid is None and self.camera is None:
            raise ValueError("[AttentionBias] grid and camera must not both be None: there would be no keys")
        for name in ("bev_window", "camera_window"):
            size = getattr(self, name)
            if size < 1 or size % 2 == 0:
                raise ValueError(
                    f"[AttentionBias] {name} must be odd, so that the window has a centre cell, got {size}"
                )
        if self.locality and not self.windows:
            raise ValueError("[AttentionBias] locality must be False without windows, which hold it, got True")
        if not self.window_trust and not self.locality:
            raise ValueError(
                "[AttentionBias] window_trust must be True without locality (windows=False leaves the windows out), "
                "got False"
            )
        if self.form not in ("box", "gaussian"):
            raise ValueError(f"[AttentionBias] form must be 'box' or 'gaussian', got {self.form!r}")
        if self.sharing not in ("shared", "per_modality", "per_layer", "per_head"):
            raise ValueError(
                f"[AttentionBias] sharing must be shared, per_modality, per_layer or per_head, got {self.sharing!r}"
            )
        if self.point_range is not None and len(self.point_range) != 6:
            raise ValueError(f"[AttentionBias] point_range must have 6 numbers, got {len(self.point_range)}")
        for clip in (self.clip_option, *(clip for _, clip in self.clip_schedule)):
            if clip is not None and not clip >= 0:
                raise ValueError(f"[AttentionBias] clip must be at least 0, got {clip}")
        epochs = [epoch for epoch, _ in self.clip_schedule]
        if epochs != sorted(set(epochs)):
            raise ValueError(f"[AttentionBias] clip_schedule must be sorted by epoch, got epochs {epochs}")
