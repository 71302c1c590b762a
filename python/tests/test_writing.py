"""Data sets written from arrays are those that the C++ reader reads; what cannot be right is a ValueError with its sentence."""

from pathlib import Path

import numpy
import pytest
import torch

import camber
from camber import nuscenes

RIG = [
    camber.RigSensor("ROOF", (0, 0, 1.8)),
    camber.RigSensor("FRONT", (1.5, 0, 1.5), (0.5, -0.5, 0.5, -0.5), intrinsic=(100, 100, 48, 24), size=(96, 48)),
]
POSE = ((100.0, 50.0, 0.0), (1.0, 0.0, 0.0, 0.0))
START = 1_600_000_000_000_000


def write(folder: Path) -> dict[str, int]:
    writer = camber.DatasetWriter(folder, RIG)
    for name in ("a", "b"):
        with writer.scene(name, "made of arrays") as scene:
            for frame in range(2):
                time = START + 500_000 * frame
                scene.begin_frame(time)
                points = numpy.array([[10, 0, -0.8, 200, 1], [30, 5, 0, 10, 2]], numpy.float64)[:, ::1]
                scene.add_points("ROOF", time, POSE, points)
                if frame == 0:
                    image = torch.full((48, 96, 6), 90, dtype=torch.uint8)[..., ::2]  # not contiguous
                    scene.add_image("FRONT", time - 20_000, POSE, image)
                scene.add_box("7", "vehicle.car", (110, 50, 1), (2, 4, 1.5))
    return writer.finish({"train": ["a"], "val": ["b"]})


def test_the_reader_reads_what_was_written(tmp_path: Path) -> None:
    counts = write(tmp_path / "own")
    assert counts["frames"] == 4
    assert counts["files"] == 6
    assert counts["objects"] == 2
    dataset = nuscenes.Dataset(tmp_path / "own", "v1.0-own")
    assert dataset.scenes() == ["a", "b"]
    frame = dataset.frame(dataset.samples("train")[0], sweeps=0)
    assert frame.points.shape[0] == 2
    assert frame.points[0, 3] == 200
    assert tuple(frame.images[0].shape) == (48, 96, 3)


def test_jpeg_bytes_are_kept(tmp_path: Path) -> None:
    write(tmp_path / "own")
    jpeg = next((tmp_path / "own/samples/FRONT").iterdir()).read_bytes()
    writer = camber.DatasetWriter(tmp_path / "copy", RIG)
    with writer.scene("a") as scene:
        scene.begin_frame(START)
        scene.add_points("ROOF", START, POSE, numpy.zeros((1, 5), numpy.float32))
        scene.add_image("FRONT", START, POSE, jpeg)
    writer.finish()
    assert next((tmp_path / "copy/samples/FRONT").iterdir()).read_bytes() == jpeg


def test_what_cannot_be_right_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="intrinsic and size of FRONT must be given together"):
        camber.DatasetWriter(tmp_path / "x", [camber.RigSensor("FRONT", size=(4, 4))])
    with pytest.raises(ValueError, match="sensors must not be empty"):
        camber.DatasetWriter(tmp_path / "x", [])
    writer = camber.DatasetWriter(tmp_path / "own", RIG)
    scene = writer.scene("s")
    scene.begin_frame(START)
    with pytest.raises(ValueError, match=r"points must be \[n, 5\], got \[4, 4\]"):
        scene.add_points("ROOF", START, POSE, numpy.zeros((4, 4), numpy.float32))
    with pytest.raises(ValueError, match="scene 's', frame 0: points of ROOF must be finite"):
        scene.add_points("ROOF", START, POSE, numpy.full((1, 5), numpy.nan, numpy.float32))
    with pytest.raises(ValueError, match=r"the image of FRONT must be \[48, 96, 3\]"):
        scene.add_image("FRONT", START, POSE, numpy.zeros((4, 4, 3), numpy.uint8))
    with pytest.raises(ValueError, match="scene 's' must be finished"):
        writer.finish()
