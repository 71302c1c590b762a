"""Training: kills and damage, overfitting, the demo's floors, speed beside PyTorch's Python, trust.

Everything takes about an hour and a half on two cores.
"""

from __future__ import annotations

import concurrent.futures
import json
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from proofs.programs import (
    CAMBER,
    WORLD,
    camber,
    camber_json,
    finish,
    need_demo_world,
    python_with,
    read_json,
    run,
    run_json,
    start,
)
from proofs.report import Proof, parts_of

SEEDS = (0, 1, 2)


def train(out: pathlib.Path, *options: object, seed: int = 0) -> Any:
    return camber_json("train", "--config", "configs/demo.toml", "--out", out, "--seed", seed, *options)


def short_run(folder: pathlib.Path) -> list[object]:
    return [
        "--config",
        "configs/demo.toml",
        "--out",
        folder,
        "--loop.steps=60",
        "--loop.checkpoint_every=2",
        "--loop.average.enabled=true",
        "--evaluation.limit=4",
        "--evaluation.faults=[]",
        "--health.interval=5",
    ]


def records(out: pathlib.Path) -> list[Any]:
    lines = [json.loads(text) for text in (out / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in entry.items() if key not in ("time", "seconds_a_step")} for entry in lines]


def kills(proof: Proof) -> None:
    need_demo_world()
    folder = proof.folder
    unbroken, killed = folder / "unbroken", folder / "killed"
    began = time.time()
    camber("train", *short_run(unbroken))
    whole = time.time() - began
    dice = random.Random()
    done = 0
    process = start("train", *short_run(killed))
    while done < 20:
        try:
            process.wait(dice.uniform(0.05, 0.45) * whole)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            done += 1
        else:  # it ended before its moment came: begin again, the count goes on
            finish(process)
            shutil.rmtree(killed)
        process = (
            start("train", "--resume", killed)
            if (killed / "config.toml").exists()
            else start("train", *short_run(killed))
        )
    finish(process)
    same = (unbroken / "checkpoints/last.safetensors").read_bytes() == (
        killed / "checkpoints/last.safetensors"
    ).read_bytes()
    weights = (unbroken / "model.safetensors").read_bytes() == (killed / "model.safetensors").read_bytes()
    proof.line(
        f"kill -9 at {done} random moments, then resumed: bytes of the last checkpoint and of the weights",
        "the same" if same and weights else "other",
        "those of an unbroken run",
        same and weights,
    )
    proof.line(
        "the same: every record of metrics.jsonl",
        f"{len(records(killed))} records",
        "those of an unbroken run",
        records(killed) == records(unbroken),
    )


def damage(proof: Proof) -> None:
    need_demo_world()
    folder = proof.folder
    out = folder / "damaged"
    camber("train", *short_run(out))
    last = out / "checkpoints/last.safetensors"
    whole = last.read_bytes()
    shutil.copy(out / "checkpoints/previous.safetensors", folder / "before")
    held = 0
    for share in (0.0005, 0.3, 0.999):
        last.write_bytes(whole[: int(share * len(whole))])
        (out / "model.safetensors").unlink()
        answer = run(CAMBER, "train", "--resume", out, check=False)
        held += (
            answer.returncode == 0
            and "last.safetensors" in answer.stderr
            and "previous.safetensors" in answer.stderr
            and last.read_bytes() == whole
        )
        shutil.copy(folder / "before", out / "checkpoints/previous.safetensors")
    proof.line(
        "a checkpoint cut short is refused with a sentence and the one before is used, with the same end",
        f"{held} of 3 cuts",
        "all",
        held == 3,
    )


def overfit(proof: Proof) -> None:
    need_demo_world()
    folder = proof.folder
    out = folder / "overfit"
    began = time.time()
    result = train(
        out,
        "--data.limit=8",
        "--data.faults.share=0",
        "--detector.router.mode=off",
        "--loop.steps=500",
        "--data.augmentation.flip=false",
        "--data.augmentation.rotation=0",
        "--data.augmentation.scale_min=1",
        "--data.augmentation.scale_max=1",
        "--data.augmentation.image_flip=false",
        "--data.validation_split=train",
        "--evaluation.limit=8",
        "--evaluation.faults=[]",
    )
    seconds = time.time() - began
    metrics = read_json(out / "result.json")["clean"]
    score = metrics["mean_ap"]
    proof.line(
        "8 frames learned by heart: mAP over the classes present", f"{score:.3f}", "at least 0.95", score >= 0.95
    )
    proof.line(
        "the same: time with start and evaluation",
        f"{seconds:.0f} s ({result['milliseconds_a_step']:.0f} ms a step)",
        "at most 90 s",
        seconds <= 90,
    )


