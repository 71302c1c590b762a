"""A detector in use for 100,000 frames: four threads, each with a session, faults, changing calibrations and image sizes.

Memory must be flat and calls must not become slower.
"""

from __future__ import annotations

import argparse

from proofs.programs import BUILD, build_target, run_json
from proofs.report import Proof, parts_of

LONG = 50_000


def sessions(proof: Proof) -> None:
    build_target("soak")
    frames = proof.options.frames
    result = run_json(BUILD / "tests/detection/soak", "--frames", frames, "--threads", 4)
    growth = result["megabytes_at_end"] / result["megabytes_after_warm_up"] - 1
    proof.line(
        f"resident memory after {result['frames']:,} frames over that after {result['warm_up_frames']:,}",
        f"{100 * growth:+.2f} % ({result['megabytes_after_warm_up']:.0f} to {result['megabytes_at_end']:.0f} MB)",
        "at most 2 %",
        growth <= 0.02,
    )
    rise = result["p99_last"] / result["p99_first"] - 1
    what = "p99 of a call, last quarter over first quarter"
    value = f"{100 * rise:+.1f} % ({result['p99_first']:.2f} to {result['p99_last']:.2f} ms)"
    if frames >= LONG:
        proof.line(what, value, "not rising (at most 10 %)", rise <= 0.10)
    else:  # a few seconds beside other tests say nothing about time
        proof.note(what, value)
    proof.note("frames a second, four threads", f"{result['frames'] / result['seconds']:.0f}")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--frames", type=int, default=100_000, help="over all threads")


PARTS = parts_of(sessions)
