"""biased_attention against its definition, compiled, under autocast, with every mask, with statistics."""

import itertools
import math

import pytest
import torch
from attention_inputs import BATCH, HEADS, KEYS, QUERIES, by_definition, make_inputs

import camber

IMPLEMENTATIONS = ["auto", "corrected", "streamed", "reference"]


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@pytest.mark.parametrize("bias_heads", [1, HEADS])
def test_output_is_the_definition(implementation, bias_heads):
    q, k, v, bias, mask = make_inputs(bias_heads=bias_heads)
    mask = mask.detach()  # corrected refuses one that learns
    result = camber.biased_attention(q, k, v, bias, attn_mask=mask, implementation=implementation)
    output, logsumexp = by_definition(q, k, v, bias.materialize() + mask)
    torch.testing.assert_close(result.output, output)
    torch.testing.assert_close(result.logsumexp, logsumexp)
    assert result.statistics is None


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_every_mask_removes_its_keys(implementation):
    q, k, v, bias, _ = make_inputs()
    padding = torch.zeros(BATCH, KEYS, dtype=torch.bool)
    padding[0, 1] = True
    blocked = torch.rand(1, HEADS, QUERIES, KEYS) < 0.2
    available = torch.tensor([[True, False], [True, True]])
    lengths = torch.tensor([KEYS, KEYS - 3])
    result = camber.biased_attention(
        q,
        k,
        v,
        bias,
        blocked_mask=blocked,
        key_padding_mask=padding,
        key_lengths=lengths,
        segment_available=available,
        implementation=implementation,
    )
    gone = blocked | padding[:, None, None] | (torch.arange(KEYS) >= lengths[:, None])[:, None, None]
    gone = gone | ~available.repeat_interleave(bias.segments.offsets.diff(), 1)[:, None, None]
    output, logsumexp = by_definition(q, k, v, bias.materialize().masked_fill(gone, -math.inf))
    torch.testing.assert_close(result.output, output)
    torch.testing.assert_close(result.logsumexp, logsumexp)


def test_a_row_without_keys_gives_zero_and_minus_infinity():
    q, k, v, _, _ = make_inputs()
    blocked = torch.zeros(1, 1, QUERIES, KEYS, dtype=torch.bool)
    blocked[..., 1, :] = True
    result = camber.biased_attention(q, k, v, blocked_mask=blocked)
    assert result.output[:, :, 1].abs().max() == 0
    assert (result.logsumexp[:, :, 1] == -math.inf).all()
    result.output.sum().backward()
    assert q.grad[:, :, 1].abs().max() == 0
    assert torch.isfinite(k.grad).all()


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_statistics_are_those_of_the_weights(implementation):
    q, k, v, bias, mask = make_inputs()
    mask = mask.detach()  # corrected refuses one that learns
    statistics = camber.biased_attention(
        q, k, v, bias, attn_mask=mask, statistics=True, implementation=implementation
    ).statistics
    plain = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + mask
    p, p0 = torch.softmax(plain + bias.materialize(), -1), torch.softmax(plain, -1)
    torch.testing.assert_close(statistics.entropy, -(p * p.log()).sum(-1))
    torch.testing.assert_close(statistics.largest_weight, p.amax(-1))
    torch.testing.assert_close(statistics.sum_of_squares, p.square().sum(-1))
    torch.testing.assert_close(statistics.change, (p - p0).abs().sum(-1) / 2)
    torch.testing.assert_close(statistics.divergence, (p * (p / p0).log()).sum(-1))
    assert (statistics.keys_left == KEYS).all()
    edges = bias.segments.offsets.tolist()
    mass = torch.stack([p[..., a:b].sum(-1) for a, b in itertools.pairwise(edges)], -1)
    torch.testing.assert_close(statistics.segment_mass, mass)


def test_statistics_without_segments_have_no_mass():
    q, k, v, bias, _ = make_inputs()
    alone = camber.StructuredBias(windows=bias.windows)
    assert camber.biased_attention(q, k, v, alone, statistics=True).statistics.segment_mass is None


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiles_to_one_graph(backend):
    inputs = make_inputs(torch.float32)

    def loss(q, k, v, bias, mask):
        result = camber.biased_attention(q * 2, k, v, bias, attn_mask=mask, statistics=True)
        return result.output.square().sum() + result.logsumexp.sum(), result.statistics.entropy

    leaves = (*inputs[:3], inputs.bias.windows.value, inputs.bias.segments.value, inputs.attn_mask)
    expected, entropy = loss(*inputs)
    gradients = torch.autograd.grad(expected, leaves)
    compiled, compiled_entropy = torch.compile(loss, fullgraph=True, backend=backend)(*inputs)
    torch.testing.assert_close(compiled, expected)
    torch.testing.assert_close(compiled_entropy, entropy)
    for got, wanted in zip(torch.autograd.grad(compiled, leaves), gradients, strict=True):
        torch.testing.assert_close(got, wanted)


@torch._dynamo.config.patch(error_on_recompile=True)
def test_compiles_once_for_any_number_of_queries():
    compiled = torch.compile(
        lambda q, k, v: camber.biased_attention(q, k, v).output, fullgraph=True, dynamic=True, backend="aot_eager"
    )
    for queries in (4, 9, 17):
        q, k, v = (torch.randn(2, 3, n, 8) for n in (queries, queries + 5, queries + 5))
        torch.testing.assert_close(compiled(q, k, v), camber.biased_attention(q, k, v).output)


