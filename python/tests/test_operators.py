"""Every operator of the library: schema, fake tensors, autograd registration, ahead-of-time graphs, gradients."""

import pytest
import torch
from attention_inputs import BATCH, HEADS, KEYS, MAPS, QUERIES, make_inputs

import camber
from camber.attention import _bias_tensors

operators = torch.ops.camber


def attention_arguments():
    q, k, v, bias, mask = make_inputs(torch.float32)
    return (q, k, v, *_bias_tensors(bias), None, mask)


def window_arguments():
    torch.manual_seed(3)
    center = torch.randint(-1, 2, (BATCH, QUERIES, 2, 2))
    return center, torch.full((BATCH, QUERIES, 2), 3, dtype=torch.int32), torch.tensor(MAPS)


def detached(arguments):
    return tuple(a.detach() if isinstance(a, torch.Tensor) else a for a in arguments)


def sparse_arguments():
    q, k, v, bias, _ = make_inputs(torch.float32)
    return q, k, v, *bias.windows


def convolution_indices(stride=2):
    """About a third of the cells of two 4 x 5 x 6 grids, in no order, and one site outside."""
    torch.manual_seed(4)
    sites = (torch.rand(2, 4, 5, 6) < 0.3).nonzero()
    sites = torch.cat((sites[torch.randperm(len(sites))], torch.tensor([[0, 0, 5, 0]])))
    return camber.build_sparse_indices(sites, (4, 5, 6), 2, 3, stride=stride, padding=1, submanifold=stride == 1)


def convolution_arguments(dtype=torch.float32, stride=2):
    indices = convolution_indices(stride)
    features = torch.randn(indices.inputs, 3, dtype=dtype, requires_grad=True)
    weight = torch.randn(4, 3, 3, 3, 3, dtype=dtype, requires_grad=True)
    return features, weight, list(indices[1:7]), len(indices.coordinates)


def operator_calls():
    """(operator, positional arguments, keyword arguments) for every operator."""
    attention = attention_arguments()
    flat = detached(attention)
    output, logsumexp, _, _ = operators.biased_attention(*flat)
    rest = (None,) * 9 + (0.0, 0, False, "auto")
    backward = (torch.randn_like(output), torch.randn_like(logsumexp), output, logsumexp, *flat, *rest, [True] * 7)
    row_offsets, _, map_index, distance = operators.build_windows(*window_arguments())
    profile, strength = torch.rand(distance.numel()), torch.randn(HEADS, BATCH * QUERIES, 2, requires_grad=True)
    sparse = sparse_arguments()
    local, logsumexp = operators.sparse_attention(*detached(sparse))
    sparse_backward = (torch.randn_like(local), local, logsumexp, *detached(sparse), None, [True, True, False, True])
    convolution = convolution_arguments()
    convolved = operators.sparse_convolution(*detached(convolution))
    sites = torch.tensor([[0, 1, 2, 3], [1, 0, 0, 0], [0, 0, 0, 9]])
    geometry = ([4, 5, 6], 2, [3, 3, 3], [1, 1, 1], [0, 0, 0], [1, 1, 1])
    return {
        "biased_attention": [
            (attention, {}),
            (attention, {"statistics": True}),
            (attention[:3], {"dropout": 0.5}),
            (attention[:9], {"implementation": "corrected", "statistics": True}),
            (attention, {"implementation": "reference", "statistics": True, "dropout": 0.5}),
        ],
        "biased_attention_backward": [(backward, {})],
        "biased_attention_report": [(attention, {})],
        "sparse_attention": [(sparse, {}), (sparse[:5], {"softmax_scale": 0.3})],
        "sparse_attention_backward": [(sparse_backward, {})],
        "build_sparse_indices": [((sites, *geometry, True), {}), ((sites.int(), *geometry, False), {})],
        "sparse_convolution": [(convolution, {}), (convolution_arguments(torch.float64, 1), {})],
        "sparse_convolution_backward": [((torch.randn_like(convolved), *detached(convolution), [True, True]), {})],
        "build_windows": [(window_arguments(), {})],
        "window_values": [((strength, profile, row_offsets, map_index), {})],
        "window_values_backward": [
            ((torch.randn(HEADS, distance.numel()), profile, row_offsets, map_index, 2), {}),
        ],
    }


BROUGHT_BY_DEVICES = {"correct_windows", "correct_windows_backward"}  # no kernel of ours: test_triton.py has one


def all_operators():
    names = (name.split(".")[0] for name in torch._C._dispatch_get_all_op_names())
    ours = {name.removeprefix("camber::") for name in names if name.startswith("camber::")}
    assert ours >= BROUGHT_BY_DEVICES
    return sorted(ours - BROUGHT_BY_DEVICES)


@pytest.mark.parametrize("name", all_operators())
def test_opcheck(name):
    checks = ["test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"]
    if name == "biased_attention_report":
        checks.pop()  # opcheck cannot compare the sentence that it returns
    for arguments, options in operator_calls()[name]:
        torch.library.opcheck(getattr(operators, name).default, arguments, options, test_utils=checks)


