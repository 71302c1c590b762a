"""CMT at its published size: weights by recipe, imported, on the real key frame.

The weights are random (a function of names and a seed), so the boxes mean nothing; what is shown is that the whole way from a
checkpoint and a data set's files to boxes runs, gives the same bytes again, and what it takes.
"""

from __future__ import annotations

import json
import math
import os
import pathlib
import subprocess
import time
from typing import Any

from proofs.programs import (
    BUILD,
    CAMBER,
    DATA,
    ROOT,
    WORLD,
    ProgramFailed,
    build_target,
    camber,
    camber_json,
    need_demo_world,
    python_with,
    read_json,
    run,
    run_json,
    run_tests,
    words,
)
from proofs.report import Proof, parts_of

KEY_FRAME = DATA / "nuscenes_keyframe"
RULES = DATA / "cmt_golden/weight_rules.json"
FILES = "tests/cmt/torch_files.py"
SEED = 6
TENSORS = 689
DETECTIONS = 300  # at most, by the published configuration


def recipe(proof: Proof, folder: pathlib.Path) -> pathlib.Path:
    """A model of the published size, imported from a file of torch.save with the original's names; and out again."""
    build_target("cmt_recipe_weights")
    python = python_with("torch")
    made, trained, model = folder / "recipe.pth", folder / "trained.pth", folder / "model.safetensors"
    sums = run(BUILD / "tests/cmt/cmt_recipe_weights", RULES, "cmt_r50", SEED, made).stdout
    proof.note("checksums of four tensors", ", ".join(sums.splitlines()))
    run(python, FILES, "wrap", made, trained)
    report = camber_json("import", "cmt", trained, "--config", "cmt_r50", "--out", model)
    taken = report["loaded"]
    proof.line("tensors of a file of torch.save that are taken", taken, TENSORS, taken == TENSORS)
    camber("export", "cmt", model, "--out", folder / "back.pth")
    back = run_json(python, FILES, "compare", made, folder / "back.pth")
    proof.line(
        "tensors that torch reads back equal to the bit",
        f"{back['equal']} of {back['tensors']}",
        f"all {TENSORS}, 21 sparse convolutions marked as spconv 2",
        back["equal"] == back["tensors"] == TENSORS and back["sparse"] == 42,  # their norms have version 2 as well
    )
    return model


