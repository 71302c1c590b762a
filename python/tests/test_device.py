"""Operators with tensors of another device: tests/support/test_device.h, loaded into Python.

A process of its own: a device that torch knows from then on is not for the other tests to see.
"""

import os
import types

import pytest
import torch
from attention_inputs import make_inputs
from test_operators import operator_calls, operators
from torch.utils import _pytree as pytree

import camber

LIBRARY = os.environ.get("CAMBER_TEST_DEVICE")
if LIBRARY is None:
    pytest.skip("CAMBER_TEST_DEVICE must name the test device's library", allow_module_level=True)


def load_device(library):
    """The device `testdevice`, with the module that torch looks for at the first use of a device."""
    torch.ops.load_library(library)
    module = types.ModuleType("torch.testdevice")
    module.is_available = lambda: True
    module.device_count = lambda: 1
    module.current_device = lambda: 0
    module._is_in_bad_fork = lambda: False
    module.manual_seed_all = lambda seed: None
    module.get_rng_state = lambda device=0: torch.get_rng_state()
    module.set_rng_state = lambda state, device=0: None
    module.get_amp_supported_dtype = lambda: [torch.float16, torch.bfloat16]
    torch._register_device_module("testdevice", module)
    return torch.device("testdevice", 0)


DEVICE = load_device(LIBRARY)


def to_device(values, dtype=None):
    """Every tensor of a tree as a leaf on the device; offsets of segments may stay on the host."""

    def move(value):
        if not isinstance(value, torch.Tensor):
            return value
        kind = dtype if dtype is not None and value.is_floating_point() else value.dtype
        return value.detach().to(DEVICE, kind).requires_grad_(value.requires_grad)

    return pytree.tree_map(move, values)


def bias_on_device(bias, dtype=None):
    return camber.StructuredBias(*to_device((bias.windows, bias.segments), dtype), bias.shape)


def gradients(result, leaves):
    return torch.autograd.grad((result.output.square().sum() + result.logsumexp.sum()), leaves)


@pytest.mark.parametrize("implementation", ["auto", "streamed"])
def test_values_and_gradients_are_those_of_the_cpu(implementation):
    exact = make_inputs()
    moved = bias_on_device(exact.bias, torch.float32)
    q, k, v = to_device(exact[:3], torch.float32)
    expected = camber.biased_attention(*exact[:4], implementation="reference")
    actual = camber.biased_attention(q, k, v, moved, implementation=implementation)
    assert actual.output.device == DEVICE
    torch.testing.assert_close(actual.output.cpu().double(), expected.output, atol=4e-6, rtol=0)
    torch.testing.assert_close(actual.logsumexp.cpu().double(), expected.logsumexp, atol=4e-6, rtol=0)
    wanted = gradients(expected, [*exact[:3], exact.bias.windows.value, exact.bias.segments.value])
    found = gradients(actual, [q, k, v, moved.windows.value, moved.segments.value])
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one.cpu().double(), other, atol=4e-5, rtol=0)


def test_report_names_corrected():
    q, k, v, bias, _ = make_inputs(torch.float32)
    told = camber.explain_attention(*to_device((q, k, v)), bias_on_device(bias))
    assert told == "corrected ran; fused: q lies on testdevice:0, the kernels run on the CPU"


def test_tensors_of_two_devices_are_refused():
    q, k, v, bias, _ = make_inputs(torch.float32)
    with pytest.raises(ValueError, match="row_offsets must be on the device of q, testdevice:0, got cpu"):
        camber.biased_attention(*to_device((q, k, v)), bias)


def test_autocast_lowers_queries_alone():
    q, k, v, bias, _ = make_inputs(torch.float32)
    moved = bias_on_device(bias)
    with torch.autocast("testdevice", torch.bfloat16):
        result = camber.biased_attention(*to_device((q, k, v)), moved)
    assert result.output.dtype == torch.bfloat16
    result.output.float().sum().backward()
    assert moved.windows.value.grad.dtype == torch.float32


def test_training_a_module_there():
    torch.manual_seed(5)
    attention = camber.nn.MultiheadAttention(8, 2).to(DEVICE)
    tokens = torch.randn(2, 5, 8).to(DEVICE)
    optimizer = torch.optim.SGD(attention.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        output = attention(tokens, tokens, tokens)
        loss = (output[0] if isinstance(output, tuple) else output).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[2] < losses[1] < losses[0]


# torch itself says of test_autograd_registration that it is not there for other devices than CPU, CUDA and XPU.
@pytest.mark.parametrize(
    "name",
    ["biased_attention", "biased_attention_backward", "sparse_attention", "sparse_attention_backward", "window_values"],
)
def test_opcheck(name):
    checks = ["test_schema", "test_faketensor", "test_aot_dispatch_dynamic"]
    for arguments, options in to_device(operator_calls()[name]):
        torch.library.opcheck(getattr(operators, name).default, arguments, options, test_utils=checks)
