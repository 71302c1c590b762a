"""The study's machinery: kills, statistics beside scipy and statsmodels, tables from records; about ten minutes."""

from __future__ import annotations

import pathlib
import random
import shutil
import signal
import subprocess
import time
from typing import Any

from proofs.programs import (
    BUILD,
    CAMBER,
    PASSIVE,
    build_target,
    camber,
    finish,
    python_of_versions,
    read_json,
    run,
    run_json,
    start,
)
from proofs.report import Proof, parts_of

TIMES = ("milliseconds_a_step", "training_seconds", "evaluation_seconds")


def small(folder: pathlib.Path, world: pathlib.Path, step: str = "run") -> list[object]:
    return ["study", step, "--config", "configs/study_small.toml", "--out", folder, f"--world.root={world}"]


def records(folder: pathlib.Path) -> dict[str, Any]:
    found = {}
    for file in sorted((folder / "records").glob("*.json")):
        record = read_json(file)
        found[file.stem] = {key: value for key, value in record.items() if key not in TIMES}
    return found


def kills(proof: Proof) -> None:
    folder = proof.folder
    world, unbroken, killed = folder / "world", folder / "unbroken", folder / "killed"
    camber(*small(folder / "first", world, "estimate"), environment=PASSIVE)  # makes the world
    began = time.time()
    camber(*small(unbroken, world), environment=PASSIVE)
    whole = time.time() - began
    dice, done, finished = random.Random(), 0, 0
    while done < 20:
        process = start(*small(killed, world), environment=PASSIVE)
        try:
            process.wait(dice.uniform(0.02, 0.35) * whole)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            done += 1
        else:  # it ended before its moment came: its numbers must be right too, then begin again
            finish(process)
            finished += records(killed) == records(unbroken)
            proof.line(
                "a study that was finished between the kills has the same records",
                finished,
                "each of them",
                records(killed) == records(unbroken),
            )
            shutil.rmtree(killed)
    camber(*small(killed, world), environment=PASSIVE)
    same = records(killed) == records(unbroken)
    proof.line(
        f"kill -9 at {done} random moments of a study of {len(records(unbroken))} runs ({whole:.0f} s): its records without times",
        "the same" if same else "other",
        "those of an unbroken study",
        same,
    )
    printed = [run(CAMBER, "study", "tables", "--from", one).stdout for one in (unbroken, killed)]
    without_time = [text.split("### Time")[0] for text in printed]
    proof.line(
        "the same: every table but that of times",
        "the same" if without_time[0] == without_time[1] else "other",
        "those of an unbroken study",
        without_time[0] == without_time[1],
    )


def statistics(proof: Proof) -> None:
    build_target("study_statistics")
    python = python_of_versions(".venv-study", "numpy==2.2.6", "scipy==1.15.3", "statsmodels==0.14.4")
    answer = run_json(python, "tests/study/compare_with_scipy.py", BUILD / "tests/study/study_statistics")
    for name, (cases, worst) in answer.items():
        proof.line(
            f"{name} beside scipy and statsmodels: largest difference, relative above 1",
            f"{worst:.1e} in {cases} cases",
            "at most 1e-9",
            worst <= 1e-9,
        )


def tables(proof: Proof) -> None:
    kept, copy = pathlib.Path("study/tables.md"), proof.folder / "tables.md"
    shutil.copy(kept, copy)
    run(CAMBER, "study", "tables", "--from", "study/records", "--into", copy)
    same = copy.read_bytes() == kept.read_bytes()
    proof.line(f"{kept} made again from study/records", "the same" if same else "other", "the same bytes", same)


PARTS = parts_of(statistics, tables, kills)