def measured(*command: object) -> tuple[float, float]:
    """Seconds and the peak memory in GB of a program."""
    started = time.monotonic()
    process = subprocess.Popen(words(*command), cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise ProgramFailed(f"{' '.join(words(*command))} failed")
    return time.monotonic() - started, usage.ru_maxrss * 1024 / 1e9


def predict(model: pathlib.Path, out: pathlib.Path, threads: int, precision: str = "float32") -> tuple[float, float]:
    """Seconds and the peak memory in GB of one run over the key frame."""
    return measured(
        CAMBER, "predict", "--checkpoint", model, "--data", KEY_FRAME, "--version", "v1.0-keyframe",
        "--raw", out, "--threads", threads, "--precision", precision, "--quiet",
    )  # fmt: skip


def detections(file: pathlib.Path) -> dict[tuple[int, int], Any]:
    (frame,) = read_json(file)["results"].values()
    return {(row["query"], row["label"]): row for row in frame}


def key_frame(proof: Proof) -> None:
    if not (KEY_FRAME.exists() and RULES.exists()):
        proof.skip("the published size on the real key frame", f"no data in {DATA} (set CAMBER_DATA)")
        return
    folder = proof.folder
    model = recipe(proof, folder)
    for name, threads in (("one", 1), ("again", 1), ("two", 2)):
        seconds, memory = predict(model, folder / f"{name}.json", threads)
        proof.note(f"load, decode and detect, {threads} thread(s)", f"{seconds:.1f} s, peak {memory:.2f} GB")
    one, two = detections(folder / "one.json"), detections(folder / "two.json")
    same = (folder / "one.json").read_bytes() == (folder / "again.json").read_bytes()
    proof.line("detections of the key frame", len(one), f"1 to {DETECTIONS}", 0 < len(one) <= DETECTIONS)
    proof.line("two runs", "the same bytes" if same else "differ", "the same bytes", same)
    shared = one.keys() & two.keys()
    proof.line(
        "(query, label) of 1 and 2 threads", f"{len(shared)} of {len(one)} shared", "all", one.keys() == two.keys()
    )
    worst = max((abs(one[at]["score"] - two[at]["score"]) for at in shared), default=1.0)
    proof.line("their scores, largest difference", f"{worst:.1e}", "at most 1e-5", worst <= 1e-5)
    far = max((abs(a - b) for at in shared for a, b in zip(one[at]["box"][:6], two[at]["box"][:6])), default=1.0)
    proof.line("their centres and sizes, largest difference", f"{far:.1e} m", "at most 1e-3 m", far <= 1e-3)


def precision(proof: Proof) -> None:
    """bfloat16 beside float32: how far boxes move, and what a frame takes of time and memory."""
    if not (KEY_FRAME.exists() and RULES.exists()):
        proof.skip("bfloat16 on the real key frame", f"no data in {DATA} (set CAMBER_DATA)")
        return
    folder = proof.folder
    model = folder / "model.safetensors"
    if not model.exists():
        model = recipe(proof, folder)
    probe = camber(*bench_of(model, "bfloat16"), check=False)
    if "precision must be float32" in probe.stderr:
        proof.skip("bfloat16 on the real key frame", probe.stderr.strip())
        return
    for kind in ("float32", "bfloat16"):
        bench = camber_json(*bench_of(model, kind))
        (frame,) = (row["p50"] for row in bench["frame"] if row["stage"] == "detect")
        memory = bench["memory"] / 1e9
        proof.note(f"one frame in {kind}, one thread, processor time", f"{frame / 1e3:.2f} s")
        proof.line(
            f"memory of a frame in {kind} above the weights",
            f"{memory:.2f} GB",
            "at most 0.8 GB (aim 0.5)",
            memory <= 0.8,
        )
        predict(model, folder / f"{kind}.json", 1, kind)
    exact, rounded = detections(folder / "float32.json"), detections(folder / "bfloat16.json")
    best = sorted(exact, key=lambda at: -exact[at]["score"])[:100]
    far = [math.dist(exact[at]["box"][:3], rounded[at]["box"][:3]) for at in best if at in rounded]
    proof.note("best 100 detections that bfloat16 finds too", f"{len(far)} of {len(best)}")
    proof.line("their centres, furthest moved by bfloat16", f"{max(far):.2f} m", "at most 0.15 m", max(far) <= 0.15)


def bench_of(model: pathlib.Path, kind: str) -> list[str]:
    return words(
        "bench", "detector", "--checkpoint", model, "--data", KEY_FRAME, "--version", "v1.0-keyframe", "--precision", kind,
        "--threads", 1, "--clock", "processor", "--repeats", 2, "--warmup", 1, "--no-training", "--batch", 1,
    )  # fmt: skip


def world(proof: Proof) -> None:
    """A reduced CMT that learned on the simulated world, evaluated in both precisions."""
    folder = proof.folder / "cmt_small"
    need_demo_world()
    camber("train", "--config", "configs/cmt_small.toml", f"--data.root={WORLD}", "--out", folder)
    scores = {}
    for kind in ("float32", "bfloat16"):
        answer = camber(
            "eval",
            "--run",
            folder,
            "--split",
            "test",
            "--limit",
            200,
            "--precision",
            kind,
            "--format",
            "json",
            check=False,
        )
        if "precision must be float32" in answer.stderr:
            proof.skip("bfloat16 on the simulated world", answer.stderr.strip())
            return
        scores[kind] = json.loads(answer.stdout)["clean"]["mean_ap"]
    lost = 100 * (scores["float32"] - scores["bfloat16"])
    proof.note(
        "mAP on 200 frames of unseen scenes",
        f"{scores['float32']:.4f} in float32, {scores['bfloat16']:.4f} in bfloat16",
    )
    proof.line("mAP that bfloat16 loses", f"{lost:.2f} points", "at most 0.2 points", lost <= 0.2)


def stages(proof: Proof) -> None:
    run_tests(proof, "stages, gradients, files and preprocessing against the original", "^cmt")


PARTS = parts_of(key_frame, precision, world, stages)
