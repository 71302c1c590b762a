"""Data sets of your own sensors in the nuScenes schema, from arrays.

>>> import tempfile, numpy, camber
>>> folder = tempfile.mkdtemp()
>>> rig = [camber.RigSensor("LIDAR_TOP", (0.9, 0, 1.8)),
...        camber.RigSensor("CAM_FRONT", (1.7, 0, 1.5), (0.5, -0.5, 0.5, -0.5), intrinsic=(180, 180, 120, 48), size=(240, 96))]
>>> writer = camber.DatasetWriter(folder + "/own", rig)
>>> with writer.scene("scene-0001") as scene:
...     for frame in range(3):
...         time, pose = 1_700_000_000_000_000 + 500_000 * frame, ((5.0 * frame, 0, 0), (1, 0, 0, 0))
...         scene.begin_frame(time)
...         scene.add_points("LIDAR_TOP", time, pose, numpy.ones((60, 5), numpy.float32))
...         scene.add_image("CAM_FRONT", time - 20_000, pose, numpy.zeros((96, 240, 3), numpy.uint8))
...         scene.add_box("17", "vehicle.car", (5.0 * frame + 2, 1, 2.8), (1.9, 4.5, 2.5), attributes=["vehicle.moving"])
>>> writer.finish({"train": ["scene-0001"]})["boxes"]
3
>>> len(camber.nuscenes.Dataset(folder + "/own", "v1.0-own").samples("train"))
3
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

import torch
from typing_extensions import Self

from . import _doors

__all__ = ["DatasetWriter", "RigSensor", "SceneWriter"]

Pose = tuple[Sequence[float], Sequence[float]]
"""Translation in metres and quaternion (w, x, y, z), ego frame to global frame."""


@dataclasses.dataclass(frozen=True)
class RigSensor:
    """A sensor and where it sits on the car; with a size it is a camera, without one a LiDAR.

    Args:
        channel: its name.
        translation: sensor to ego frame, metres.
        rotation: sensor to ego frame, quaternion (w, x, y, z).
        intrinsic: of a camera: fx, fy, cx, cy in pixels of the image as stored.
        size: of a camera: width and height of its images.
    """

    channel: str
    translation: Sequence[float] = (0.0, 0.0, 0.0)
    rotation: Sequence[float] = (1.0, 0.0, 0.0, 0.0)
    intrinsic: Sequence[float] | None = None
    size: tuple[int, int] | None = None

    def _row(self) -> list[float]:
        if (self.intrinsic is None) != (self.size is None):
            raise ValueError(f"[RigSensor] intrinsic and size of {self.channel} must be given together")
        if len(self.translation) != 3 or len(self.rotation) != 4:
            raise ValueError(f"[RigSensor] translation and rotation of {self.channel} must have 3 and 4 numbers")
        if self.intrinsic is not None and len(self.intrinsic) != 4:
            raise ValueError(f"[RigSensor] intrinsic of {self.channel} must be fx, fy, cx, cy, got {self.intrinsic}")
        camera = [*(self.intrinsic or (0, 0, 0, 0)), 0, *(self.size or (0, 0))]
        return [float(number) for number in (*self.translation, *self.rotation, *camera)]


def _numbers(pose: Pose) -> list[float]:
    translation, rotation = pose
    return [float(number) for number in (*translation, *rotation)]


class SceneWriter:
    """One scene as it is written, key frame by key frame in the order of time; made by `DatasetWriter.scene`.

    As a context it is finished at the end of the block.
    """

    def __init__(self, scene: Any) -> None:
        self._scene = scene

    def begin_frame(self, timestamp: int) -> None:
        """Begins a key frame, at this time in microseconds; what follows belongs to it."""
        self._scene.begin_frame(timestamp)

    def add_points(self, channel: str, timestamp: int, pose: Pose, points: Any, *, key_frame: bool = True) -> None:
        """A LiDAR's points, float [n, 5]: x, y, z in metres in its frame, intensity 0 to 255, ring."""
        rows = torch.as_tensor(points)
        if rows.ndim != 2 or rows.shape[1] != 5:
            raise ValueError(f"[DatasetWriter] points must be [n, 5], got {list(rows.shape)}")
        self._scene.add_points(channel, timestamp, _numbers(pose), rows, key_frame)

    def add_image(self, channel: str, timestamp: int, pose: Pose, image: Any, *, key_frame: bool = True) -> None:
        """A camera's image, uint8 [height, width, 3] of red, green and blue, or the bytes of a JPEG file."""
        if isinstance(image, (bytes, bytearray)):
            self._scene.add_jpeg(
                channel, timestamp, _numbers(pose), torch.frombuffer(bytearray(image), dtype=torch.uint8), key_frame
            )
            return
        pixels = torch.as_tensor(image)
        if pixels.dtype != torch.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
            raise ValueError(
                f"[DatasetWriter] image must be uint8 [height, width, 3], got {pixels.dtype} {list(pixels.shape)}"
            )
        self._scene.add_image(channel, timestamp, _numbers(pose), pixels, key_frame)

    def add_box(
        self,
        object_name: str,
        category: str,
        center: Sequence[float],
        size: Sequence[float],
        rotation: Sequence[float] = (1.0, 0.0, 0.0, 0.0),
        *,
        attributes: Iterable[str] = (),
        visibility: int = 4,
        lidar_points: int | None = None,
    ) -> None:
        """An object of the key frame, in the global frame: size is width, length, height; points are counted when absent."""
        box = [float(number) for number in (*center, *size, *rotation)]
        self._scene.add_box(object_name, category, box, list(attributes), visibility, lidar_points)

    def finish(self) -> None:
        """Hands the scene over to the data set."""
        self._scene.finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.finish()


class DatasetWriter:
    """Writes a data set in the nuScenes v1.0 schema, which camber and nuScenes' devkit read.

    Everything is checked as it comes. The tables appear as a whole at `finish`; a scene that was begun and not finished
    is refused there.

    Args:
        out: folder of the data set.
        sensors: the rig.
        version: folder of the tables within it.
    """

    def __init__(self, out: str | os.PathLike[str], sensors: Sequence[RigSensor], version: str = "v1.0-own") -> None:
        rows = torch.tensor([sensor._row() for sensor in sensors], dtype=torch.double).reshape(-1, 14)
        self._writer = _doors.make(
            "DatasetWriter", os.fspath(out), version, [sensor.channel for sensor in sensors], rows
        )

    def scene(self, name: str, description: str = "") -> SceneWriter:
        """Begins a scene."""
        return SceneWriter(self._writer.scene(name, description))

    def finish(self, splits: Mapping[str, Sequence[str]] | None = None) -> dict[str, int]:
        """Writes the tables; `splits` are lists of scenes' names. Returns what was written, counted."""
        lists = {name: list(scenes) for name, scenes in (splits or {}).items()}
        return dict(self._writer.finish(lists))
