"""The detector on one's own arrays: a frame at a time, or a running sequence."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from . import _doors
from .frames import Array, Frame

__all__ = ["Agreement", "Detection", "Detector", "DetectorSession"]


@dataclass(frozen=True)
class Detection:
    """One found object, in the frame of the LiDAR.

    >>> Detection("car", 0.9, (10.0, 2.0, -1.0), (4.5, 1.9, 1.6), 0.1, (3.0, 0.0)).score
    0.9
    """

    label: str
    score: float
    center: tuple[float, float, float]  # metres
    size: tuple[float, float, float]  # length, width, height
    yaw: float
    velocity: tuple[float, float]  # m/s
    query: int = 0  # which query found it
    trust: dict[str, float] | None = None  # -1 .. 1 by sensor: lidar, and cameras or each camera; None without a router
    attention_mass: dict[str, float] | None = None  # the share of its attention by sensor: lidar and each camera
    agreement: float | None = None  # how far the sensors of its frame agree, -1 .. 1; None: not known


@dataclass(frozen=True)
class Agreement:
    """How far the LiDAR and the cameras of a session's last frame see the same objects, -1 to 1; None: not known.

    >>> Agreement(0.4, 0.35, {"CAM_FRONT": 0.5}).smoothed
    0.35
    """

    frame: float | None = None
    smoothed: float | None = None  # the mean over the last frames: what verified policies look at
    cameras: dict[str, float | None] = field(default_factory=dict)  # each with the LiDAR; empty without dense heads


def _known(number: float) -> float | None:
    return None if math.isnan(number) else number


def _detections(found: Sequence[Tensor], classes: Sequence[str], cameras: Sequence[str]) -> list[Detection]:
    boxes, velocity, score, label, query, trust, mass, agreement = (tensor.tolist() for tensor in found)
    sensors = ["lidar", *cameras]

    def by_sensor(row: list[float], shared: bool) -> dict[str, float] | None:
        if not row:
            return None
        names = ["lidar", "cameras"] if shared and len(row) == 2 else sensors
        return dict(zip(names[len(names) - len(row) :], row))

    return [
        Detection(
            label=classes[label[i]],
            score=score[i],
            center=tuple(boxes[i][:3]),
            size=tuple(boxes[i][3:6]),
            yaw=boxes[i][6],
            velocity=tuple(velocity[i]),
            query=query[i],
            trust=by_sensor(trust[i], True),
            attention_mass=by_sensor(mass[i], False),
            agreement=_known(agreement[i]),
        )
        for i in range(len(score))
    ]


def _frame(frame: Frame | Array | None, images: Sequence[Array | None], options: dict[str, Any]) -> Frame:
    if isinstance(frame, Frame):
        if len(images) > 0 or options:
            raise TypeError("[detect] a Frame must be given alone, got further arguments")
        return frame
    return Frame(frame, images, **options)


class Detector:
    """A trained detector: LiDAR and cameras to boxes. May be called from several threads at once.

    >>> import camber, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> _ = camber.simulate(f"{folder}/world", scenes=5, seed=7, settings={"world.frames": 1})
    >>> camber.run_program(["train", "--config", f"{camber.configs}/demo.toml", "--out", f"{folder}/run", "--quiet",
    ...                     f"--data.root={folder}/world", "--loop.steps=1", "--evaluation.faults=[]"])
    0
    >>> detector = camber.Detector.load(f"{folder}/run/model.safetensors")
    >>> dataset = camber.nuscenes.Dataset(f"{folder}/world", "v1.0-simulated")
    >>> frame = dataset.frame(dataset.samples("val")[0], sweeps=detector.previous_sweeps)
    >>> found = detector.detect(frame.points, frame.images, intrinsics=frame.intrinsics,
    ...                         lidar_to_camera=frame.lidar_to_camera, time_lag_index=5)
    >>> len(found), sorted(found[0].trust), len(found[0].attention_mass)
    (300, ['cameras', 'lidar'], 7)
    >>> detector.policy, detector.agreement_threshold, -1 <= found[0].agreement <= 1
    ('bias', None, True)
    """

    def __init__(self, door: Any) -> None:
        self._door = door
        self.classes: list[str] = door.classes()
        self.previous_sweeps: int = door.previous_sweeps()  # LiDAR sweeps before the key frame that it was trained on

    @property
    def policy(self) -> str:
        """What is done with the alarms of the cues: none, rule, verified_rule, bias or verified_bias."""
        policy: str = self._door.policy()
        return policy

    @property
    def agreement_threshold(self) -> float | None:
        """The agreement from which on verified policies drop an alarm; None before `camber calibrate-agreement`."""
        threshold: float = self._door.threshold()
        return threshold if threshold != 0 else None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Detector:
        """Reads a model.safetensors or a checkpoint of a training, of which the running average where it has one."""
        return cls(_doors.make("Detector", os.fspath(path)))

    @property
    def options(self) -> str:
        """Every option of the detector, as TOML."""
        text: str = self._door.options()
        return text

    def detect(
        self, points: Frame | Array | None, images: Sequence[Array | None] = (), /, **options: Any
    ) -> list[Detection]:
        """Boxes of a single frame, best first: of a `Frame`, or of its fields.

        points [N, F] float (x, y, z, ...), images uint8 [H, W, 3], numpy or tensors; further fields of `Frame` by name:
        intrinsics [V, 3, 3] and lidar_to_camera [V, 4, 4] are needed with images. Sensors that deliver nothing are
        None. Without history: the cues are `cues`, or neutral.
        """
        frame = _frame(points, images, options)
        return _detections(self._door.detect(frame.door()), self.classes, frame.camera_names)


class DetectorSession:
    """Detection in a running sequence: keeps what the cues of each sensor's health need of the frames before.

    Time stamps of the frames rise, the cameras stay the same ones until reset(). Calls of one session wait for
    each other; sessions may share a detector. policy: what is done with the cues' alarms, the detector's own without
    one; a verified policy holds them against the agreement of the sensors over the last frames (docs/agreement.md).

    >>> import camber, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> _ = camber.simulate(f"{folder}/world", scenes=5, seed=7, settings={"world.frames": 2})
    >>> camber.run_program(["train", "--config", f"{camber.configs}/demo.toml", "--out", f"{folder}/run", "--quiet",
    ...                     f"--data.root={folder}/world", "--loop.steps=1", "--evaluation.faults=[]"])
    0
    >>> session = camber.DetectorSession(camber.Detector.load(f"{folder}/run/model.safetensors"))
    >>> dataset = camber.nuscenes.Dataset(f"{folder}/world", "v1.0-simulated")
    >>> for token in dataset.samples("val"):
    ...     found = session.detect(dataset.frame(token, sweeps=session.detector.previous_sweeps))
    >>> session.cues["CAM_FRONT"]["age"]
    0.0
    >>> session.policy, len(session.agreement.cameras), session.agreement.frame == found[0].agreement
    ('bias', 6, True)
    >>> camber.DetectorSession(session.detector, policy="rule").policy
    'rule'
    """

    def __init__(self, detector: Detector, policy: str | None = None) -> None:
        if not isinstance(detector, Detector):
            raise TypeError(f"[DetectorSession] detector must be a Detector, got {type(detector).__name__}")
        self.detector = detector
        self._door = _doors.make("Session", detector._door, "" if policy is None else policy)
        self._cameras: list[str] = []

    def detect(
        self, points: Frame | Array | None, images: Sequence[Array | None] = (), /, **options: Any
    ) -> list[Detection]:
        """Boxes of the next frame of the sequence, best first; arguments as of `Detector.detect`, without cues."""
        frame = _frame(points, images, options)
        found = _detections(self._door.detect(frame.door()), self.detector.classes, frame.camera_names)
        self._cameras = list(frame.camera_names)
        return found

    def reset(self) -> None:
        """A new scene: the next frame has no past."""
        self._door.reset()

    @property
    def cues(self) -> dict[str, dict[str, float]]:
        """What the last call took for the state of each sensor: age, change, level, available; empty before the first."""
        rows: list[list[float]] = self._door.cues().tolist()
        names = ("age", "change", "level", "available")
        return {sensor: dict(zip(names, row)) for sensor, row in zip(["lidar", *self._cameras], rows)}

    @property
    def policy(self) -> str:
        """What this session does with the alarms of the cues."""
        policy: str = self._door.policy()
        return policy

    @property
    def agreement(self) -> Agreement:
        """How far the sensors of the last frame agreed; nothing is known before the first."""
        frame, smoothed, *cameras = (_known(number) for number in self._door.agreement().tolist())
        return Agreement(frame, smoothed, dict(zip(self._cameras, cameras)))