CONDITIONS = ("camera_off:1", "cameras_off", "lidar_off")
FLOORS = {"clean": 0.58, "camera_off:1": 0.55, "cameras_off": 0.30, "lidar_off": 0.10}


def test_metrics(out: pathlib.Path, faults: Iterable[str], *options: object) -> Any:
    return camber_json("eval", "--run", out, "--split", "test", "--limit", 200, "--faults", ",".join(faults), *options)


def map_of(report: Any, condition: str) -> float:
    if condition == "clean":
        return float(report["clean"]["mean_ap"])
    return float(next(found for name, found in report["faults"].items() if name.startswith(condition))["mean_ap"])


class Job(NamedTuple):
    out: pathlib.Path
    options: list[str]
    seed: int
    conditions: tuple[str, ...]


Name = TypeVar("Name")


def side_by_side(jobs: Mapping[Name, Job]) -> dict[Name, Any]:
    """The reports of trainings that are not timed, two at a time with one thread each."""

    def one(item: tuple[Name, Job]) -> tuple[Name, Any]:
        name, job = item
        train(job.out, *job.options, "--threads", 1, seed=job.seed)
        return name, test_metrics(job.out, job.conditions, "--threads", 1)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return dict(pool.map(one, jobs.items()))


def floors(proof: Proof) -> None:
    need_demo_world()
    folder = proof.folder
    arms: dict[str, list[str]] = {"without bias": ["--detector.router.mode=off"], "with the learnable bias": []}
    timed = folder / "timed"
    result = train(timed, "--threads", 2)
    proof.line(
        "training with the learnable bias on two cores",
        f"{result['seconds']:.0f} s ({result['milliseconds_a_step']:.0f} ms a step)",
        "at most 180 s",
        result["seconds"] <= 180,
    )
    proof.note("where its scales went", result["scales"])
    jobs = {
        (arm, seed): Job(folder / f"floors_{len(options)}_{seed}", options, seed, CONDITIONS)
        for arm, options in arms.items()
        for seed in SEEDS
    }
    for (arm, seed), report in side_by_side(jobs).items():
        for condition, floor in FLOORS.items():
            value = map_of(report, condition)
            proof.line(
                f"{arm}, seed {seed}: mAP {condition} on unseen scenes",
                f"{value:.3f}",
                f"at least {floor}",
                value >= floor,
            )
        gap = map_of(report, "clean") - map_of(report, "cameras_off")
        proof.line(f"{arm}, seed {seed}: clean above cameras off", f"{gap:.3f}", "at least 0.15", gap >= 0.15)


def stage(bench: Any, part: str, name: str) -> float:
    return float(next(row["p50"] for row in bench[part] if row["stage"] == name))


def speed(proof: Proof) -> None:
    folder = proof.folder
    need_demo_world()
    python = python_with("scipy")
    ours: list[float] = []
    biased: list[float] = []
    peer: list[float] = []
    for turn in range(3):  # in turns, so that a busy moment meets all of them
        dump = folder / "peer.safetensors"
        plain = camber_json(
            "bench", "detector", "--data", WORLD, "--split", "val", "--repeats", 30, "--threads", 2, "--dump", dump
        )
        ours.append(stage(plain, "training", "step"))
        structured = camber_json(
            "bench", "detector", "--data", WORLD, "--split", "val", "--repeats", 30, "--threads", 2, "--bias"
        )
        biased.append(stage(structured, "training", "step"))
        other = run_json(python, "bench/detector_peer.py", dump, "--repeats", 30, "--threads", 2)
        peer.append(other["step_p50"])
        if turn == 0:
            difference = max(other["difference"].values())
            proof.line(
                "the peer computes the same: largest difference of its outputs",
                f"{difference:.1e}",
                "below 1e-3",
                difference < 1e-3,
            )
            proof.line(
                "parameters of the peer",
                other["parameters"],
                plain["parameters"],
                other["parameters"] == plain["parameters"],
            )
            detect = stage(plain, "frame", "detect")
            proof.line("small detector, one frame, p50", f"{detect:.1f} ms", "at most 40 ms", detect <= 40)
    proof.line(
        "training step without bias beside PyTorch's Python",
        f"{min(ours):.1f} against {min(peer):.1f} ms",
        "not slower",
        min(ours) <= min(peer),
    )
    proof.line(
        "training step with the bias over our own without",
        f"{min(biased) / min(ours):.3f} ({min(biased):.1f} ms)",
        "at most 1.10",
        min(biased) <= 1.1 * min(ours),
    )


