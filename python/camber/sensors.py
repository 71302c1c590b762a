"""The maps that keys lie on: one bird's-eye grid and the feature maps of the cameras; where points fall on them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

Matrices = Any  # a tensor, an array, or lists of them; numpy is not needed and has no name here
MINIMUM_DEPTH = 0.1  # metres; a point nearer than this counts as not seen
_SMALLEST_OBJECT_WINDOW, _LARGEST_OBJECT_WINDOW = 3, 31


def _cells_that_fill(axis: str, low: float, high: float, cell: float) -> int:
    count = (high - low) / cell
    whole = round(count) if math.isfinite(count) else 0
    if whole >= 1 and abs(count - whole) <= 1e-9 * whole:
        return whole
    raise ValueError(
        f"[BevGrid] range of {axis} must be filled by whole cells, got {low} to {high} m in cells of {cell} m "
        f"({count:g} cells)"
    )


@dataclass(frozen=True)
class BevGrid:
    """The bird's-eye grid: column = floor((x - x_min) / cell), row = floor((y - y_min) / cell), key = row * columns +
    column; the upper border belongs to the last cell. A range that its cells do not fill is refused.

    >>> import camber
    >>> grid = camber.BevGrid(-51.2, 51.2, -51.2, 51.2, cell=0.8)
    >>> grid.columns, grid.rows
    (128, 128)
    """

    x_min: float = -51.2
    x_max: float = 51.2
    y_min: float = -51.2
    y_max: float = 51.2
    cell: float = 0.8
    columns: int = field(init=False, repr=False, compare=False)
    rows: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.cell > 0:
            raise ValueError(f"[BevGrid] cell must be above 0 m, got {self.cell}")
        # Counted once, so that a compiler meets whole numbers and not the count of them. The class is frozen.
        object.__setattr__(self, "columns", _cells_that_fill("x", self.x_min, self.x_max, self.cell))
        object.__setattr__(self, "rows", _cells_that_fill("y", self.y_min, self.y_max, self.cell))

    def cells_at(self, points: Tensor) -> Tensor:
        """(column, row) of points [..., 2 or 3], int64 [..., 2]; -1 where the grid does not hold the point."""
        x, y = points[..., 0], points[..., 1]
        inside = (x >= self.x_min) & (x <= self.x_max) & (y >= self.y_min) & (y <= self.y_max)
        column = ((x - self.x_min) / self.cell).floor().clamp(max=self.columns - 1)
        row = ((y - self.y_min) / self.cell).floor().clamp(max=self.rows - 1)
        return torch.stack((column, row), -1).where(inside.unsqueeze(-1), -1.0).to(torch.int64)


@dataclass(frozen=True)
class CameraMap:
    """One camera as the network sees it: the image that enters the network and the feature map that comes out.

    >>> import camber
    >>> camber.CameraMap(width=800, height=320, columns=50, rows=20).keys
    1000
    """

    width: int = 800
    height: int = 320
    columns: int = 50
    rows: int = 20

    def __post_init__(self) -> None:
        for name in ("width", "height", "columns", "rows"):
            if getattr(self, name) < 1:
                raise ValueError(f"[CameraMap] {name} must be at least 1, got {getattr(self, name)}")

    @property
    def keys(self) -> int:
        return self.columns * self.rows

    def cells_at(self, image: Projection) -> Tensor:
        """(column, row) of projected points, int64 [..., 2]; -1 where the camera does not see the point."""
        u, v, depth = image
        seen = (depth > MINIMUM_DEPTH) & (u >= 0) & (u < self.width) & (v >= 0) & (v < self.height)
        # A stride that is no whole number may round the last pixel up to the border.
        column = (u / (self.width / self.columns)).floor().clamp(max=self.columns - 1)
        row = (v / (self.height / self.rows)).floor().clamp(max=self.rows - 1)
        return torch.stack((column, row), -1).where(seen.unsqueeze(-1), -1.0).to(torch.int64)


def host_matrices(lidar2img: Matrices) -> Tensor:
    """Matrices as one double tensor on the host, from a tensor, an array, or lists of them.

    >>> import numpy
    >>> host_matrices([[numpy.eye(4), numpy.eye(4)]]).shape
    torch.Size([1, 2, 4, 4])
    """
    if isinstance(lidar2img, Tensor):
        return lidar2img.detach().cpu().double()
    try:
        if isinstance(lidar2img, (list, tuple)):
            return torch.stack([host_matrices(part) for part in lidar2img])
        return torch.as_tensor(lidar2img, dtype=torch.float64, device="cpu")
    except (RuntimeError, TypeError, ValueError) as reason:
        raise ValueError(
            "[AttentionBias] lidar2img must be a tensor, an array or lists of 4 x 4 arrays, as many for each element of the "
            f"batch, got {type(lidar2img).__name__} ({str(reason).splitlines()[0]})"
        ) from None


class Projection(NamedTuple):
    """Points on the network's image, each [..., V]."""

    u: Tensor
    v: Tensor
    depth: Tensor


