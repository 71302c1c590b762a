"""The detector: the head at reference size, matching, stages, invariances, silence, its configurations.

Everything takes about ten minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
import pathlib
from typing import Any

from proofs.programs import (
    BUILD,
    CAMBER,
    DATA,
    ROOT,
    WORLD,
    build_target,
    camber,
    camber_json,
    need_demo_world,
    need_world,
    python_with,
    read_json,
    run,
    run_json,
)
from proofs.report import Proof, parts_of

REFERENCE_WORLD = BUILD / "world_reference"
KEY_FRAME = DATA / "nuscenes_keyframe"
MATCHING = "tests/detection/compare_with_scipy.py"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--run", type=pathlib.Path, help="a trained run for the part silence, instead of a short one")


def head(proof: Proof) -> None:
    bench = camber_json("bench", "head", "--threads", 2)
    times = {row["name"]: row["best_milliseconds"] for row in bench["rows"]}
    proof.note("head, forward, best", ", ".join(f"{name} {time:.0f} ms" for name, time in times.items()))
    proof.line(
        "camber/head and torch/head compute the same: largest difference",
        f"{bench['difference']:.1e}",
        f"at most {bench['tolerance']:.0e} of the largest value",
        bench["difference"] <= bench["tolerance"],
    )
    proof.line(
        "forward beside the same head on nn.MultiheadAttention",
        f"{bench['speedup']:.2f} times faster",
        "at least 3.5",
        bench["speedup"] >= 3.5,
    )
    proof.line(
        "router and bias over the head without",
        f"{100 * bench['router_and_bias']:.1f} %",
        "at most 12 %",
        bench["router_and_bias"] <= 0.12,
    )
    training = bench["training"]
    proof.line(
        f"memory of a training step with {training['denoising_queries']} denoising queries, above the weights",
        f"{training['megabytes_above_weights']:.0f} MB",
        "at most 3,072 MB",
        training["megabytes_above_weights"] <= 3072,
    )


def matching(proof: Proof) -> None:
    folder = proof.folder
    python = python_with("numpy", "scipy")
    build_target("assignment_costs")
    run(python, MATCHING, "matrices", folder / "matrices")
    (folder / "costs").write_text(run(BUILD / "tests/detection/assignment_costs", folder / "matrices").stdout)
    answer = run_json(python, MATCHING, "compare", folder / "matrices", folder / "costs")
    kinds = f"{answer['finite']} finite, {answer['avoided']} with inf or NaN avoided, {answer['unavoidable']} where it cannot be"
    proof.line(
        f"assignment cost beside scipy's on {answer['matrices']} matrices ({kinds}), largest difference",
        f"{answer['worst']:.1e}",
        "at most 1e-12",
        answer["matrices"] == 10000 and answer["worst"] <= 1e-12,
    )
    proof.line(
        "the same: complete, with the fewest entries that are no numbers",
        f"{answer['matrices'] - answer['wrong']} of {answer['matrices']}",
        "all",
        answer["wrong"] == 0,
    )
    run(python, MATCHING, "large", folder / "large")
    milliseconds = float(run(BUILD / "tests/detection/assignment_costs", folder / "large", 50).stdout.split()[3])
    proof.line("900 x 100, best of 50", f"{milliseconds:.2f} ms", "at most 5 ms", milliseconds <= 5)


def table(proof: Proof, title: str, rows: Any) -> None:
    proof.note(title, "stage p50 p95 (ms)")
    for row in rows:
        proof.text(f"  {row['stage']:10} {row['p50']:9.2f} {row['p95']:9.2f}")


def stages(proof: Proof) -> None:
    need_demo_world()
    choices: tuple[list[str], ...] = ([], ["--bias"])
    for bias in choices:
        bench = camber_json(
            "bench",
            "detector",
            "--data",
            WORLD,
            "--split",
            "val",
            "--repeats",
            50,
            "--threads",
            2,
            "--no-training",
            *bias,
        )
        table(proof, f"small detector{' with router and bias' if bias else ''}, one frame", bench["frame"])
        detect = next(row["p50"] for row in bench["frame"] if row["stage"] == "detect")
        proof.line(
            f"small detector{' with router and bias' if bias else ''}, one frame, p50",
            f"{detect:.1f} ms",
            "at most 40 ms",
            detect <= 40,
        )
    if not KEY_FRAME.exists():
        proof.skip("reference detector on the real key frame", f"no data in {KEY_FRAME} (set CAMBER_DATA)")
        return
    bench = camber_json(
        "bench",
        "detector",
        "--preset",
        "reference",
        "--bias",
        "--data",
        KEY_FRAME,
        "--version",
        "v1.0-keyframe",
        "--repeats",
        8,
        "--threads",
        2,
        "--no-training",
    )
    table(
        proof,
        f"reference detector on the real key frame ({bench['parameters']} parameters, {bench['keys']} keys)",
        bench["frame"],
    )
    names = {row["stage"] for row in bench["frame"]}
    proof.line(
        "its stages",
        ", ".join(sorted(names)),
        "decode, voxelise, encode and head among them",
        {"decode", "voxelise", "points", "images", "head"} <= names and bench["keys"] == 22384,
    )


def invariances(proof: Proof) -> None:
    folder = proof.folder
    run(
        BUILD / "tests/detection/detection_test",
        "--gtest_brief=1",
        f"--gtest_output=json:{folder}/tests.json",
        "--gtest_filter=DenoisingQueries.*:Detector.OrderOfCameras*:Detector.Attends*:Detector.Truth*:ReferenceEncoder.*:CmtHead.HasThe*",
        environment={"CAMBER_SOURCE": str(ROOT)},
    )
    tests = {
        f"{test['classname']}.{test['name']}": test
        for suite in read_json(folder / "tests.json")["testsuites"]
        for test in suite["testsuite"]
    }
    denoising = tests["DenoisingQueries.LeaveTheLearnedQueriesAlone"]
    for kind, bound in (("float32", 1e-5), ("float64", 1e-12)):
        proof.line(
            f"learned queries with and without denoising queries, {kind}",
            f"{float(denoising[kind]):.1e}",
            f"at most {bound:.0e}",
            float(denoising[kind]) <= bound,
        )
    cameras = float(tests["Detector.OrderOfCamerasDoesNotMatter"]["difference"])
    proof.line("boxes with the cameras in another order", f"{cameras:.1e}", "under 1e-4", cameras < 1e-4)
    local = tests["Detector.AttendsToItsOwnPositionFromTheStart"]
    for name, what, bound in (("grid", "grid cells within 4 m", 0.12), ("cameras", "the 3 x 3 camera cells", 0.10)):
        share = float(local[name])
        proof.line(
            f"attention at step 0 on {what}", f"{100 * share:.1f} %", f"at least {100 * bound:.0f} %", share >= bound
        )
    for name in (
        "Detector.TruthDoesNotReachInference",
        "CmtHead.HasTheParametersOfTheReferenceSize",
        "ReferenceEncoder.HasTheNamesAndShapesOfTorchvisionsResNet50",
    ):
        proof.line(name, "passed" if name in tests else "did not run", "passed", name in tests)


def silence(proof: Proof) -> None:
    folder = proof.folder
    trained = proof.options.run
    need_demo_world()
    if trained is None:
        trained = folder / "short"
        camber(
            "train",
            "--config",
            "configs/demo.toml",
            "--out",
            trained,
            "--loop.steps=200",
            "--evaluation.limit=4",
            "--evaluation.faults=[]",
        )
    for faults, bounded in (
        ("none", False),
        ("lidar_off", False),
        ("cameras_off", False),
        ("lidar_off,cameras_off", True),
    ):
        camber(
            "predict",
            "--run",
            trained,
            "--data",
            WORLD,
            "--split",
            "test",
            "--limit",
            40,
            "--faults",
            faults,
            "--out",
            folder / "found.json",
        )
        results = read_json(folder / "found.json")["results"]
        best = max((box["detection_score"] for boxes in results.values() for box in boxes), default=0.0)
        count = sum(box["detection_score"] > 0.3 for boxes in results.values() for box in boxes)
        if bounded:
            proof.line(
                f"{trained}, both sensors off: boxes above 0.3 in {len(results)} frames",
                f"{count} (best score {best:.3f})",
                "none",
                count == 0,
            )
        else:
            proof.note(
                f"{trained}, {faults}: boxes above 0.3 in {len(results)} frames", f"{count} (best score {best:.3f})"
            )


def reference(proof: Proof) -> None:
    folder = proof.folder
    need_world(REFERENCE_WORLD, "--reference-size", "--scenes", 10, "--world.frames=2", "--seed", 1)
    python = python_with("torch")
    run(python, "tests/support/resnet50_state.py", folder / "resnet50.pth")
    run(python, "scripts/import_resnet50", folder / "resnet50.pth", folder / "resnet50.safetensors")
    answer = run(
        CAMBER,
        "train",
        "--config",
        "configs/reference.toml",
        "--from",
        folder / "resnet50.safetensors",
        "--out",
        folder / "reference",
        "--loop.steps=2",
        "--loop.accumulate=1",
        "--data.batch_size=1",
        "--evaluation.limit=1",
        "--format",
        "json",
    )
    loaded = "318 tensors loaded" in answer.stderr
    proof.line(
        "configs/reference.toml from torchvision's ResNet-50 by name",
        answer.stderr.split(": ", 1)[-1].split(",")[0] if loaded else answer.stderr[:200],
        "318 tensors loaded",
        loaded,
    )
    result = json.loads(answer.stdout)
    proof.line(
        "configs/reference.toml trains on a simulated world of its size",
        f"{result['milliseconds_a_step'] / 1e3:.1f} s a step of one frame",
        "two steps and an evaluation",
        result["finished"] and result["steps"] == 2,
    )
    need_demo_world()
    for name in ("demo", "small"):
        result = camber_json(
            "train",
            "--config",
            f"configs/{name}.toml",
            "--out",
            folder / name,
            "--loop.steps=5",
            "--evaluation.limit=2",
            "--evaluation.faults=[]",
        )
        proof.line(
            f"configs/{name}.toml trains",
            f"{result['milliseconds_a_step']:.0f} ms a step",
            "five steps and an evaluation",
            result["finished"],
        )


PARTS = parts_of(head, matching, stages, invariances, silence, reference)
