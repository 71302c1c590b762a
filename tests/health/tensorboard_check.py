"""Reads the event files of a run with TensorBoard's own reader and compares them with metrics.jsonl.

  tensorboard_check.py [--at-least] RUN [RUN ...]

A run that was resumed has several files; what TensorBoard keeps of them must be what metrics.jsonl holds. With
--at-least the last record may be missing: a process killed between its two writes leaves it so.
"""

import json
import math
import pathlib
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def expected(run):
    series = {}
    for line in (run / "metrics.jsonl").read_text().split("\n")[:-1]:
        record = json.loads(line)
        for name, value in record.items():
            if name not in ("step", "time"):
                series.setdefault(name, []).append((record["step"], WORDS.get(value, value)))
    return series


def same(first, second):
    return (math.isnan(first) and math.isnan(second)) or first == second or abs(first - second) <= 1e-6 * abs(second)


def check(run, missing):
    events = EventAccumulator(str(run), size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    series = expected(run)
    tags = events.Tags()
    assert missing or set(tags["scalars"]) == set(series), set(tags["scalars"]) ^ set(series)
    for name, points in series.items():
        found = [(event.step, event.value) for event in events.Scalars(name)] if name in tags["scalars"] else []
        assert len(points) - missing <= len(found) <= len(points), (name, len(found), len(points))
        assert all(a[0] == b[0] and same(a[1], b[1]) for a, b in zip(found, points)), name
    told = [json.loads(line) for line in (run / "health.jsonl").read_text().split("\n")[:-1]]
    texts = sorted(
        (event.step, event.tensor_proto.string_val[0].decode())
        for tag in tags["tensors"]
        for event in events.Tensors(tag)
    )
    assert missing or texts == sorted((finding["step"], finding["sentence"]) for finding in told), texts
    print(f"{run}: {len(series)} scalars, {sum(map(len, series.values()))} points, {len(texts)} texts agree")


for argument in sys.argv[1:]:
    if argument != "--at-least":
        check(pathlib.Path(argument), 1 if "--at-least" in sys.argv else 0)
