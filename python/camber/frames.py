"""What a car's sensors delivered at one moment, as arrays."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from . import _doors

Array = Any  # a tensor, a numpy array, or nested lists of numbers


class Objects(NamedTuple):
    """True objects of a frame, in the frame of the LiDAR."""

    categories: list[str]  # such as "vehicle.car"
    boxes: Tensor  # double [M, 7]: centre, length, width, height, yaw
    velocity: Tensor  # double [M, 3], m/s; NaN where the tables do not tell
    lidar_points: Tensor  # int64 [M], inside the box


@dataclass
class Frame:
    """Points, images and calibration of one moment; arrays are numpy's or tensors.

    points [N, F] begin x, y, z (metres, LiDAR frame); None: no LiDAR. images: uint8 [H, W, 3] of each camera, None for one
    that delivers nothing. intrinsics [V, 3, 3] are of these images, lidar_to_camera [V, 4, 4] at the sensors' own times.
    Time stamps are microseconds. What the fields of points hold say intensity_index and time_lag_index (-1: none);
    intensity_scale times the stored number gives 0 to 1.

    >>> import numpy as np
    >>> frame = Frame(np.zeros((3, 4), np.float32), [np.zeros((90, 160, 3), np.uint8)],
    ...               np.eye(3)[None], np.eye(4)[None], intensity_index=3)
    >>> frame.camera_names
    ['camera_0']
    """

    points: Array | None = None
    images: Sequence[Array | None] = ()
    intrinsics: Array = ()
    lidar_to_camera: Array = ()
    camera_names: Sequence[str] = ()
    timestamp: int | None = None
    lidar_timestamp: int = 0
    camera_timestamps: Sequence[int] = ()
    lidar_to_ego: Array | None = None
    ego_to_global: Array | None = None
    intensity_index: int = 3
    intensity_scale: float = 1 / 255
    time_lag_index: int = -1
    channel_order: Literal["rgb", "bgr"] = "rgb"
    cues: Array | None = None  # [1 + V, 2]: age and level of the LiDAR and of each camera; a session makes them itself
    token: str = ""
    objects: Objects | None = None
    quality: list[float] = field(default_factory=list)  # true, of the LiDAR and of each camera; 1: sound

    def __post_init__(self) -> None:
        self.camera_names = list(self.camera_names) or [f"camera_{i}" for i in range(len(self.images))]
        self.camera_timestamps = list(self.camera_timestamps) or [0] * len(self.images)

    def door(self) -> Any:
        """The frame as the library takes it; raises ValueError or TypeError, in a sentence, for what it cannot be."""
        cameras = len(self.images)
        if self.channel_order not in ("rgb", "bgr"):
            raise ValueError(f"[detect] channel_order must be 'rgb' or 'bgr', got {self.channel_order!r}")
        for name in ("camera_names", "camera_timestamps"):
            if len(getattr(self, name)) != cameras:
                raise ValueError(
                    f"[detect] {name} must have one entry an image, {cameras}, got {len(getattr(self, name))}"
                )
        if len(set(self.camera_names)) != cameras:
            raise ValueError(f"[detect] camera_names must differ, got {list(self.camera_names)}")
        poses = torch.stack([_pose("lidar_to_ego", self.lidar_to_ego), _pose("ego_to_global", self.ego_to_global)])
        return _doors.make(
            "Frame",
            None if self.points is None else _points(self.points),
            self.intensity_index,
            float(self.intensity_scale),
            self.time_lag_index,
            operator.index(self.lidar_timestamp),
            None if self.timestamp is None else operator.index(self.timestamp),
            [_image(name, image) for name, image in zip(self.camera_names, self.images)],
            self.channel_order == "bgr",
            _numbers("intrinsics", self.intrinsics, (cameras, 3, 3)),
            _numbers("lidar_to_camera", self.lidar_to_camera, (cameras, 4, 4)),
            list(self.camera_names),
            torch.tensor([operator.index(t) for t in self.camera_timestamps], dtype=torch.int64),
            torch.tensor([image is not None for image in self.images], dtype=torch.bool),
            poses,
            None if self.cues is None else _numbers("cues", self.cues, (1 + cameras, 2)),
        )


def host_tensor(title: str, name: str, array: Array) -> Tensor:
    """An array of any kind as a tensor on the host; numpy's memory is shared where torch can read it as it lies."""
    strides, flags = getattr(array, "strides", None), getattr(array, "flags", None)
    # Mirrored views (BGR to RGB by [..., ::-1]) have no tensor, and torch warns of memory that must not be written.
    if isinstance(strides, tuple) and (any(s < 0 for s in strides) or not getattr(flags, "writeable", True)):
        array = array.copy()
    try:
        tensor = torch.as_tensor(array)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"[{title}] {name} must be an array of numbers, got {type(array).__name__}: {error}") from None
    return tensor.detach().cpu()


def _tensor(name: str, array: Array) -> Tensor:
    return host_tensor("detect", name, array)


def _numbers(name: str, array: Array, shape: tuple[int, ...]) -> Tensor:
    if isinstance(array, (list, tuple)) and len(array) > 0 and not isinstance(array[0], (int, float)):
        tensor = torch.stack([_tensor(name, part).double() for part in array])
    else:
        tensor = _tensor(name, array).double()
    if tensor.numel() == 0 and 0 in shape:
        tensor = tensor.reshape(shape)
    if tuple(tensor.shape) != shape:
        raise ValueError(f"[detect] {name} must be {list(shape)}, got {list(tensor.shape)}")
    if not bool(tensor.isfinite().all()):
        raise ValueError(f"[detect] {name} must be finite numbers, got {tensor[~tensor.isfinite()][0].item()}")
    return tensor


def _pose(name: str, matrix: Array | None) -> Tensor:
    return torch.eye(4, dtype=torch.float64) if matrix is None else _numbers(name, matrix, (4, 4))


def _points(array: Array) -> Tensor:
    points = _tensor("points", array)
    if points.dim() != 2 or points.shape[1] < 3:
        raise ValueError(f"[detect] points must be [N, F] with F of at least 3, got {list(points.shape)}")
    return points.float()


def _image(name: str, array: Array | None) -> Tensor:
    if array is None:
        return torch.empty(0, dtype=torch.uint8)
    image = _tensor("images", array)
    if image.dtype != torch.uint8 or image.dim() != 3 or image.shape[2] != 3 or image.numel() == 0:
        raise ValueError(
            f"[detect] the image of {name!r} must be uint8 [H, W, 3], got {str(image.dtype)[6:]} {list(image.shape)}"
        )
    return image