@pytest.mark.parametrize("implementation", ["auto", "corrected", "streamed", "reference"])
@pytest.mark.parametrize("bias_heads", [1, HEADS])
def test_gradients_of_biased_attention(implementation, bias_heads):
    inputs = make_inputs(bias_heads=bias_heads)
    windows, segments = inputs.bias.windows, inputs.bias.segments

    def attend(q, k, v, window_value, segment_value, mask):
        bias = camber.StructuredBias(windows._replace(value=window_value), segments._replace(value=segment_value))
        result = camber.biased_attention(q, k, v, bias, attn_mask=mask, implementation=implementation)
        return result.output, result.logsumexp

    mask = inputs.attn_mask
    if implementation == "corrected":  # refuses a mask that learns
        mask = mask.detach()
    leaves = (*inputs[:3], windows.value, segments.value, mask)
    assert torch.autograd.gradcheck(attend, leaves)


def test_gradients_with_dropout_and_masks():
    inputs = make_inputs()
    blocked = torch.rand(BATCH, 1, QUERIES, KEYS) < 0.3
    blocked[:, :, 2] = True  # a row without keys has gradient 0

    def attend(q, k, v):
        return camber.biased_attention(q, k, v, dropout=0.4, dropout_seed=5, blocked_mask=blocked).output

    assert torch.autograd.gradcheck(attend, inputs[:3])


def test_gradients_of_sparse_attention():
    q, k, v, bias, _ = make_inputs()
    rows, keys, value = bias.windows
    assert torch.autograd.gradcheck(
        lambda *leaves: camber.sparse_attention(*leaves[:3], rows, keys, leaves[3]), (q, k, v, value)
    )


@pytest.mark.parametrize("stride", [1, 2])
def test_gradients_of_sparse_convolution(stride):
    indices = convolution_indices(stride)
    features, weight = convolution_arguments(torch.float64, stride)[:2]
    assert torch.autograd.gradcheck(lambda x, w: camber.sparse_convolution(x, w, indices), (features, weight))


@pytest.mark.parametrize("form", ["box", "gaussian"])
def test_gradients_of_windows(form):
    center, size, maps = window_arguments()
    strength = torch.randn(HEADS, BATCH, QUERIES, 2, dtype=torch.float64, requires_grad=True)

    def values(strength):
        return camber.StructuredBias.from_windows(center, size, maps, strength, form=form).windows.value

    assert torch.autograd.gradcheck(values, (strength,))
    assert torch.autograd.gradgradcheck(lambda s: values(s).square(), (strength,))


def test_second_derivatives_go_through_windows_and_reference():
    q, k, v = detached(make_inputs()[:3])
    row_offsets, keys, map_index, distance = operators.build_windows(*window_arguments())
    profile = torch.rand(distance.numel(), dtype=torch.float64)

    def attend(strength):
        windows = camber.Windows(row_offsets, keys, operators.window_values(strength, profile, row_offsets, map_index))
        return camber.biased_attention(q, k, v, camber.StructuredBias(windows), implementation="reference").output

    strength = torch.randn(1, BATCH * QUERIES, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(attend, (strength,))


@pytest.mark.parametrize("name", ["biased_attention", "sparse_attention"])
def test_double_backward_is_refused(name):
    q, k, v, bias, _ = make_inputs()
    if name == "biased_attention":
        output = camber.biased_attention(q, k, v).output
    else:
        output = camber.sparse_attention(q, k, v, *bias.windows)
    (first,) = torch.autograd.grad(output.square().sum(), q, create_graph=True)
    with pytest.raises(NotImplementedError, match=rf"\[{name}\] double backward .* only first derivatives"):
        first.sum().backward()


def test_sparse_attention_runs_in_float_under_autocast():
    q, k, v, bias, _ = make_inputs(torch.float32)
    rows, keys, value = bias.windows
    expected = camber.sparse_attention(q.bfloat16().float(), k, v, rows, keys, value)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output = camber.sparse_attention(q.bfloat16(), k, v, rows, keys, value)
    assert output.dtype == torch.float32
    torch.testing.assert_close(output, expected, rtol=0, atol=0)
    output.sum().backward()
    assert q.grad.dtype == torch.float32 and q.grad.abs().max() > 0


def test_window_values_are_computed_in_float_under_autocast():
    row_offsets, _, map_index, distance = operators.build_windows(*window_arguments())
    strength = torch.randn(1, BATCH * QUERIES, 2, dtype=torch.bfloat16, requires_grad=True)
    profile = torch.rand(distance.numel())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = operators.window_values(strength, profile, row_offsets, map_index)
    expected = operators.window_values(strength.float(), profile, row_offsets, map_index)
    torch.testing.assert_close(value, expected, rtol=0, atol=0)
    value.sum().backward()
    assert strength.grad.dtype == torch.bfloat16


@pytest.mark.parametrize("implementation", ["auto", "corrected", "streamed", "reference"])
def test_every_implementation_compiles_to_one_graph(implementation):
    q, k, v, bias, mask = make_inputs(torch.float32)
    if implementation == "corrected":  # refuses a mask that learns
        mask = mask.detach()
    available = torch.tensor([[True, True], [True, False]])

    def attend(q, k, v, mask):
        options = {"attn_mask": mask, "segment_available": available, "implementation": implementation}
        return camber.biased_attention(q, k, v, bias, **options).output

    output = torch.compile(attend, fullgraph=True, backend="aot_eager")(q, k, v, mask)
    expected = attend(q, k, v, mask)
    torch.testing.assert_close(output, expected)
    leaves = [leaf for leaf in (q, k, v, bias.windows.value, bias.segments.value, mask) if leaf.requires_grad]
    gradients = (torch.autograd.grad(o.square().sum(), leaves) for o in (output, expected))
    for got, wanted in zip(*gradients, strict=True):
        torch.testing.assert_close(got, wanted)
