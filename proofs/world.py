"""The simulated world, its faults, its cues and the loader."""

from __future__ import annotations

import argparse
import hashlib
import os
import pathlib
import resource
from typing import Any

from proofs.programs import camber, camber_json, devkit_python, read_json, run, run_tests
from proofs.report import Proof, parts_of

VERSION = "v1.0-simulated"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--long", action="store_true", help="cues on the world of 200 scenes instead of 20")


def cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def digest(folder: pathlib.Path) -> dict[str, str]:
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            files[str(path.relative_to(folder))] = hashlib.sha256(path.read_bytes()).hexdigest()
    return files


def large_world(proof: Proof) -> pathlib.Path:
    """The world that speed_and_size times; made here when that part was not asked for."""
    folder = proof.folder / "large"
    if not folder.exists():
        camber("simulate", "--out", folder, "--scenes", 200, "--seed", 1, "--threads", 2)
    return folder


def small_world(proof: Proof) -> pathlib.Path:
    folder = proof.folder / "small"
    if not folder.exists():
        camber("simulate", "--out", folder, "--scenes", 20, "--seed", 7, "--threads", 2)
    return folder


def speed_and_size(proof: Proof) -> None:
    before = cpu_seconds()
    summary = camber_json("simulate", "--out", proof.folder / "large", "--scenes", 200, "--seed", 1, "--threads", 2)
    per_frame = 1e3 * (cpu_seconds() - before) / summary["frames"]
    proof.line(
        "default frames written a second on two cores",
        f"{summary['frames_per_second']} ({per_frame:.1f} ms of CPU time a frame, load {os.getloadavg()[0]:.1f})",
        "at least 40",
        summary["frames_per_second"] >= 40,
    )
    proof.line(
        f"size of {summary['frames']} frames",
        f"{summary['bytes'] / 1e6:.0f} MB",
        "under 500 MB",
        summary["bytes"] < 500e6,
    )


def threads(proof: Proof) -> None:
    folder = proof.folder / "threads"
    runs = []
    for count in (1, 2, 3):
        out = folder / str(count)
        camber("simulate", "--out", out, "--scenes", 4, "--seed", 5, "--threads", count)
        runs.append(digest(out))
    proof.line(
        "same seed, same bytes for 1, 2 and 3 threads",
        f"{len(runs[0])} files compared",
        "all alike",
        runs[0] == runs[1] == runs[2],
    )


def splits(proof: Proof) -> None:
    folder = large_world(proof)
    simulation = read_json(folder / VERSION / "simulation.json")
    kinds: dict[str, dict[str, set[Any]]] = {"instances": {}, "texture seeds": {}, "files": {}}
    for scene in simulation["scenes"]:
        for instance in scene["instances"]:
            kinds["instances"].setdefault(scene["split"], set()).add(instance["instance_token"])
            kinds["texture seeds"].setdefault(scene["split"], set()).add(instance["texture_seed"])
    for name, value in digest(folder).items():
        for split in ("train", "val", "test"):
            if f"simulated-{split}-" in name:
                kinds["files"].setdefault(split, set()).add(value)
    for kind, sets in kinds.items():
        count = {split: len(values) for split, values in sets.items()}
        proof.line(
            f"{kind} that two splits share",
            f"{sum(count.values()) - len(set().union(*sets.values()))} of {count}",
            "0",
            len(sets) == 3 and sum(count.values()) == len(set().union(*sets.values())),
        )


def gates(proof: Proof) -> None:
    folder = large_world(proof)
    report = camber_json("inspect", "--data", folder, "--gates")
    pair = next(p for p in report["pairs"] if p["first"].startswith("human") and "cone" in p["second"])
    for value, what in (("size", "size alone"), ("lidar", "the LiDAR's returns"), ("color", "mean colour")):
        proof.line(
            f"pedestrian or cone by {what}, nearest neighbour",
            f"{pair[value]:.3f}",
            "0.4 to 0.6 (chance 0.5)",
            0.4 <= pair[value] <= 0.6,
        )
    proof.line("pedestrian or cone by the whole image", f"{pair['image']:.3f}", "above 0.8", pair["image"] > 0.8)
    pair = next(p for p in report["pairs"] if p["first"] == "vehicle.car" and p["second"] == "vehicle.truck")
    proof.line(
        "car or truck: the LiDAR's lead over the image",
        f"{pair['lidar']:.3f} against {pair['image']:.3f}",
        "at least 0.2",
        pair["lidar"] - pair["image"] >= 0.2,
    )
    for gate in report["gates"]:
        proof.line("gate", gate["sentence"], "holds", gate["holds"])


def cues(proof: Proof) -> None:
    folder = large_world(proof) if proof.options.long else small_world(proof)
    report = camber_json("inspect", "--data", folder, "--split", "test", "--cues")
    worst: dict[str, float] = {}
    for row in report["faults"]:
        kind = row["fault"].split(":")[0] + (" (false timestamps)" if row["fault"].endswith("false_timestamps") else "")
        worst[kind] = min(worst.get(kind, 1), row["joint"])
        proof.text(f"{row['fault']:28} AUC age {row['age']:.3f}  level {row['level']:.3f}  joint {row['joint']:.3f}")
    for kind, value in worst.items():
        target = 0.85 if kind == "dark" else 0.95
        proof.line(
            f"cues betray {kind}, worst of five severities", f"AUC {value:.3f}", f"at least {target}", value >= target
        )
    proof.line("cues of a frame", f"{report['milliseconds']:.3f} ms", "under 1 ms", report["milliseconds"] < 1)


def devkit(proof: Proof) -> None:
    folder, faulted = small_world(proof), proof.folder / "faulted"
    camber("faults", "--data", folder, "--faults", "stale:2,calibration:1", "--out", faulted)
    python, check = devkit_python(), "tests/simulation/devkit_check.py"
    for name, command in (
        ("simulated data", [check, folder, VERSION]),
        ("a faulted copy", [check, faulted, VERSION, "--only-open"]),
    ):
        answer = run(python, *command, check=False)
        proof.text(answer.stdout)
        green = answer.returncode == 0
        proof.line(f"nuscenes-devkit on {name}", "green" if green else answer.stderr[-300:], "green", green)


def tests(proof: Proof) -> None:
    names = "^(simulation|data.*|apps.WorldProgram)$"
    run_tests(proof, "tests of every fault, the loader's resumption, the world", names)


PARTS = parts_of(speed_and_size, splits, threads, gates, cues, devkit, tests)
