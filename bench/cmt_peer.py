"""A whole frame of CMT (cmt_voxel0100_r50_800x320): Camber beside the same network on torch.nn, SDPA and spconv.

    make bench-peers                             installs spconv into .venv-peers and runs this too
    python bench/cmt_peer.py --threads 1         with the packages that this Python has

Weights are random by a recipe (a function of names and a seed). All get the same points, images and calibrations, those of
the real nuScenes key frame below CAMBER_DATA, alone and with its points shifted by 0.4 m ten times as if they were ten
sweeps; without it nothing is measured. A frame is everything from points and images in memory to boxes. Torch's rows are
processes that hold their inputs and wait; Camber's are runs of `camber bench detector`. All go in turns, and before any
time counts the outputs of every row are compared with Camber's.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dump_file import read_dump
from peer_process import PeerProcess, parse_arguments, show, status_bytes

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / (os.environ.get("CAMBER_DATA") or "../shared/data")
CAMBER = ROOT / "build/camber"
OURS = {"camber": "float32", "camber/bfloat16": "bfloat16"}
THEIRS = ("torch", "torch/channels_last", "torch/bfloat16")
SEED = 6


# --- a peer's process ---


class Stages:
    """Milliseconds of each stage, and of the whole frame."""

    def __init__(self, threads: int, processor: bool) -> None:
        self.clock, self.divisor = (time.process_time, threads) if processor else (time.perf_counter, 1)
        self.times: dict[str, float] = {}
        self.began = self.last = self.clock()

    def done(self, stage: str) -> None:
        now = self.clock()
        self.times[stage] = 1e3 * (now - self.last) / self.divisor
        self.last = now

    def finish(self) -> None:
        self.times["frame"] = 1e3 * (self.clock() - self.began) / self.divisor


def serve(name: str, folder: Path, threads: int, processor: bool) -> None:
    """Answers each line, the name of a cloud, with a JSON object of times in ms, memory in MB and the outputs' file."""
    from cmt_peer_model import Detector, best_boxes

    torch.set_num_threads(threads)
    model = Detector().eval()
    model.load_state_dict(torch.load(folder / "recipe.pth", weights_only=True)["state_dict"])
    if name != "torch":
        for module in (model.pts_backbone, model.pts_neck, model.img_backbone, model.img_neck):
            module.to(memory_format=torch.channels_last)
    half = torch.autocast("cpu", torch.bfloat16) if name.endswith("bfloat16") else contextlib.nullcontext()
    print("ready", flush=True)
    for line in sys.stdin:
        cloud = line.strip()
        batch = read_dump(folder / f"camber.{cloud}.safetensors", "batch.")
        points, projections = batch["batch.points"], batch["batch.lidar_to_image"][0]
        images = batch["batch.images"][0]
        if name != "torch":
            images = images.contiguous(memory_format=torch.channels_last)
        Path("/proc/self/clear_refs").write_text("5")
        before = status_bytes("VmRSS")
        stages = Stages(threads, processor)
        with torch.inference_mode(), half:
            logits, codes = model(points, images, projections, stages.done)
            best_boxes(logits, codes)
        stages.finish()
        torch.save((logits, codes), folder / f"{name.replace('/', '_')}.{cloud}.pt")
        print(json.dumps({"times": stages.times, "memory": 1e-6 * (status_bytes("VmHWM") - before)}), flush=True)


class Peer(PeerProcess):
    """A network of torch's, in a process of its own."""

    def run(self, cloud: str) -> dict[str, Any]:
        result: dict[str, Any] = json.loads(self.ask(cloud))
        return result

    def outputs(self, cloud: str) -> tuple[Tensor, Tensor]:
        logits, codes = torch.load(self.folder / f"{self.name.replace('/', '_')}.{cloud}.pt", weights_only=True)
        return logits, codes


class Ours:
    """`camber bench detector`, a process a run: one frame to warm up, one that counts."""

    def __init__(self, name: str, folder: Path, threads: int, clock: str) -> None:
        self.name, self.folder, self.threads, self.clock = name, folder, threads, clock

    def run(self, cloud: str) -> dict[str, Any]:
        data, version = (folder_of(self.folder, cloud), "v1.0-keyframe")
        out = self.folder / f"{self.name.replace('/', '_')}.{cloud}.safetensors"
        command = [
            CAMBER, "bench", "detector", "--checkpoint", self.folder / "model.safetensors", "--data", data, "--version", version,
            "--precision", OURS[self.name], "--threads", self.threads, "--repeats", 1, "--warmup", 1, "--no-training",
            "--batch", 1, "--clock", self.clock, "--format", "json", *(() if out.exists() else ("--dump", out)),
        ]  # fmt: skip
        environment = {**os.environ, "OMP_NUM_THREADS": str(self.threads)}
        text = subprocess.run(
            [str(word) for word in command], capture_output=True, text=True, env=environment, check=True
        )
        answer = json.loads(text.stdout)
        times = {row["stage"]: row["p50"] for row in answer["frame"]}
        times["frame"] = times.pop("detect")
        return {"times": times, "memory": 1e-6 * answer["memory"]}

    def outputs(self, cloud: str) -> tuple[Tensor, Tensor]:
        stored = read_dump(self.folder / f"{self.name.replace('/', '_')}.{cloud}.safetensors", "output.")
        return stored["output.class_logits"], stored["output.codes"]