def project(points: Tensor, lidar2img: Tensor) -> Projection:
    """Points [B, Q, 3] through matrices [B, V, 4, 4]: p = M (x, y, z, 1); u = p0 / p2, v = p1 / p2, depth = p2.

    >>> import torch
    >>> matrix = torch.tensor([[100.0, 0, 50, 0], [0, 100.0, 50, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    >>> project(torch.tensor([[[0.5, 0.2, 2.0]]]), matrix[None, None]).u
    tensor([[[75.]]])
    """
    x, y, z = points.unsqueeze(2).unbind(-1)  # [B, Q, 1]
    rows = lidar2img.unsqueeze(1).unbind(-2)  # [B, 1, V, 4] each

    def along(row: Tensor) -> Tensor:
        m0, m1, m2, m3 = row.unbind(-1)
        return m0 * x + m1 * y + m2 * z + m3

    depth = along(rows[2])
    divisor = depth.where(depth != 0, 1.0)
    return Projection(along(rows[0]) / divisor, along(rows[1]) / divisor, depth)


def _odd_cover(cells: Tensor) -> Tensor:
    """The smallest odd number of cells that covers a length given in cells, within 3 .. 31."""
    size = cells.clamp(1, _LARGEST_OBJECT_WINDOW).ceil().to(torch.int32)
    return (size + (size % 2 == 0).to(torch.int32)).clamp(_SMALLEST_OBJECT_WINDOW, _LARGEST_OBJECT_WINDOW)


def _corners(boxes: Tensor) -> Tensor:
    """The eight corners [B, Q * 8, 3] of boxes [B, Q, 7] = (cx, cy, cz, length, width, height, yaw)."""
    center, size, yaw = boxes[..., :3], boxes[..., 3:6], boxes[..., 6]
    signs = torch.cartesian_prod(*[boxes.new_tensor([-0.5, 0.5])] * 3)  # [8, 3]
    x, y, z = (signs * size.unsqueeze(2)).unbind(-1)  # [B, Q, 8]
    c, s = yaw.cos().unsqueeze(2), yaw.sin().unsqueeze(2)
    turned = torch.stack((c * x - s * y, s * x + c * y, z), -1)
    return (center.unsqueeze(2) + turned).flatten(1, 2)


def object_window_sizes(boxes: Tensor, grid: BevGrid | None, camera: CameraMap | None, lidar2img: Tensor) -> Tensor:
    """Window sizes, int32 [B, Q, M]: the smallest odd number of cells that covers the diagonal of the projected box."""
    sizes = []
    if grid is not None:
        sizes.append(_odd_cover(torch.hypot(boxes[..., 3], boxes[..., 4]) / grid.cell).unsqueeze(-1))
    if camera is not None:
        seen = project(_corners(boxes), lidar2img)
        u, v, depth = (part.unflatten(1, (-1, 8)) for part in seen)  # [B, Q, 8, V]
        before = depth > MINIMUM_DEPTH

        def extent(values: Tensor) -> Tensor:
            return values.where(before, -math.inf).amax(2) - values.where(before, math.inf).amin(2)

        strides = camera.width / camera.columns, camera.height / camera.rows
        diagonal = torch.hypot(extent(u) / strides[0], extent(v) / strides[1])
        sizes.append(_odd_cover(diagonal.where(before.any(2), 0.0)))
    return torch.cat(sizes, -1)
