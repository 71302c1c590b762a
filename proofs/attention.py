"""The attention kernels: every value against its target, each a ratio within one run.

It measures for some ten minutes, on a quiet machine; --read takes what `make bench` and `make bench-peers` wrote.
"""

from __future__ import annotations

import argparse
import os
import pathlib
from typing import Any

from bench import tables
from proofs.programs import ProgramFailed, camber_json, run
from proofs.report import Proof, parts_of

HELD_TO_AVX2 = {
    "CAMBER_ISA": "avx2",
    "ATEN_CPU_CAPABILITY": "avx2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--read", action="store_true", help="read bench/results instead of measuring")


def measured(proof: Proof) -> list[Any]:
    attention = camber_json("bench", "attention")
    avx2 = camber_json(
        "bench", "attention", "--no-memory", "--only", "camber/windows,sdpa/no_bias", environment=HELD_TO_AVX2
    )
    answer = run("scripts/bench_peers", "--repeats", 3, check=False)
    if answer.returncode != 0:
        proof.text("other packages could not be measured: " + answer.stderr.strip()[-300:])
        return [attention, avx2, None]
    return [attention, avx2, tables.load("peers.json")]


def recorded() -> list[Any]:
    answers = [tables.load(name) for name in ("attention.json", "attention_avx2.json", "peers.json")]
    if answers[0] is None:
        raise ProgramFailed("bench/results/attention.json is not there: run `make bench`")
    return answers


def reason_to_skip(what: str) -> str:
    """Why this machine cannot show a value, or nothing."""
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    flags = next((line for line in lines if line.startswith("flags")), "")
    if what.startswith("bfloat16") and "avx512_bf16" not in flags:
        return "this CPU has no bfloat16 dot products (avx512_bf16); bfloat16 is converted to float"
    return ""


def promises(proof: Proof) -> None:
    answers = recorded() if proof.options.read else measured(proof)
    runs = tables.Runs(*answers)
    peak = answers[0]["peak"]
    proof.text(
        f"{answers[0]['processor']}, {answers[0]['threads']} threads, {peak['instructions']}: "
        f"{peak['fma_gflops']:.1f} GFLOP/s of multiply-adds; load {os.getloadavg()[0]:.1f}"
    )
    for what, bound, aim, unit, measure in tables.PROMISES:
        if not bound:
            continue
        value, reason = measure(runs), reason_to_skip(what)
        shown = tables.MISSING if value is None else f"{value:.2f} {unit}".strip()
        target = f"{bound}{' ' + unit if unit else ''}{', aim ' + aim if aim else ''}"
        if reason:
            proof.skip(what, f"{shown}; {reason}", target)
        else:
            proof.line(what, shown, target, value is not None and tables.is_met(bound, value) == "yes")


PARTS = parts_of(promises)