# --- the run ---


def folder_of(folder: Path, cloud: str) -> Path:
    return DATA / "nuscenes_keyframe" if cloud == "key frame" else folder / "ten_sweeps"


def prepare(folder: Path) -> None:
    """Weights by recipe, imported, and the data set whose one cloud is the key frame's shifted ten times."""
    recipe: list[str | Path] = [
        ROOT / "build/tests/cmt/cmt_recipe_weights",
        DATA / "cmt_golden/weight_rules.json",
        "cmt_r50",
        str(SEED),
    ]
    subprocess.run([*recipe, folder / "recipe.pth"], check=True, stdout=subprocess.DEVNULL)
    model = folder / "model.safetensors"
    imported: list[str | Path] = [
        CAMBER,
        "import",
        "cmt",
        folder / "recipe.pth",
        "--config",
        "cmt_r50",
        "--out",
        model,
        "--quiet",
    ]
    subprocess.run(imported, check=True, stdout=subprocess.DEVNULL)
    shutil.copytree(DATA / "nuscenes_keyframe", folder / "ten_sweeps")
    (cloud,) = (folder / "ten_sweeps/samples/LIDAR_TOP").glob("*.bin")
    points = np.fromfile(cloud, np.float32).reshape(-1, 5)
    cloud.unlink()
    np.concatenate([points + np.array([0.4 * i, 0, 0, 0, 0], np.float32) for i in range(10)]).tofile(cloud)


def moved(ours: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> tuple[float, float]:
    """How far centres of the best 100 boxes lie apart at most, metres, and the largest difference of a logit."""
    best = ours[0][-1, 0].flatten().topk(100).indices // ours[0].shape[-1]
    apart = (ours[1][-1, 0, best, :3] - other[1][-1, 0, best, :3]).norm(dim=1).max()
    return float(apart), float((ours[0] - other[0]).abs().max())


def measure(threads: int, repeats: int, clock: str, folder: Path) -> dict[str, Any]:
    prepare(folder)
    started = [Peer(__file__, name, folder, threads, "--clock", clock) for name in THEIRS]
    peers = [Ours(name, folder, threads, clock) for name in OURS] + [peer for peer in started if peer.available]
    rows = []
    for cloud in ("key frame", "ten sweeps"):
        runs = {peer.name: [peer.run(cloud)] for peer in peers}  # the first run of each warms up and is not counted
        ours = next(peer for peer in peers if peer.name == "camber").outputs(cloud)
        for _ in range(repeats):
            for peer in peers:
                runs[peer.name].append(peer.run(cloud))
        best = {name: min(run["times"]["frame"] for run in found[1:]) for name, found in runs.items()}
        for peer in peers:
            apart, difference = moved(ours, peer.outputs(cloud))
            # The recipe's weights amplify roundings: other orders of float sums differ by up to some 2e-4.
            if not peer.name.endswith("bfloat16") and not difference <= 1e-3:
                raise RuntimeError(f"[bench peers] {peer.name} must compute the same, got logits {difference} apart")
            fastest = min(runs[peer.name][1:], key=lambda run: run["times"]["frame"])
            rows.append(
                {
                    "name": peer.name,
                    "cloud": cloud,
                    "milliseconds": best[peer.name],
                    "speedup": best["torch"] / best[peer.name] if "torch" in best else None,
                    "memory": max(run["memory"] for run in runs[peer.name]),
                    "moved": apart,
                    "logits": difference,
                    "stages": fastest["times"],
                }
            )
    for peer in started:
        peer.end()
    missing = [peer.name for peer in started if not peer.available]
    return {"threads": threads, "clock": clock, "repeats": repeats, "rows": rows, "missing": missing}


def lines_of(row: dict[str, Any]) -> Iterator[str]:
    yield (
        f"{row['name']:<20} {row['cloud']:<12} {row['milliseconds']:8.0f} {row['speedup'] or 0:6.2f} "
        f"{row['memory']:7.0f} {row['moved']:8.3f} {row['logits']:8.1e}"
    )
    yield "    " + ", ".join(f"{stage} {value:.0f}" for stage, value in row["stages"].items())


def main() -> None:
    arguments = parse_arguments(__doc__, repeats=3)
    if arguments.serve:
        serve(arguments.serve, arguments.folder, arguments.threads, arguments.clock == "processor")
        return
    if not (DATA / "nuscenes_keyframe").exists() or not (DATA / "cmt_golden/weight_rules.json").exists():
        print(f"cmt: no key frame and recipe below {DATA} (set CAMBER_DATA): nothing is measured", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory() as temporary:
        answer = measure(arguments.threads, arguments.repeats, arguments.clock, Path(temporary))
    head = f"{'one frame of CMT':<20} {'cloud':<12} {'ms':>8} {'x':>6} {'MB':>7} {'moved m':>8} {'logits':>8}"
    show(answer, head, lines_of, arguments.out)


if __name__ == "__main__":
    main()
