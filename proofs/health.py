"""The health monitor, its files and the report page: about a quarter of an hour on two cores."""

from __future__ import annotations

import json
import pathlib
import random
import signal
import statistics
import time
from typing import Any

from proofs.programs import BUILD, camber, camber_json, need_demo_world, run, run_tests, start, tensorboard_python
from proofs.report import Proof, parts_of


def demo(out: pathlib.Path, *options: str) -> list[object]:
    return ["--config", "configs/demo.toml", "--out", out, "--evaluation.limit=4", "--evaluation.faults=[]", *options]


def records(out: pathlib.Path) -> list[Any]:
    text = (out / "metrics.jsonl").read_text()
    return [json.loads(entry) for entry in text[: text.rfind("\n") + 1].splitlines()]


def tests(proof: Proof) -> None:
    run_tests(
        proof,
        "values against float64, rules, made-up runs, golden bytes, TensorBoard, the page in Chromium",
        "^(health|report|train|web|tensorboard)$",
    )


# The four situations in a real training: each is brought about by its configuration.
def situations(proof: Proof) -> None:
    folder = proof.folder
    need_demo_world()
    cases: dict[str, tuple[list[str], set[str]]] = {
        "healthy": ([], set()),
        "runaway scale": (["--detector.bias.scale.constraint=none", "--loop.groups.scale_lr_mult=400"], {"near_cap"}),
        "no gradient": (
            [
                "--detector.bias.scale.constraint=clamp",
                "--detector.bias.scale.init=5",
                "--loop.groups.scale_lr_mult=400",
                "--detector.router.mode=constant",
            ],
            {"no_gradient", "at_cap"},
        ),
        "saturated softmax": (
            [
                "--detector.bias.scale.init=60",
                "--detector.bias.scale.max=80",
                "--detector.bias.scale.warn_threshold=80",
                "--detector.router.mode=constant",
                "--detector.bias.segments=false",
                "--detector.bias.form=gaussian",
            ],
            {"saturated_softmax"},
        ),
    }
    for name, (options, wanted) in cases.items():
        out = folder / name.replace(" ", "_")
        camber("train", *demo(out, "--loop.steps=50", "--health.interval=5", "--health.rules.window=4", *options))
        found = camber_json("analyze", "run", out)["findings"]
        spoken = {finding["rule"]: finding["step"] for finding in found if finding["severity"] != "note"}
        if wanted:
            proof.line(
                f"{name} in a real training",
                ", ".join(f"{rule} at step {step}" for rule, step in spoken.items()) or "silence",
                f"{' or '.join(sorted(wanted))} within 50 steps",
                bool(wanted & set(spoken)),
            )
        else:
            proof.line(f"{name} training of 50 steps", ", ".join(spoken) or "silence", "silence", not spoken)


# On and off in one run: two steps of which one is sampled beside the next two of which none is, by the clock of the
# records, so that everything counts: the statistics in the attention, the values, the rules, the files.
def cost(proof: Proof) -> None:
    folder = proof.folder
    need_demo_world()
    out, every, interval = folder / "cost", 4, 10
    camber("train", *demo(out, "--loop.steps=240", f"--health.interval={every}", "--log_every=1"))
    clock: dict[int, float] = {}
    sampled: set[int] = set()
    for entry in records(out):
        clock.setdefault(entry["step"], entry["time"])
        if any(key.startswith("attention/") for key in entry):
            sampled.add(entry["step"])
    pairs = [
        (clock[step + 1] - clock[step - 1], clock[step + 3] - clock[step + 1])
        for step in sorted(sampled)
        if step > 20 and step + 3 in clock
    ]
    extra = statistics.median(first - second for first, second in pairs)
    plain = statistics.median(second for _, second in pairs) / 2
    share = extra / interval / plain
    proof.line(
        f"monitoring every {interval} steps: a sampled step takes {1e3 * extra:.1f} ms more than the {1e3 * plain:.1f} ms of one "
        f"that is not (median of {len(pairs)} pairs in one run)",
        f"{100 * share:.2f} % of the step",
        "under 3 %",
        share < 0.03,
    )


def readable_files(out: pathlib.Path, python: str) -> tuple[list[int], bool, str]:
    whole = records(out)
    header, *rows = (out / "metrics.csv").read_text().split("\n")
    columns = header.count(",")
    steps = [entry["step"] for entry in whole]
    table = [int(row.split(",")[0]) for row in rows[:-1] if row.count(",") == columns]
    events = run(python, "tests/health/tensorboard_check.py", "--at-least", out, check=False)
    return (
        steps,
        steps == sorted(steps) and len(table) >= len(steps) - 1 and events.returncode == 0,
        events.stderr[-300:],
    )


def written(out: pathlib.Path) -> str:
    text = (out / "metrics.jsonl").read_text() if (out / "metrics.jsonl").exists() else ""
    return text[: text.rfind("\n") + 1]


# Kills while a run starts (files must stay readable) and while it writes (what a reader saw just before must be there).
def kills(proof: Proof) -> None:
    folder = proof.folder
    need_demo_world()
    python = tensorboard_python()
    out, dice, good = folder / "killed", random.Random(), 0
    problems: list[str] = []
    for number in range(20):
        arguments = (
            ["--resume", out]
            if (out / "config.toml").exists()
            else demo(out, "--loop.steps=100000", "--loop.checkpoint_every=5", "--log_every=1", "--health.interval=2")
        )
        began = time.time()
        process = start("train", *arguments)
        writes = number % 4 != 0
        while (
            writes
            and process.poll() is None
            and not any(entry["time"] > began for entry in map(json.loads, written(out).splitlines()))
        ):
            time.sleep(0.05)
        time.sleep(dice.uniform(0, 3))
        seen = written(out) if writes else ""
        process.send_signal(signal.SIGKILL)
        process.wait()
        if not written(out):
            good += 1  # killed before its first record
            continue
        steps, readable, words = readable_files(out, python)
        holds = readable and written(out).startswith(seen)
        good += holds
        if not holds:
            problems.append(f"kill {number}: {len(steps)} records, {words}")
    proof.line(
        "kill -9 at 20 random moments: every file readable, nothing lost that a reader had seen",
        f"{good} of 20, {len(records(out))} records at the end{'; ' + '; '.join(problems) if problems else ''}",
        "20 of 20",
        good == 20,
    )


def page(proof: Proof) -> None:
    folder = proof.folder
    out = folder / "large"
    run(BUILD / "tests/health/made_run", out, "healthy", 100000, 100)
    began = time.time()
    camber("report", out, "--out", folder / "large.html")
    proof.line(
        "the page of 100,000 points a curve",
        f"{(folder / 'large.html').stat().st_size / 1e6:.1f} MB in {time.time() - began:.1f} s",
        "under 10 MB",
        (folder / "large.html").stat().st_size < 10e6,
    )
    answer = run("ctest", "--preset", "release", "-R", "^web$", "-V", check=False)
    opened = [text.split("opened in ")[1] for text in answer.stdout.splitlines() if "opened in" in text]
    proof.line(
        "opened in Chromium",
        opened[0] if opened else "not at all",
        "under 1 s",
        answer.returncode == 0 and bool(opened),
    )


PARTS = parts_of(tests, situations, cost, kills, page)
