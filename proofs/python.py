"""The Python package: the metrics beside the running devkit, export to AOTInductor, work that Python starts in other processes."""

from __future__ import annotations

import json
import os
import re

from proofs.nuscenes import passes
from proofs.programs import BUILD, CAMBER, ROOT, build_target, devkit_python, run
from proofs.report import Proof, parts_of

PYTHON = os.environ.get("CAMBER_PYTHON", str(ROOT / ".venv/bin/python"))
ENVIRONMENT = {"PYTHONPATH": str(ROOT / "python"), "OMP_WAIT_POLICY": "passive"}


def agreement(proof: Proof) -> None:
    passes(
        proof, "camber.nuscenes.evaluate and DetectionEval on 50 random sets beside the devkit's", devkit_python(),
        "tests/eval/devkit/agreement.py", "--python", PYTHON, "--sets", 50,
    )  # fmt: skip


def ahead_of_time(proof: Proof) -> None:
    answer = run(PYTHON, "examples/export_decoder.py", proof.folder / "decoder.pt2", environment=ENVIRONMENT)
    found = re.search(r"differs by (\S+)", answer.stdout)
    difference = float(found[1]) if found else float("inf")
    proof.line(
        "a decoder through torch.export and AOTInductor", f"differs by {difference:.1e}", "1e-5", difference <= 1e-5
    )


def compiled(proof: Proof) -> None:
    """The decoder by inductor's own code, whole and with gradients."""
    code = (
        "import sys; sys.path[:0] = ['python/tests', 'examples']\n"
        "import torch, test_drop_in as t\n"
        "decoder, values = t.model(), t.inputs()\n"
        "wanted = t.gradients(decoder, values); decoder.zero_grad()\n"
        "t.loss_of(torch.compile(decoder, fullgraph=True)(*values)).backward()\n"
        "print(max(((p.grad - wanted[n]).abs().max() / wanted[n].abs().max()).item() for n, p in decoder.named_parameters()))"
    )
    worst = float(run(PYTHON, "-c", code, environment=ENVIRONMENT).stdout.splitlines()[-1])
    proof.line("gradients of the compiled decoder, to their largest", f"{worst:.1e}", "1e-5", worst <= 1e-5)


def other_processes(proof: Proof) -> None:
    """A bench that starts itself again for each row of memory, here by `python -m camber`."""
    command = ("bench", "attention", "--queries", 8, "--keys", 5000, "--heads", 1, "--width", 8, "--only", "camber/windows",
               "--format", "json", "--quiet")  # fmt: skip

    def measured(*program: object) -> set[str]:
        rows = json.loads(run(*program, *command, environment=ENVIRONMENT).stdout)["rows"]
        return {f"{row['name']} {row['pass']}" for row in rows if row["extra_megabytes"] is not None}

    here, there = measured(PYTHON, "-m", "camber"), measured(CAMBER)
    proof.line(
        "rows whose memory a process of its own measured",
        len(here),
        f"the executable's {len(there)}",
        here == there != set(),
    )


def program_tests(proof: Proof) -> None:
    """The tests of the executable, run on `python -m camber` in its stead."""
    wrapper = proof.folder / "camber"
    wrapper.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT / "python"} exec {PYTHON} -m camber "$@"\n')
    wrapper.chmod(0o755)
    build_target("apps_test")
    passes(
        proof, "tests of the program pass on python -m camber", BUILD / "tests/apps/apps_test", "--gtest_brief=1",
        environment={"CAMBER_PROGRAM": str(wrapper), "CAMBER_SOURCE": str(ROOT)},
    )  # fmt: skip


PARTS = parts_of(agreement, ahead_of_time, compiled, other_processes, program_tests)