FAULTY = [
    '--data.faults.kinds=["frozen","stale","ghost","black","empty","lidar_off","cameras_off","camera_off"]',
    "--data.faults.weights=[0.2,0.2,0.2,0.1,0.1,0.1,0.05,0.05]",
    "--data.faults.share=0.7",
]


def trust(proof: Proof) -> None:
    need_demo_world()
    folder = proof.folder
    jobs = {
        mode: Job(
            folder / f"trust_{mode}",
            [*FAULTY, f"--detector.router.mode={mode}", "--loop.steps=700"],
            0,
            ("black:5", "empty", "stale:3", "calibration:3"),
        )
        for mode in ("supervised", "learned")
    }
    for mode, report in side_by_side(jobs).items():
        for condition, sensor in (
            ("black:5", "camera"),
            ("empty", "lidar"),
            ("stale:3", "lidar"),
            ("calibration:3", "camera"),
        ):
            metrics = next(value for name, value in report["trust"].items() if name.startswith(condition))
            area = metrics[sensor]["area_under_curve"]
            if mode == "supervised" and condition in ("black:5", "empty"):
                proof.line(
                    f"supervised trust, AUC of {condition} against live", f"{area:.3f}", "at least 0.9", area >= 0.9
                )
            else:
                proof.note(f"{mode} trust, AUC of {condition} against live", f"{area:.3f}")


def oracle(proof: Proof) -> None:
    need_demo_world()
    folder = proof.folder
    frozen, ghost = "frozen:5:other_scene", "ghost:3"
    kinds = [
        '--data.faults.kinds=["frozen","stale","ghost","lidar_off","cameras_off","camera_off","beams","dark"]',
        "--data.faults.weights=[0.21,0.21,0.21,0.16,0.09,0.04,0.04,0.04]",
        "--data.faults.share=0.7",
    ]
    jobs = {
        (seed, arm): Job(
            folder / f"oracle_{arm}_{seed}",
            [*kinds, f"--detector.router.mode={arm}", "--loop.steps=700"],
            seed,
            (frozen, ghost),
        )
        for seed in SEEDS
        for arm in ("off", "oracle", "learned")
    }
    reports = side_by_side(jobs)
    gains, clean = [], []
    for seed in SEEDS:
        scores = {
            arm: {condition: map_of(reports[seed, arm], condition) for condition in ("clean", frozen, ghost)}
            for arm in ("off", "oracle", "learned")
        }
        plain, best, learned = scores["off"], scores["oracle"], scores["learned"]
        for condition in ("clean", frozen, ghost):
            proof.note(
                f"seed {seed}, {condition}: none, oracle, learned",
                f"{plain[condition]:.3f}, {best[condition]:.3f}, {learned[condition]:.3f}",
            )
        gains.append((learned[frozen] - plain[frozen]) / max(best[frozen] - plain[frozen], 1e-9))
        clean.append(learned["clean"] - plain["clean"])
    share, cost = statistics.mean(gains), statistics.mean(clean)
    proof.line(
        "share of the oracle's gain that the learned router recovers under frozen cameras, mean of three seeds",
        f"{share:.2f} ({', '.join(f'{gain:.2f}' for gain in gains)})",
        "at least 0.5",
        share >= 0.5,
    )
    proof.line("what it costs clean, mean of three seeds", f"{cost:+.3f}", "not below -0.01", cost >= -0.01)


PARTS = parts_of(kills, damage, overfit, floors, speed, trust, oracle)
