"""Camber's attention on a GPU beside scaled_dot_product_attention and FlexAttention, forward and both passes, in one run.

    make bench-peers                                  calls it with the others; without a GPU it says so and measures nothing
    python bench/gpu_peers.py --out gpu_peers.json    on the first GPU
    python bench/gpu_peers.py --device cpu --queries 20 --repeats 1    what can run without one, to see that it runs

Times are medians of turns, each peer once a turn, between synchronisations. Memory is the peak that torch counts above the inputs.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import camber
import peers

Attend = Callable[[], torch.Tensor]


class Problem:
    """The problem of peers.py on a device, the first queries of it, and what a backward pass asks gradients for."""

    def __init__(self, folder: Path, device: torch.device, dtype: torch.dtype, queries: int) -> None:
        def load(name: str) -> torch.Tensor:
            return torch.from_numpy(np.load(folder / f"{name}.npy")).to(device)

        self.q = load("q")[:, :, :queries].to(dtype).contiguous().requires_grad_()
        self.k, self.v = (load(name).to(dtype).requires_grad_() for name in "kv")
        offsets = load("row_offsets")[: queries + 1]
        entries = int(offsets[-1])
        self.value = load("value")[:, :entries].contiguous().requires_grad_()
        self.windows = camber.Windows(offsets, load("key_index")[:entries], self.value)
        self.dense = load("bias")[:, :, :queries].to(dtype).contiguous().requires_grad_()
        self.center, self.strength = load("center")[:, :queries], load("strength")[:, :queries].requires_grad_()

    def without_gradients(self) -> Problem:
        """The same tensors for a forward pass alone: FlexAttention refuses gradients on the CPU."""
        plain = copy.copy(self)
        for name in ("q", "k", "v", "value", "dense", "strength"):
            setattr(plain, name, getattr(self, name).detach())
        plain.windows = self.windows._replace(value=plain.value)
        return plain


def camber_attention(p: Problem) -> tuple[Attend, list[torch.Tensor]]:
    bias = camber.StructuredBias(windows=p.windows)
    return lambda: camber.biased_attention(p.q, p.k, p.v, bias).output, [p.q, p.k, p.v, p.value]


def sdpa(p: Problem, dense: bool) -> tuple[Attend, list[torch.Tensor]]:
    bias = p.dense if dense else None
    attend = torch.nn.functional.scaled_dot_product_attention
    leaves = [p.q, p.k, p.v] + ([p.dense] if dense else [])
    return lambda: attend(p.q, p.k, p.v, bias), leaves


def flex_attention(p: Problem) -> tuple[Attend, list[torch.Tensor]]:
    """The windows as a score_mod that reads the strength of the query on the key's map, with its gradient."""
    from torch.nn.attention.flex_attention import flex_attention as attend

    device = p.q.device
    shapes = [peers.GRID] + [peers.MAP] * peers.CAMERAS
    of_key = torch.cat([torch.full((c * r,), m) for m, (c, r) in enumerate(shapes)]).to(device)
    column = torch.cat([torch.arange(c).repeat(r) for c, r in shapes]).to(device)
    row = torch.cat([torch.arange(r).repeat_interleave(c) for c, r in shapes]).to(device)
    half = torch.tensor([2] + [7] * peers.CAMERAS, device=device)

    def window(score: Any, b: Any, h: Any, query: Any, key: Any) -> Any:
        m = of_key[key]
        x, y = p.center[b, query, m, 0], p.center[b, query, m, 1]
        inside = (x >= 0) & ((column[key] - x).abs() <= half[m]) & ((row[key] - y).abs() <= half[m])
        return score + torch.where(inside, p.strength[b, query, m], 0.0)

    compiled = torch.compile(attend, fullgraph=True)
    return lambda: compiled(p.q, p.k, p.v, score_mod=window), [p.q, p.k, p.v, p.strength]


PEERS: dict[str, Callable[[Problem], tuple[Attend, list[torch.Tensor]]]] = {
    "camber/windows": camber_attention,
    "sdpa/no_bias": lambda p: sdpa(p, dense=False),
    "sdpa/dense_bias": lambda p: sdpa(p, dense=True),
    "flex_attention/score_mod": flex_attention,
}


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def measured(run: Callable[[], Any], device: torch.device) -> tuple[float, float]:
    """Milliseconds, and MB at the peak above what was there; NaN where torch does not count them."""
    wait(device)
    counts = device.type == "cuda"
    before = torch.cuda.memory_allocated(device) if counts else 0
    if counts:
        torch.cuda.reset_peak_memory_stats(device)
    began = time.perf_counter()
    run()
    wait(device)
    elapsed = 1e3 * (time.perf_counter() - began)
    return elapsed, (torch.cuda.max_memory_allocated(device) - before) / 2**20 if counts else float("nan")


def passes_of(make: Callable[[Problem], tuple[Attend, list[torch.Tensor]]], p: Problem) -> dict[str, Callable[[], Any]]:
    forward, _ = make(p.without_gradients())
    attend, leaves = make(p)
    return {
        "forward": forward,
        "both passes": lambda: torch.autograd.grad(attend().float().square().sum(), leaves),
    }


def compare(p: Problem, repeats: int) -> dict[str, Any]:
    """Of every peer and pass the medians; a sentence in place of those that cannot run."""
    device = p.q.device
    ready: dict[str, Callable[[], Any]] = {}
    results: dict[str, Any] = {}
    for name, make in PEERS.items():
        for label, run in passes_of(make, p).items():
            try:
                run()
                ready[f"{name} {label}"] = run
            except Exception as error:
                lines = [line.strip() for line in str(error).splitlines() if line.strip()]
                results[f"{name} {label}"] = " ".join(lines[:2])
    turns: dict[str, list[tuple[float, float]]] = {name: [] for name in ready}
    for _ in range(repeats):
        for name, run in ready.items():
            turns[name].append(measured(run, device))
    for name, seen in turns.items():
        milliseconds, megabytes = (statistics.median(column) for column in zip(*seen))
        results[name] = {"milliseconds": milliseconds, "megabytes": megabytes}
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--queries", type=int, default=peers.QUERIES)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--threads", type=int, default=0, help="as for the other benchmarks; a GPU does not ask")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        print("gpu_peers: no GPU here: FlexAttention on a GPU is left out")
        return
    report: dict[str, Any] = {"device": torch.cuda.get_device_name(device) if device.type == "cuda" else str(device)}
    with tempfile.TemporaryDirectory() as name:
        peers.make_problem(Path(name))
        for dtype in (torch.float32, torch.bfloat16):
            problem = Problem(Path(name), device, dtype, arguments.queries)
            report[str(dtype)] = compare(problem, arguments.repeats)
            if device.type == "cuda":
                try:
                    report[f"triton {dtype}"] = dict(camber.enable_triton_kernels(device))
                    again = compare(problem, arguments.repeats)
                    report[f"{dtype} with triton kernels"] = {k: v for k, v in again.items() if k.startswith("camber")}
                except (ModuleNotFoundError, RuntimeError) as error:
                    report[f"triton {dtype}"] = str(error)
    print(json.dumps(report, indent=2))
    if arguments.out:
        arguments.out.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
