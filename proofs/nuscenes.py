"""The reader and the metrics: the real key frame, the running nuscenes-devkit, damaged files."""

from __future__ import annotations

import os
from collections.abc import Mapping

from proofs.programs import BUILD, CAMBER, ROOT, build_target, devkit_python, run
from proofs.report import Proof, parts_of


def passes(proof: Proof, what: str, *command: object, environment: Mapping[str, str] | None = None) -> None:
    """What a checking program printed, and a line that says whether it was content."""
    answer = run(*command, check=False, environment=environment)
    print(answer.stdout + answer.stderr, end="", flush=True)
    holds = answer.returncode == 0
    proof.line(what, "passed" if holds else "failed", "passed", holds)


def key_frame(proof: Proof) -> None:
    program = BUILD / "tests/sensors/sensors_test"
    passes(proof, "the real key frame is read", program, "--gtest_brief=1", "--gtest_filter=RealKeyFrame.*")


def metrics(proof: Proof) -> None:
    passes(proof, "tests of the metrics", BUILD / "tests/eval/eval_test", "--gtest_brief=1")


def agreement(proof: Proof) -> None:
    program = "tests/eval/devkit/agreement.py"
    passes(
        proof, "metrics of 50 random sets beside the devkit's", devkit_python(), program, "--program", CAMBER,
        "--sets", 50,
    )  # fmt: skip
    own = ("env", "-u", "OPENBLAS_CORETYPE", "-u", "NPY_DISABLE_CPU_FEATURES", ROOT / ".venv-devkit/bin/python")
    passes(
        proof, "the same with the arithmetic that numpy chooses here", *own, program, "--own-arithmetic",
        "--program", CAMBER, "--sets", 10,
    )  # fmt: skip


def refusals(proof: Proof) -> None:
    program = "tests/eval/devkit/refusals.py"
    passes(proof, "damaged results are refused as the devkit does", devkit_python(), program, "--program", CAMBER)


def reader(proof: Proof) -> None:
    build_target("reader_dump")
    dump = BUILD / "tests/nuscenes/reader_dump"
    passes(proof, "tables are read as the devkit does", devkit_python(), "tests/eval/devkit/reader.py", "--dump", dump)


def damaged_files(proof: Proof) -> None:
    count = os.environ.get("CAMBER_FUZZ_ITERATIONS", "20000")
    passes(
        proof,
        f"{count} damaged files a reader",
        BUILD / "tests/fuzz/fuzz_test",
        "--gtest_brief=1",
        environment={"CAMBER_FUZZ_ITERATIONS": count},
    )


PARTS = parts_of(key_frame, metrics, agreement, refusals, reader, damaged_files)
