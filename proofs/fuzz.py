"""A million damaged inputs for every reader, under the address and undefined-behaviour sanitizers, by libFuzzer.

None may crash, take a second of the processor's time, ask for more than 512 MB at once, or bring the process over 768 MB.
Executions a second, coverage (edges of the code reached) and the largest memory are printed, for each target as it is done,
those that take minutes before those that take hours. What was cut off goes on with `--targets` and the names of the rest. scripts/fuzz builds the programs and
runs one target alone.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import re

from proofs.programs import Result, run
from proofs.report import Proof, parts_of

# A hundred times slower than a reader: each input is a data set, a run or a study, and each execution a sub-command.
SLOW = ("study_page", "inspect", "metrics", "faults")


def search(target: str, runs: int) -> Result:
    return run("scripts/fuzz", target, check=False, environment={"CAMBER_FUZZ_RUNS": str(runs)})


def number_in(pattern: str, text: str) -> int:
    found = re.findall(pattern, text)
    return int(found[-1]) if found else 0


def readers(proof: Proof) -> None:
    targets = proof.options.targets or run("scripts/fuzz", "--list").stdout.split()
    runs = proof.options.runs
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        searches = {pool.submit(search, target, runs): target for target in sorted(targets, key=SLOW.__contains__)}
        for done_search in concurrent.futures.as_completed(searches):
            target, answer = searches[done_search], done_search.result()
            text = answer.stdout + answer.stderr
            done = number_in(r"number_of_executed_units:\s*(\d+)", text)
            rate = number_in(r"average_exec_per_sec:\s*(\d+)", text)
            edges = number_in(r"DONE\s+cov: (\d+)", text)
            memory = number_in(r"peak_rss_mb:\s*(\d+)", text)
            holds = answer.returncode == 0 and done >= runs
            value = f"{done:,} executions, {rate:,} a second, {edges:,} edges, {memory} MB"
            proof.line(f"{target}: none breaks it", value, f"at least {runs:,}", holds)
            if answer.returncode != 0:
                proof.text(text[-2000:])


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=int, default=1_000_000, help="executions of each target")
    parser.add_argument("--targets", nargs="*", help="only these")


PARTS = parts_of(readers)
