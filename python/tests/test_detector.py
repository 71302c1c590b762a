"""The detector, data sets, faults and reports from Python, beside the program on the same files."""

import json
import threading

import numpy
import pytest
import torch

import camber
from camber._program import run_program

VERSION = "v1.0-simulated"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small world and a detector with router and cues, trained for a step."""
    folder = tmp_path_factory.mktemp("detector")
    camber.simulate(folder / "world", scenes=5, seed=7, settings={"world.frames": 3})
    train = ["train", "--config", str(camber.configs / "demo.toml"), "--out", str(folder / "run"), "--quiet",
             f"--data.root={folder / 'world'}", "--data.batch_size=1", "--loop.steps=1", "--evaluation.faults=[]",
             "--evaluation.limit=1"]  # fmt: skip
    assert run_program(train) == 0
    # The same weights: what is done with alarms belongs to no training.
    verified = [word.replace(str(folder / "run"), str(folder / "verified")) for word in train]
    alarms = ["--detector.alarms.threshold=-1", "--detector.alarms.policy=verified_rule"]
    assert run_program([*verified, *alarms]) == 0
    return folder


@pytest.fixture(scope="module")
def detector(folder):
    return camber.Detector.load(folder / "run" / "model.safetensors")


@pytest.fixture(scope="module")
def dataset(folder):
    return camber.nuscenes.Dataset(folder / "world", VERSION)


def frames(detector, dataset, **options):
    return [dataset.frame(token, sweeps=detector.previous_sweeps, **options) for token in dataset.samples("val")]


def test_a_session_finds_what_the_program_finds(folder, detector, dataset):
    raw = folder / "raw.json"
    command = ["predict", "--run", str(folder / "run"), "--split", "val", "--raw", str(raw), "--quiet"]
    assert run_program(command) == 0
    wanted = json.loads(raw.read_text())["results"]
    session = camber.DetectorSession(detector)
    for frame in frames(detector, dataset):
        found = session.detect(frame)
        assert len(found) == len(wanted[frame.token]) > 0
        for ours, theirs in zip(found, wanted[frame.token], strict=True):
            assert (detector.classes.index(ours.label), ours.query) == (theirs["label"], theirs["query"])
            assert (ours.score, *ours.center[:2]) == pytest.approx((theirs["score"], *theirs["box"][:2]), abs=1e-5)
            assert set(ours.trust) == {"lidar", "cameras"} and all(abs(w) <= 1 for w in ours.trust.values())
            assert sum(ours.attention_mass.values()) == pytest.approx(1, abs=1e-5)
    assert session.cues["lidar"]["available"] == 1 and len(session.cues) == 1 + len(frame.images)


def test_arrays_of_any_kind_and_strides(detector, dataset):
    frame = frames(detector, dataset)[0]
    wanted = detector.detect(frame)
    wide = numpy.zeros((len(frame.points), 12), numpy.float64)
    wide[:, ::2] = frame.points.numpy()
    images = [numpy.ascontiguousarray(image.numpy().transpose(2, 0, 1)).transpose(1, 2, 0) for image in frame.images]
    assert not images[0].flags.c_contiguous
    options = {
        "intrinsics": frame.intrinsics.numpy(), "lidar_to_camera": [matrix.numpy() for matrix in frame.lidar_to_camera],
        "camera_names": frame.camera_names, "time_lag_index": 5,
    }  # fmt: skip
    assert detector.detect(wide[:, ::2], images, **options) == wanted
    reversed_images = [image[..., ::-1] for image in images]
    reversed_images[0].flags.writeable = False
    assert detector.detect(frame.points, reversed_images, channel_order="bgr", **options) == wanted


def test_absent_sensors_and_threads(detector, dataset):
    frame = frames(detector, dataset)[0]
    alone = detector.detect(frame.points, time_lag_index=5)
    assert alone and set(alone[0].attention_mass) == {"lidar"}
    frame.images[0] = None
    found = detector.detect(frame)
    assert found[0].attention_mass[frame.camera_names[0]] == 0
    assert detector.detect(None) == []
    answers = [None] * 3

    def detect(i):
        answers[i] = detector.detect(frame)

    threads = [threading.Thread(target=detect, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [found] * 3


@pytest.mark.parametrize(
    "changed, sentence",
    [
        ({"points": torch.zeros(3)}, "points must be [N, F] with F of at least 3, got [3]"),
        ({"points": "cloud"}, "points must be an array of numbers, got str"),
        ({"intrinsics": torch.zeros(1, 3, 3)}, "intrinsics must be [6, 3, 3], got [1, 3, 3]"),
        ({"lidar_to_camera": torch.full((6, 4, 4), torch.nan)}, "lidar_to_camera must be finite numbers, got nan"),
        ({"camera_names": ["a"]}, "camera_names must have one entry an image, 6, got 1"),
        ({"camera_names": ["a"] * 6}, "camera_names must differ, got ['a', 'a', 'a', 'a', 'a', 'a']"),
        ({"channel_order": "hsv"}, "channel_order must be 'rgb' or 'bgr', got 'hsv'"),
        ({"intensity_index": 6}, "points.intensity_index must be below the stride of 6, or -1 for none, got 6"),
        (
            {"images": [torch.zeros(4, 4, 3)] * 6},
            "the image of 'CAM_FRONT' must be uint8 [H, W, 3], got float32 [4, 4, 3]",
        ),
    ],
)
def test_a_wrong_frame_is_a_sentence(detector, dataset, changed, sentence):
    frame = frames(detector, dataset)[0]
    for name, value in changed.items():
        setattr(frame, name, value)
    with pytest.raises((ValueError, TypeError)) as error:
        detector.detect(frame)
    assert str(error.value).startswith(f"[detect] {sentence}")


def test_refusals(detector, dataset, tmp_path):
    with pytest.raises(RuntimeError, match="nowhere.safetensors cannot be read"):
        camber.Detector.load(tmp_path / "nowhere.safetensors")
    with pytest.raises(ValueError, match="token must be one of a sample, got 'x'"):
        dataset.frame("x")
    with pytest.raises(ValueError, match="nowhere"):
        dataset.samples("nowhere")
    with pytest.raises(ValueError, match="root must be a folder"):
        camber.nuscenes.Dataset(tmp_path / "nowhere")
    session = camber.DetectorSession(detector)
    first, *_ = frames(detector, dataset)
    session.detect(first)
    with pytest.raises(ValueError, match="frame.timestamp must be above that of the frame before"):
        session.detect(first)
    session.reset()
    assert session.detect(first)
    with pytest.raises(TypeError, match="a Frame must be given alone"):
        detector.detect(first, first.images)


def test_a_frame_holds_what_the_tables_say(dataset):
    token = dataset.samples("val")[0]
    frame = dataset.frame(token, sweeps=0)
    assert frame.points.shape[1] == 6 and frame.points.dtype == torch.float32
    assert len(frame.images) == len(frame.camera_names) == 6 and frame.quality == [1.0] * 7
    # A true object's centre falls onto an image through intrinsics and lidar_to_camera where the camera sees it.
    centres = torch.cat([frame.objects.boxes[:, :3], torch.ones(len(frame.objects.boxes), 1)], 1)
    seen = 0
    for k, t, image in zip(frame.intrinsics, frame.lidar_to_camera, frame.images):
        projected = (centres @ t.T)[:, :3] @ k.T
        pixels = projected[:, :2] / projected[:, 2:]
        height, width = image.shape[:2]
        inside = (projected[:, 2] > 0) & (pixels >= 0).all(1) & (pixels < torch.tensor([width, height])).all(1)
        seen += int(inside.sum())
    assert seen >= len(centres) // 2
    halved = dataset.frame(token, image_size=(60, 24))
    assert halved.images[0].shape == (24, 60, 3)
    assert torch.allclose(halved.intrinsics[:, 0, 0] * 2, frame.intrinsics[:, 0, 0])
    assert dataset.samples_of(dataset.scenes()[0])[0] in dataset.samples()


def test_agreement_of_the_sensors(detector, dataset):
    session = camber.DetectorSession(detector)
    assert session.agreement == camber.Agreement() and session.policy == detector.policy == "bias"
    known = []
    for frame in frames(detector, dataset):
        found = session.detect(frame)
        known.append(session.agreement.frame)
        assert {one.agreement for one in found} == {session.agreement.frame}
        assert detector.detect(frame)[0].agreement == session.agreement.frame
        assert list(session.agreement.cameras) == list(frame.camera_names)
        mean = [value for value in known[-3:] if value is not None]
        assert session.agreement.smoothed == pytest.approx(sum(mean) / len(mean))
    assert all(-1 <= value <= 1 for value in known)
    session.reset()
    frame.points = None
    assert session.detect(frame)[0].agreement is None
    assert session.agreement.frame is None and set(session.agreement.cameras.values()) == {None}


def test_policies(folder, detector, dataset):
    verified = camber.Detector.load(folder / "verified" / "model.safetensors")
    assert (detector.agreement_threshold, verified.agreement_threshold) == (None, -1)
    assert verified.policy == "verified_rule"

    def found_late(model, policy=None):
        session = camber.DetectorSession(model, policy)
        first, second, *_ = frames(detector, dataset)
        session.detect(first)
        second.lidar_timestamp = first.lidar_timestamp  # an alarm
        found = session.detect(second)
        assert session.cues["lidar"]["age"] > 0.9
        return [(one.query, one.label, one.score, one.center) for one in found]

    ignored, obeyed = found_late(detector, "none"), found_late(detector, "rule")
    assert ignored != obeyed
    assert found_late(verified) == found_late(verified, "none") == ignored, "all agreement is above -1"
    assert found_late(verified, "rule") == obeyed
    with pytest.raises(ValueError, match="before alarms.threshold is known .*, got verified_rule"):
        camber.DetectorSession(detector, "verified_rule")
    with pytest.raises(
        ValueError, match="policy must be none, rule, verified_rule, bias or verified_bias, got 'trust'"
    ):
        camber.DetectorSession(detector, policy="trust")


def test_errors_of_cues(dataset):
    table = camber.faults.table()
    assert {"frozen", "stale"} < {row["name"] for row in table["faults"]}
    assert [row["name"] for row in table["cue_errors"]] == ["false_alarms", "misses", "wrong_culprit", "burst"]
    cues = numpy.array([[0.9, 0.3], [0.1, -0.2], [0.1, 0.0]])
    wrong = camber.faults.degrade_cues(cues, "wrong_culprit:1")
    assert wrong[:, 0].tolist() == [0, 1, 1] and wrong[:, 1].tolist() == [0.3, -0.2, 0.0]
    assert cues[0, 0] == 0.9, "a copy"
    absent = camber.faults.degrade_cues(cues, "misses:1,false_alarms:1", available=[False, True, True])
    assert absent[:, 0].tolist() == [0.9, 1, 1]
    drawn = [camber.faults.degrade_cues(cues, "misses:0.5", frame=i, seed=3)[0, 0].item() for i in range(40)]
    assert 8 < drawn.count(0) < 32 and set(drawn) == {0, 0.9}
    assert drawn == [camber.faults.degrade_cues(cues, "misses:0.5", frame=i, seed=3)[0, 0].item() for i in range(40)]
    with pytest.raises(ValueError, match="a name must be false_alarms, misses, wrong_culprit or burst, got 'miss'"):
        camber.faults.degrade_cues(cues, "miss:0.1")
    with pytest.raises(ValueError, match=r"cues must be \[1 \+ V, 2\], got \[3\]"):
        camber.faults.degrade_cues(cues[:, 0], "misses:0.1")
    with pytest.raises(ValueError, match=r"available must be \[3\], got \[2\]"):
        camber.faults.degrade_cues(cues, "misses:0.1", available=[True, True])
    with pytest.raises(ValueError, match="got the cue error 'misses:0.1': a frame is read without cues"):
        dataset.frame(dataset.samples("val")[0], faults="dark,misses:0.1")
    with pytest.raises(ValueError, match="a copy of a data set has no cues"):
        camber.faults.copy(dataset.dataroot, "nowhere", "misses:0.1", version=VERSION)


def test_faults_of_a_frame_are_those_of_the_copy(folder, dataset, tmp_path):
    """A frame under a fault, and the same frame read from the faulted copy."""
    for fault in ("beams:3", "lidar_off"):
        out = tmp_path / fault.replace(":", "_")
        camber.faults.copy(folder / "world", out, fault, version=VERSION, seed=3)
        token = dataset.samples()[0]
        live = dataset.frame(token, faults=fault, seed=3, sweeps=0)
        copied = camber.nuscenes.Dataset(out, VERSION).frame(token, sweeps=0)
        if fault == "lidar_off":
            assert live.points is None and len(copied.points) == 0 and live.quality[0] == 0
        else:
            assert torch.equal(live.points[:, :3], copied.points[:, :3]) and live.quality[0] < 1


def test_arrays_degrade_like_frames():
    image = torch.randint(0, 255, (48, 120, 3), dtype=torch.uint8)
    dark = camber.faults.degrade_image(image.numpy()[:, ::-1], "dark:4")
    assert dark.float().mean() < image.float().mean() / 2
    cloud = torch.rand(500, 6) * 20 - 10
    kept = camber.faults.degrade_points(cloud, "limited_view:3", ahead=(1.0, 0.0, 0.0))
    assert 0 < len(kept) < 500 and torch.equal(
        kept, camber.faults.degrade_points(cloud, "limited_view:3", ahead=(1, 0, 0))
    )
    box = [[0, 0, 0, 30, 30, 30, 0]]
    assert len(camber.faults.degrade_points(cloud, "dropped_objects:5", objects=box)) < 500
    for wrong in ("frozen:3", "lidar_off", "calibration", "beams"):
        with pytest.raises(ValueError, match="fault must be one that degrades an image by itself"):
            camber.faults.degrade_image(image, wrong)
    with pytest.raises(ValueError, match="points must be"):
        camber.faults.degrade_points(cloud[:, :4], "beams")


def test_report(folder, tmp_path):
    page = camber.report(folder / "run", tmp_path / 'a "page".html')
    assert page.read_text().startswith("<!doctype html>")
    with pytest.raises(ValueError, match="PATH must be the folder of a run"):
        camber.report(tmp_path)
    with pytest.raises(ValueError, match="world.framez"):
        camber.simulate(tmp_path / "w", settings={"world.framez": 1})
