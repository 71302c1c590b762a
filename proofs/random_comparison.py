"""3,000 random calls of biased_attention: fused and streamed against the reference in double.

Over shapes, strides, expanded views, masks, -inf, NaN in one row, dropout, six gradients, statistics, 1 to 3 threads and
every instruction set of this CPU. CAMBER_RANDOM_CASES sets another number of calls.
"""

from __future__ import annotations

import os

from proofs.programs import BUILD, PASSIVE, run
from proofs.report import Proof, parts_of


def random_calls(proof: Proof) -> None:
    cases = os.environ.get("CAMBER_RANDOM_CASES", "3000")
    answer = run(
        BUILD / "tests/ops/ops_test",
        "--gtest_brief=1",
        "--gtest_filter=RandomComparison.*",
        check=False,
        environment={**PASSIVE, "CAMBER_RANDOM_CASES": cases},
    )
    holds = answer.returncode == 0
    if not holds:
        proof.text(answer.stdout)
    value = f"{cases} of {cases}" if holds else f"not all of {cases}"
    proof.line("random calls that agree with the reference", value, "all", holds)


PARTS = parts_of(random_calls)
