"""Metrics and tables of the official sizes beside nuscenes-devkit, in one run.

It takes ten minutes on two idle cores, 4 GB of the temporary folder and 12 GB of memory, nearly all of it for the devkit.
"""

from __future__ import annotations

from proofs.programs import CAMBER, devkit_python, run
from proofs.report import Proof, parts_of


def comparison(proof: Proof) -> None:
    answer = run(devkit_python(), "bench/nuscenes/compare.py", "--program", CAMBER, check=False)
    print(answer.stdout + answer.stderr, end="", flush=True)
    proof.line(
        "speed and memory beside nuscenes-devkit",
        "reached" if answer.returncode == 0 else "not all reached",
        "each of the lines above",
        answer.returncode == 0,
    )


PARTS = parts_of(comparison)
