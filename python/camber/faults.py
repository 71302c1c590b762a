"""Sensor faults: on a copy of a data set, on a frame of one, on single arrays; and errors of the cues.

>>> import torch, camber
>>> image = torch.full((90, 160, 3), 128, dtype=torch.uint8)
>>> bool(camber.faults.degrade_image(image, "dark:5").float().mean() < 64)
True
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from . import _doors
from .frames import Array, host_tensor

__all__ = ["copy", "degrade_cues", "degrade_image", "degrade_points", "table"]


def table() -> dict[str, list[dict[str, Any]]]:
    """What `camber faults --list` prints: the rows of "faults" (of sensors) and of "cue_errors".

    >>> import camber
    >>> [row["name"] for row in camber.faults.table()["cue_errors"]]
    ['false_alarms', 'misses', 'wrong_culprit', 'burst']
    >>> next(row["values"] for row in camber.faults.table()["faults"] if row["name"] == "frozen")
    [1.0, 2.0, 3.0, 5.0, 8.0]
    """
    rows: dict[str, list[dict[str, Any]]] = _doors.answer_of("faults", list=True)
    return rows


def copy(
    data: str | os.PathLike[str],
    out: str | os.PathLike[str],
    faults: str,
    *,
    version: str = "v1.0-simulated",
    split: str | None = None,
    seed: int = 0,
    threads: int = 0,
) -> dict[str, Any]:
    """Writes a copy of a data set in which the faults happened to every key frame of the split (all without one).

    faults: a list such as "frozen:4:other_scene,beams:3". Same tables and annotations; files that no fault touched are
    hard links where the disk allows it. Returns counts of frames and files.

    >>> import tempfile, camber
    >>> world, broken = tempfile.mkdtemp(), tempfile.mkdtemp()
    >>> _ = camber.simulate(world, scenes=5, seed=7, settings={"world.frames": 1})
    >>> camber.faults.copy(world, broken, "dark:3")["frames"]
    5
    """
    answer: dict[str, Any] = _doors.answer_of(
        "faults",
        data=Path(data),
        out=Path(out),
        faults=faults,
        version=version,
        split=split,
        seed=seed,
        threads=threads,
    )
    return answer


def degrade_image(image: Array, fault: str, *, seed: int = 0) -> Tensor:
    """An image uint8 [H, W, 3] after a fault that degrades images: black, dark, noise, blur or rain, such as "rain:4".

    >>> import torch, camber
    >>> image = torch.full((90, 160, 3), 128, dtype=torch.uint8)
    >>> camber.faults.degrade_image(image, "black").max().item()
    0
    """
    tensor = host_tensor("faults", "image", image)
    if tensor.dtype != torch.uint8 or tensor.dim() != 3 or tensor.shape[2] != 3:
        raise ValueError(f"[faults] image must be uint8 [H, W, 3], got {str(tensor.dtype)[6:]} {list(tensor.shape)}")
    _doors.load()
    degraded: Tensor = torch.ops.camber_program.degrade_image(tensor, fault, seed)
    return degraded


def degrade_points(
    points: Array,
    fault: str,
    *,
    objects: Array | None = None,
    ahead: tuple[float, float, float] = (0.0, 1.0, 0.0),
    seed: int = 0,
) -> Tensor:
    """A cloud [N, 6] (x, y, z, intensity 0..255, ring, seconds before the frame) after a fault that degrades clouds.

    Those are empty, ghost, beams, limited_view, dropped_objects, dropped_points and shift. objects [M, 7]: the boxes that
    dropped_objects looks at (centre, length, width, height, yaw); ahead: where the car looks, for limited_view.

    >>> import torch, camber
    >>> cloud = torch.rand(100, 6)
    >>> len(camber.faults.degrade_points(cloud, "dropped_points:3")) < 100
    True
    """
    cloud = host_tensor("faults", "points", points).float()
    if cloud.dim() != 2 or cloud.shape[1] != 6:
        raise ValueError(f"[faults] points must be [N, 6], got {list(cloud.shape)}")
    boxes = torch.zeros(0, 7) if objects is None else host_tensor("faults", "objects", objects)
    if boxes.dim() != 2 or boxes.shape[1] != 7:
        raise ValueError(f"[faults] objects must be [M, 7], got {list(boxes.shape)}")
    look = torch.tensor(ahead, dtype=torch.float64)
    if look.shape != (3,):
        raise ValueError(f"[faults] ahead must be 3 numbers, got {list(look.shape)}")
    _doors.load()
    degraded: Tensor = torch.ops.camber_program.degrade_points(cloud, fault, boxes.double(), look, seed)
    return degraded


def degrade_cues(
    cues: Array,
    errors: str,
    *,
    available: Array | None = None,
    scene: int = 0,
    frame: int = 0,
    seed: int = 0,
) -> Tensor:
    """Cues [1 + V, 2] (age and level of the LiDAR and of each camera, `Frame.cues`) that err, such as "misses:0.1,burst:4".

    available [1 + V] bool: sensors that deliver nothing are left alone. Errors are drawn by seed, scene and frame: with
    the number of the scene in its table and of the frame in its scene they are those of `camber eval --cue-errors`.

    >>> import torch, camber
    >>> sound = torch.zeros(7, 2)
    >>> camber.faults.degrade_cues(sound, "false_alarms:1")[:, 0].tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    """
    numbers = host_tensor("faults", "cues", cues).double()
    if numbers.dim() != 2 or numbers.shape[1] != 2:
        raise ValueError(f"[faults] cues must be [1 + V, 2], got {list(numbers.shape)}")
    delivers = torch.ones(len(numbers)) if available is None else host_tensor("faults", "available", available)
    if delivers.shape != (len(numbers),):
        raise ValueError(f"[faults] available must be [{len(numbers)}], got {list(delivers.shape)}")
    if scene < 0 or frame < 0:
        raise ValueError(f"[faults] scene and frame must be at least 0, got {scene} and {frame}")
    _doors.load()
    degraded: Tensor = torch.ops.camber_program.degrade_cues(numbers, errors, delivers.bool(), scene, frame, seed)
    return degraded
