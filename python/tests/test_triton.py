"""The Triton kernels: interpreted against double, in the operator, and compiled for GPUs that are not there."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from attention_inputs import make_inputs

import camber
from camber import triton_kernels

pytest.importorskip("triton", reason="the package triton is not installed (scripts/triton_venv)")
if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("TRITON_INTERPRET=1 must be set: there is no GPU", allow_module_level=True)

from camber import _triton_kernels as kernels


def test_interpreted_kernels_are_within_2e6_of_double():
    report = triton_kernels.check_triton_kernels("cpu")
    assert report.passed, report
    assert set(report) == {"output", "logsumexp", "total", "dq", "dk", "dv", "dbias", "slope"}
    assert max(report.values()) < 2e-6


def test_a_wrong_kernel_does_not_pass(monkeypatch):
    right = kernels.correct_windows

    def wrong(*arguments):
        output, logsumexp, total = right(*arguments)
        return output + 1e-5, logsumexp, total

    monkeypatch.setattr(kernels, "correct_windows", wrong)
    report = triton_kernels.check_triton_kernels("cpu")
    assert not report.passed
    assert report["output"] > 2e-6
    broken = triton_kernels.TritonReport(output=float("nan"))
    assert not broken.passed


def operands(dtype):
    p = triton_kernels._problem(32, 32, shared=False)
    heads = p["q"].shape[:3]
    moved = tuple(p[name].to(dtype) for name in "qkv")
    rest = (p["row_offsets"], p["key_index"], p["bias"], p["shift"])
    generator = torch.Generator().manual_seed(3)
    output = torch.randn(*heads, 32, generator=generator)
    logsumexp = 3 + torch.rand(heads, generator=generator)
    return p, (*moved, *rest), output, logsumexp


def test_the_same_bits_every_time():
    p, inputs, output, logsumexp = operands(torch.float32)
    for _ in range(2):
        first = kernels.correct_windows(*inputs, output, logsumexp, 0.2)
        second = kernels.correct_windows(*inputs, output, logsumexp, 0.2)
        assert all(map(torch.equal, first, second))
        flow = (p["grad_output"], None, output, logsumexp, 0.2)
        first = kernels.correct_windows_backward(*inputs, *flow)
        assert all(map(torch.equal, first, kernels.correct_windows_backward(*inputs, *flow)))


def test_bfloat16_inputs_are_computed_in_float():
    p, low, output, logsumexp = operands(torch.bfloat16)
    wide = (*(t.float() for t in low[:3]), *low[3:])
    found = kernels.correct_windows(*low, output, logsumexp, 0.2)
    for one, other in zip(found, kernels.correct_windows(*wide, output, logsumexp, 0.2), strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-6)
    grad = p["grad_output"].bfloat16()
    found = kernels.correct_windows_backward(*low, grad, None, output, logsumexp, 0.2)
    wanted = kernels.correct_windows_backward(*wide, grad.float(), None, output, logsumexp, 0.2)
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == torch.float32
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def test_rows_without_entries_and_entries_of_no_row():
    p, inputs, output, logsumexp = operands(torch.float32)
    logsumexp[0, 0, 1] = -torch.inf
    longer = (*inputs[:4], *(torch.nn.functional.pad(t, (0, 9), value=7) for t in inputs[4:]))
    found = kernels.correct_windows(*longer, output, logsumexp, 0.2)
    wanted = kernels.correct_windows(*inputs, output, logsumexp, 0.2)
    assert all(map(torch.equal, found, wanted))
    assert torch.equal(found[0][:, :, 0][0], output[:, :, 0][0])  # the first row has no entry
    assert torch.equal(found[0][0, 0, 1], output[0, 0, 1])  # a row without keys stays as it is
    assert found[2][0, 0, 1] == 1
    flow = (p["grad_output"], None, output, logsumexp, 0.2)
    found, wanted = (kernels.correct_windows_backward(*list_, *flow) for list_ in (longer, inputs))
    assert all(map(torch.equal, found[:3], wanted[:3]))
    assert found[3][:, -9:].eq(0).all()
    assert found[3].isfinite().all()


def test_the_cpu_is_refused():
    with pytest.raises(ValueError, match="device must not be the CPU"):
        camber.enable_triton_kernels("cpu")


def test_corrected_attention_runs_them_once_enabled():
    from test_device import DEVICE, bias_on_device, gradients, to_device

    exact = make_inputs()
    bias = bias_on_device(exact.bias, torch.float32)
    q, k, v = to_device(exact[:3], torch.float32)

    def run():
        result = camber.biased_attention(q, k, v, bias, implementation="corrected")
        leaves = [q, k, v, bias.windows.value, bias.segments.value]
        return [result.output, result.logsumexp, *gradients(result, leaves)]

    calls = []
    launch = kernels._sizes
    kernels._sizes = lambda *arguments: calls.append(1) or launch(*arguments)
    before = run()
    assert not calls
    report = camber.enable_triton_kernels(DEVICE)
    assert report.passed
    calls.clear()
    after = run()
    kernels._sizes = launch
    assert len(calls) == 3  # forward, the totals of the backward, the gradients
    expected = camber.biased_attention(*exact[:4], implementation="reference")
    wanted = gradients(expected, [*exact[:3], exact.bias.windows.value, exact.bias.segments.value])
    for one, other, true in zip(after, before, [expected.output, expected.logsumexp, *wanted], strict=True):
        torch.testing.assert_close(one.cpu().double(), true, atol=2e-5, rtol=0)
        torch.testing.assert_close(one.cpu(), other.cpu(), atol=2e-6, rtol=2e-6)


def test_kernels_compile_for_gpus_that_are_not_there(tmp_path):
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path)}
    del environment["TRITON_INTERPRET"]
    script = Path(__file__).with_name("compile_triton_kernels.py")
    told = subprocess.run([sys.executable, script], env=environment, check=True, capture_output=True, text=True).stdout
    made = json.loads(told.splitlines()[-1])
    assert len(made) == 3 * 3 * 2
    for name, kernel in made.items():
        assert kernel["bytes"] > 4000, name
        assert 0 < kernel["shared"] <= 4096, name  # far below the 48 KB that every GPU gives
        assert 16 <= kernel["registers"] <= 128, name  # none spills: 255 is the limit