def test_autocast_takes_the_inputs_and_leaves_the_bias():
    q, k, v, bias, mask = make_inputs(torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = camber.biased_attention(q, k, v, bias, attn_mask=mask)
    assert result.output.dtype == torch.bfloat16
    assert result.logsumexp.dtype == torch.float32
    result.output.float().sum().backward()
    assert bias.windows.value.grad.dtype == torch.float32
    torch.testing.assert_close(
        result.output.float(), camber.biased_attention(q, k, v, bias, attn_mask=mask).output, atol=0.05, rtol=0.05
    )


def test_shards_merge_to_the_whole():
    q, k, v, _, _ = make_inputs()
    whole = camber.biased_attention(q, k, v)
    shards = [camber.biased_attention(q, k[:, :, a:b], v[:, :, a:b]) for a, b in ((0, 3), (3, 3), (3, KEYS))]
    joined = camber.merge([s.output for s in shards], [s.logsumexp for s in shards])
    torch.testing.assert_close(joined.output, whole.output)
    torch.testing.assert_close(joined.logsumexp, whole.logsumexp)
    expected = torch.autograd.grad(whole.output.square().sum() + whole.logsumexp.sum(), (q, k, v))
    got = torch.autograd.grad(joined.output.square().sum() + joined.logsumexp.sum(), (q, k, v))
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a, b)


def test_sparse_attention_is_attention_over_the_list():
    q, k, v, bias, _ = make_inputs()
    rows, keys, value = bias.windows
    added = torch.full((BATCH, HEADS, QUERIES, KEYS), -math.inf, dtype=torch.float64)
    for b in range(BATCH):
        for query in range(QUERIES):
            for e in range(rows[b * QUERIES + query], rows[b * QUERIES + query + 1]):
                added[b, :, query, keys[e]] = value[:, e].detach()
    output = camber.sparse_attention(q, k, v, rows, keys, value)
    torch.testing.assert_close(output, by_definition(q, k, v, added)[0])


def test_dropout_is_a_function_of_its_seed():
    q, k, v, _, _ = make_inputs()
    first = camber.biased_attention(q, k, v, dropout=0.5, dropout_seed=1).output
    assert torch.equal(first, camber.biased_attention(q, k, v, dropout=0.5, dropout_seed=1).output)
    assert not torch.equal(first, camber.biased_attention(q, k, v, dropout=0.5, dropout_seed=2).output)
    reference = camber.biased_attention(q, k, v, dropout=0.5, dropout_seed=1, implementation="reference").output
    torch.testing.assert_close(first, reference)


def test_explains_what_ran():
    q, k, v, bias, _ = make_inputs(torch.float32)
    assert camber.explain_attention(q, k, v, bias, implementation="streamed") == "streamed ran"
    assert " ran" in camber.explain_attention(q, k, v, bias)
    # Double inputs are never taken by the fused kernels, and the answer says so.
    q, k, v, bias, _ = make_inputs(torch.float64)
    assert camber.explain_attention(q, k, v, bias).startswith("streamed ran; fused: ")


def test_float_padding_of_zeros_and_infinities():
    """What CMT passes: float zeros for keys that all exist."""
    q, k, v, _, _ = make_inputs()
    plain = camber.biased_attention(q, k, v).output
    assert torch.equal(camber.biased_attention(q, k, v, key_padding_mask=torch.zeros(BATCH, KEYS)).output, plain)
    blocked = torch.zeros(BATCH, KEYS, dtype=torch.bool)
    blocked[1, 3:] = True
    added = torch.zeros(BATCH, KEYS).masked_fill(blocked, -math.inf)
    expected = camber.biased_attention(q, k, v, key_padding_mask=blocked).output
    assert torch.equal(camber.biased_attention(q, k, v, key_padding_mask=added).output, expected)

    def attend(q, mask):
        return camber.biased_attention(q, k, v, key_padding_mask=mask).output

    compiled = torch.compile(attend, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(q, added), expected)
    with pytest.raises(RuntimeError, match="key_padding_mask must be bool .* other values go in as attn_mask"):
        compiled(q, torch.ones(BATCH, KEYS))


def test_other_float_padding_is_a_sentence():
    q, k, v, _, _ = make_inputs()
    start = (
        "[biased_attention] key_padding_mask must be bool [B, K] (True = blocked), or float with 0 (kept) and -inf "
        "(blocked) alone: other values go in as attn_mask, got "
    )
    for mask, got in (
        (torch.eye(BATCH, KEYS), "values from 0.0 to 1.0"),
        (torch.zeros(BATCH, KEYS, requires_grad=True), "one that requires a gradient"),
    ):
        with pytest.raises(ValueError) as error:
            camber.biased_attention(q, k, v, key_padding_mask=mask)
        assert str(error.value) == start + got


@pytest.mark.parametrize("call", [camber.biased_attention, camber.explain_attention])
def test_another_bias_is_a_sentence(call):
    q, k, v, _, mask = make_inputs()
    end = ": a dense bias goes in as attn_mask (see camber.dense_mask) or through StructuredBias.from_dense"
    for bias, got in ((mask, "a tensor [1, 2, 5, 14]"), ({}, "dict")):
        with pytest.raises(TypeError) as error:
            call(q, k, v, bias)
        assert str(error.value) == f"[biased_attention] bias must be a StructuredBias or None, got {got}{end}"
