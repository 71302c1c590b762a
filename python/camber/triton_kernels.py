"""Triton kernels for the sparse part of `corrected` attention on a GPU, used only where they prove right."""

from __future__ import annotations

import importlib.util
from typing import Any

import torch
from torch import Tensor

__all__ = ["TritonReport", "check_triton_kernels", "enable_triton_kernels"]

_TOLERANCE = 2e-6  # of the largest value, in float against double
_registered: dict[str, Any] = {}  # what keeps a registration alive, by dispatch key


class TritonReport(dict[str, float]):
    """The largest error of each result against double, relative to the largest value (at least 1)."""

    @property
    def passed(self) -> bool:
        return all(error <= _TOLERANCE for error in self.values())  # False for NaN too


def _kernels() -> Any:
    if importlib.util.find_spec("triton") is None:
        raise ModuleNotFoundError("[enable_triton_kernels] the package triton must be installed: pip install triton")
    from . import _triton_kernels

    return _triton_kernels


def _problem(width: int, value_width: int, shared: bool) -> dict[str, Tensor]:
    """Windows of 0 to 70 entries, some removed by their bias or their shift, in float on the CPU."""
    generator = torch.Generator().manual_seed(width)
    batch, heads, queries, keys = 2, 2, 6, 80

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    rows = []
    for row in range(batch * queries):
        chosen = torch.randperm(keys, generator=generator)[: (0, 1, 9, 33, 70)[row % 5]]
        rows.append(chosen.sort().values)
    lengths = torch.tensor([len(row) for row in rows])
    entries = int(lengths.sum())
    bias = normal(1 if shared else heads, entries) * 1.5
    shift = normal(heads, entries)
    bias[0, 5] = shift[0, 20] = shift[1, 3] = -torch.inf
    return {
        "q": normal(batch, heads, queries, width),
        "k": normal(batch, heads, keys, width),
        "v": normal(batch, heads, keys, value_width),
        "row_offsets": torch.cat((torch.zeros(1, dtype=torch.int64), lengths.cumsum(0))),
        "key_index": torch.cat(rows).int(),
        "bias": bias,
        "shift": shift,
        "grad_output": normal(batch, heads, queries, value_width),
        "grad_logsumexp": normal(batch, heads, queries),
    }


def _dense(p: dict[str, Tensor], values: Tensor, fill: float) -> Tensor:
    batch, heads, queries, keys = *p["q"].shape[:3], p["k"].shape[2]
    lengths = p["row_offsets"].diff()
    row = torch.arange(batch * queries).repeat_interleave(lengths)
    dense = torch.full((heads, batch * queries, keys), fill, dtype=torch.float64)
    dense[:, row, p["key_index"].long()] = values.double().expand(heads, -1)
    return dense.view(heads, batch, queries, keys).transpose(0, 1)


def check_triton_kernels(device: torch.device | str) -> TritonReport:
    """Runs the kernels on a device (on the CPU: interpreted, with TRITON_INTERPRET=1) against dense attention in double.

    What the kernels add is taken out of both: the attention without a bias and its backward are computed in double.

    >>> camber.check_triton_kernels("cuda").passed  # doctest: +SKIP
    True
    """
    kernels = _kernels()
    report = TritonReport()

    def compare(name: str, found: Tensor, wanted: Tensor) -> None:
        finite = torch.where(wanted.isinf() & (found.cpu().double() == wanted), 0.0, found.cpu().double() - wanted)
        size = wanted[wanted.isfinite()].abs().max().clamp_min(1.0)
        report[name] = max(report.get(name, 0.0), float(finite.abs().max() / size))

    for width, value_width, shared in ((32, 32, True), (24, 40, False)):
        p = _problem(width, value_width, shared)
        scale = width**-0.5
        q, k, v = (p[name].double() for name in "qkv")
        # Entries' shifts are part of the attention without the bias: elsewhere there is none.
        plain = q @ k.transpose(2, 3) * scale + _dense(p, p["shift"], 0.0)
        biased = plain + _dense(p, p["bias"], 0.0)
        before, after = plain.logsumexp(-1), biased.logsumexp(-1)
        output = biased.softmax(-1) @ v
        moved = {name: tensor.to(device) for name, tensor in p.items()}
        lists = (moved["row_offsets"], moved["key_index"], moved["bias"], moved["shift"])
        operands = (moved["q"], moved["k"], moved["v"], *lists)
        found = kernels.correct_windows(
            *operands, (plain.softmax(-1) @ v).float().to(device), before.float().to(device), scale
        )
        for name, one, wanted in zip(
            ("output", "logsumexp", "total"), found, (output, after, (after - before).exp()), strict=True
        ):
            compare(name, one, wanted)
        # The entries' terms: those of the biased attention less those of the weights exp(plain - after).
        grad = p["grad_output"].double()
        delta = ((grad * output).sum(-1) - p["grad_logsumexp"].double()).unsqueeze(-1)
        weights, base = (z.sub(after.unsqueeze(-1)).exp() for z in (biased, plain))
        distance = grad @ v.transpose(2, 3) - delta
        change = (weights - base) * distance
        lengths = p["row_offsets"].diff()
        row = torch.arange(len(lengths)).repeat_interleave(lengths)
        at = (row // q.shape[2], row % q.shape[2], p["key_index"].long())
        wanted_terms = (
            change @ k * scale,
            change.transpose(2, 3) @ q * scale,
            (weights - base).transpose(2, 3) @ grad,
            (weights * distance).transpose(0, 1)[:, at[0], at[1], at[2]],
            change.transpose(0, 1)[:, at[0], at[1], at[2]],
        )
        terms = kernels.correct_windows_backward(
            *operands,
            moved["grad_output"],
            moved["grad_logsumexp"],
            output.float().to(device),
            after.float().to(device),
            scale,
        )
        for name, one, wanted in zip(("dq", "dk", "dv", "dbias", "slope"), terms, wanted_terms, strict=True):
            compare(name, one, wanted)
    return report


def enable_triton_kernels(device: torch.device | str = "cuda") -> TritonReport:
    """Lets `corrected` attention on devices of this kind do its sparse part by the Triton kernels, if they are right there.

    They are first held against double on the device; where one of them is off by more than 2e-6, RuntimeError says by how
    much and nothing changes. Needs the package triton. Lasts until the process ends.

    >>> camber.enable_triton_kernels("cuda").passed  # doctest: +SKIP
    True
    """
    device = torch.device(device)
    if device.type == "cpu":
        raise ValueError("[enable_triton_kernels] device must not be the CPU, which has kernels of its own, got cpu")
    kernels = _kernels()
    report = check_triton_kernels(device)
    if not report.passed:
        found = ", ".join(f"{name} {error:.1e}" for name, error in report.items())
        raise RuntimeError(
            f"[enable_triton_kernels] the kernels must be within {_TOLERANCE} of double on {device}, got {found}: "
            "they stay off"
        )
    key = torch._C._dispatch_key_for_device(device.type)
    if key not in _registered:
        library = torch.library.Library("camber", "IMPL")
        library.impl("correct_windows", kernels.correct_windows, key)
        library.impl("correct_windows_backward", kernels.correct_windows_backward, key)
        _registered[key] = library
    return report
