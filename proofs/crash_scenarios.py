"""The commands that are let crash: what each writes, and what must be the same afterwards."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Callable, Mapping, Sequence

from proofs.hostile import TINY
from proofs.programs import ROOT, camber

Tree = Mapping[str, str]
TIMES = ("time", "seconds", "milliseconds_a_step", "training_seconds", "evaluation_seconds", "seconds_a_step")

# CMT's published network at small widths.
SMALL_CMT = """
space.x_min=-12.8 space.x_max=12.8 space.y_min=-12.8 space.y_max=12.8 space.grid_cells=0
encoder.image_width=160 encoder.image_height=64 encoder.bev_channels=128 encoder.camera_channels=64
encoder.cmt.sparse_channels=[8,16,32,32] encoder.cmt.sparse_outputs=32 encoder.cmt.bev_backbone_channels=[32,64]
encoder.cmt.stem_width=16 encoder.cmt.backbone_width=8
head.num_queries=60 head.max_detections=50 head.centre_limits=[-10,-10,-4,10,10,4]
head.decoder.num_layers=3 head.decoder.width=64 head.decoder.num_heads=8 head.decoder.feedforward_width=256
"""


def sum_of(path: pathlib.Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def tree_of(folder: pathlib.Path) -> Tree:
    """Every file below a folder with its sum."""
    return {
        str(path.relative_to(folder)): sum_of(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def without_times(value: object) -> object:
    if isinstance(value, dict):
        return {key: without_times(part) for key, part in value.items() if key not in TIMES}
    return [without_times(part) for part in value] if isinstance(value, list) else value


def run_state(folder: pathlib.Path) -> Tree:
    """A run's folder as far as two runs of one configuration agree: sums of weights, records without times, names."""
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    state = dict.fromkeys(sorted(name for name in names if "tfevents" not in name), "")
    for path in sorted(folder.rglob("*.safetensors")):
        state[str(path.relative_to(folder))] = sum_of(path)
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    state["metrics.jsonl"] = json.dumps([without_times(json.loads(line)) for line in lines])
    return state


def study_state(folder: pathlib.Path) -> Tree:
    """The records of a study without times, and the names of everything else."""
    state = {}
    for path in sorted((folder / "records").iterdir()):
        text = path.read_text()
        state[path.name] = json.dumps(without_times(json.loads(text))) if path.suffix == ".json" else text
    return state


@dataclasses.dataclass(frozen=True)
class Scenario:
    """A command that writes to `out`; `product` is what shows that it was done, `state` what must be the same then."""

    name: str
    command: Callable[[pathlib.Path], Sequence[object]]
    product: str
    state: Callable[[pathlib.Path], Tree]
    again: Callable[[pathlib.Path], Sequence[object]] | None = None  # other words after a crash
    one_file: bool = False


def resumable(name: str, words: Sequence[object]) -> Scenario:
    """A run, which goes on with --resume after a crash."""
    return Scenario(
        name, lambda out: (*words, "--out", out), "result.json", run_state,
        lambda out: (name, "--resume", out, "--threads", 1),
    )  # fmt: skip


