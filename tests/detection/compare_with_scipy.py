"""Draws cost matrices and holds the costs of our assignments beside scipy's, for the proof of the matching.

python compare_with_scipy.py matrices FILE      10,000 matrices: finite, with ties, with inf, with NaN
python compare_with_scipy.py large FILE         one of 900 x 100
python compare_with_scipy.py compare FILE COSTS what assignment_costs printed for FILE, as JSON
"""

import json
import struct
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

Matrix = np.ndarray[Any, np.dtype[np.float64]]


def write(file: BinaryIO, cost: Matrix) -> None:
    file.write(struct.pack("<qq", *cost.shape) + cost.tobytes())


def draw(path: str) -> None:
    rng = np.random.default_rng(0)
    with open(path, "wb") as file:
        for i in range(10000):
            rows, columns = rng.integers(1, 41, 2)
            cost = rng.normal(size=(rows, columns)) * 10.0 ** rng.integers(-3, 4)
            if i % 4 == 1:
                cost = rng.integers(0, 4, (rows, columns)).astype(float)  # ties
            if i % 4 == 2:
                cost[rng.random((rows, columns)) < (0.2, 0.9)[i % 8 > 3]] = np.inf
            if i % 4 == 3:
                cost[rng.random((rows, columns)) < (0.2, 0.9)[i % 8 > 3]] = np.nan
            write(file, cost)


def draw_large(path: str) -> None:
    with open(path, "wb") as file:
        write(file, np.random.default_rng(1).uniform(-3, 3, (900, 100)))


def matrices(path: str) -> Iterator[Matrix]:
    with open(path, "rb") as file:
        while header := file.read(16):
            rows, columns = struct.unpack("<qq", header)
            yield np.frombuffer(file.read(8 * rows * columns)).reshape(rows, columns)


def scipy_choice(cost: Matrix) -> tuple[str, Matrix]:
    """The kind of matrix and the entries that scipy chooses."""
    from scipy.optimize import linear_sum_assignment

    forbidden = ~np.isfinite(cost)
    try:  # scipy takes inf for an entry that must not be chosen, and knows no nan
        chosen = linear_sum_assignment(np.where(forbidden, np.inf, cost))
        return "avoided" if forbidden.any() else "finite", cost[chosen]
    except ValueError:
        # Every complete assignment takes a forbidden entry: as few as can be, then the least cost.
        dear = 1e3 * (1 + np.abs(cost[~forbidden]).sum()) if (~forbidden).any() else 1.0
        return "unavoidable", cost[linear_sum_assignment(np.where(forbidden, dear, cost))]


def compare(path: str, costs: str) -> dict[str, float]:
    with open(costs) as file:
        lines = file.read().split("\n")
    counts = {"finite": 0, "avoided": 0, "unavoidable": 0}
    worst, wrong, total = 0.0, 0, 0
    for cost, line in zip(matrices(path), lines):
        ours, taken, broken, _ = line.split()
        kind, chosen = scipy_choice(cost)
        finite = np.isfinite(chosen)
        theirs = float(chosen[finite].sum())
        worst = max(worst, abs(float(ours) - theirs) / max(1.0, abs(theirs)))
        wrong += int(taken) != min(cost.shape) or int(broken) != int((~finite).sum())
        counts[kind] += 1
        total += 1
    return {"matrices": total, "worst": worst, "wrong": wrong, **counts}


if __name__ == "__main__":
    if sys.argv[1] == "matrices":
        draw(sys.argv[2])
    elif sys.argv[1] == "large":
        draw_large(sys.argv[2])
    else:
        print(json.dumps(compare(sys.argv[2], sys.argv[3])))
