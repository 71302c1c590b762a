"""Bad inputs: each is answered by one sentence that names what is wrong, before any work is done."""

from __future__ import annotations

import argparse
import json
import pathlib
import sys

from proofs import hostile_list, hostile_trial
from proofs.hostile_case import Case, Scene, answer_of
from proofs.programs import ROOT, camber
from proofs.report import Proof, parts_of

TINY = """
[data]
root = "w"
batch_size = 2
[detector.router]
mode = "learned"
[detector.bias]
segments = true
[loop]
steps = 3
checkpoint_every = 3
[evaluation]
limit = 2
"""


def scene_of(folder: pathlib.Path) -> Scene:
    """A world of fifteen frames and a run of three steps on it."""
    if (folder / "w").exists():
        return Scene(folder)
    camber("simulate", "--out", folder / "w", "--scenes", 5, "--world.frames=3", "--seed", 7)
    (folder / "tiny.toml").write_text(TINY.replace('"w"', json.dumps(str(folder / "w"))))
    camber("train", "--config", folder / "tiny.toml", "--out", folder / "run", "--seed", 3, "--threads", 1)
    camber("predict", "--run", folder / "run", "--split", "test", "--out", folder / "ok.json", "--threads", 1)
    (folder / "gt.json").write_text((folder / "ok.json").read_text())
    return Scene(folder)


def replay(proof: Proof, cases: tuple[Case, ...], what: str) -> None:
    cases = cases[:: max(1, proof.options.every)]
    scene = scene_of(proof.folder)
    bad = []
    for number, case in enumerate(cases, 1):
        placed = Case(**{**case.__dict__, "command": case.command.replace("CONFIGS", str(ROOT / "configs"))})
        wrong = answer_of(placed, scene)
        if wrong:
            bad.append(f"{case.name}: {wrong}")
        if sys.stderr.isatty():
            print(f"\r{number} of {len(cases)}", end="", file=sys.stderr, flush=True)
    proof.line(what, f"{len(cases) - len(bad)} of {len(cases)} answered well", "all", not bad)
    proof.text("\n".join(bad))


def trial(proof: Proof) -> None:
    replay(proof, hostile_trial.CASES, "bad inputs of the trial")


def own(proof: Proof) -> None:
    replay(proof, hostile_list.CASES, "bad inputs by sub-command")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--every", type=int, default=1, help="of the inputs only every so many")


PARTS = parts_of(trial, own)