class World:
    """What the scenarios read, made once, and the states that unbroken commands leave."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.data = folder / "w"
        camber("simulate", "--out", self.data, "--scenes", 5, "--world.frames=2", "--seed", 7)
        self.config = folder / "tiny.toml"
        self.config.write_text(TINY.replace('"w"', json.dumps(str(self.data))).replace("every = 3", "every = 1"))
        self.run = folder / "run"
        camber("train", "--config", self.config, "--out", self.run, "--seed", 3, "--threads", 1)
        self.write_kitti(folder / "kitti")
        self.write_cmt()
        self.whole: dict[str, Tree] = {}
        self.calls: dict[str, int] = {}

    def write_kitti(self, folder: pathlib.Path) -> None:
        calibration = (
            "P2: 700 0 600 0 0 700 170 0 0 0 1 0\nR0_rect: 1 0 0 0 1 0 0 0 1\n"
            "Tr_velo_to_cam: 0 -1 0 0 0 0 -1 0 1 0 0 0\n"
        )
        label = "Car 0 0 0 0 0 50 50 1.5 1.6 3.9 1 1.6 20 0\n"
        for name in ("velodyne", "calib", "label_2"):
            (folder / name).mkdir(parents=True)
        for frame in ("000000", "000001", "000002"):
            (folder / "velodyne" / f"{frame}.bin").write_bytes(bytes(range(64)) * 4)
            (folder / "calib" / f"{frame}.txt").write_text(calibration)
            (folder / "label_2" / f"{frame}.txt").write_text(label)

    def write_cmt(self) -> None:
        """A CMT of small widths, hardly trained, and its weights under the original names."""
        trained = self.folder / "cmt"
        self.cmt_config, self.cmt = self.folder / "cmt.toml", trained / "model.safetensors"
        widths = [f"--detector.{option}" for option in SMALL_CMT.split()]
        short = ("--loop.steps=1", "--data.version=v1.0-simulated", "--evaluation.limit=1", "--evaluation.faults=[]")
        data = (f"--data.root={self.data}", *short)
        published = ("train", "--config", ROOT / "configs/cmt_r50.toml", "--out", trained, *data, *widths)
        self.cmt_config.write_text(camber(*published, "--print-config").stdout)
        camber("train", "--config", self.cmt_config, "--out", trained, "--threads", 1)
        camber("export", "cmt", self.cmt, "--out", self.folder / "original.pth")

    def scenarios(self) -> list[Scenario]:
        seed = ("--seed", 3, "--threads", 1)
        tables = "v1.0-simulated/sample.json"
        simulate = ("simulate", "--scenes", 3, "--world.frames=1", *seed)
        faults = ("faults", "--data", self.data, "--faults", "black:3,beams:3", *seed)
        kitti = ("import", "kitti", self.folder / "kitti", *seed)
        glyphs = (
            "--training.episodes=3",
            "--training.checkpoint_every=1",
            "--tests.0.episodes=3",
            "--tests.1.episodes=3",
        )
        fewshot = ("fewshot", "--config", "configs/fewshot_glyphs.toml", "--leak_episodes=2", *glyphs, "--threads", 1)
        train = ("train", "--config", self.config, *seed)
        predict = ("predict", "--run", self.run, "--split", "test", "--threads", 1)
        cmt = ("import", "cmt", self.folder / "original.pth", "--config", self.cmt_config, "--threads", 1)
        export = ("export", "cmt", self.cmt, "--threads", 1)
        model, weights = "a.safetensors", "a.pth"
        return [
            Scenario("simulate", lambda out: (*simulate, "--out", out), tables, tree_of),
            Scenario("faults", lambda out: (*faults, "--out", out), tables, tree_of),
            Scenario("import kitti", lambda out: (*kitti, "--out", out), "v1.0-kitti/sample.json", tree_of),
            Scenario(
                "report", lambda out: ("report", self.run, "--out", out / "a.html"), "a.html", tree_of, None, True
            ),
            Scenario("predict", lambda out: (*predict, "--out", out / "a.json"), "a.json", tree_of, None, True),
            Scenario("import cmt", lambda out: (*cmt, "--out", out / model), model, tree_of, None, True),
            Scenario("export cmt", lambda out: (*export, "--out", out / weights), weights, tree_of, None, True),
            resumable("fewshot", fewshot),
            resumable("train", train),
        ]

    def study(self) -> Scenario:
        options = [
            "--config",
            "configs/study_small.toml",
            "--world.scenes=8",
            "--world.frames=2",
            "--base_steps=3",
            "--branch_steps=2",
            "--frames=2",
            "--replicates=4",
            "--training.loop.checkpoint_every=1",
            "--gates.doubled_seeds=0",
            "--seeds",
            "1",
            "--only",
            "plain",
            "--threads",
            "1",
        ]
        root = f"--world.root={self.folder / 'study_world'}"
        return Scenario(
            "study", lambda out: ("study", "run", "--out", out, root, *options), "records/plan.toml", study_state
        )
