"""StructuredBias: windows against a slow loop, dense forms there and back, gradients, sentences."""

import math

import pytest
import torch
from attention_inputs import make_inputs

import camber

MAPS = [(7, 5), (4, 6)]
KEYS = 7 * 5 + 4 * 6


def dense_by_loop(center, size, strength, form):
    """[B, Hb, Q, K]: every cell of every window, one by one."""
    heads, batch, queries, _ = strength.shape
    dense = torch.zeros(batch, heads, queries, KEYS, dtype=strength.dtype)
    for b in range(batch):
        for q in range(queries):
            for m, (columns, rows) in enumerate(MAPS):
                column, row = center[b, q, m].tolist()
                if column < 0:
                    continue
                first, half = sum(c * r for c, r in MAPS[:m]), int(size[b, q, m]) // 2
                for y in range(row - half, row + half + 1):
                    for x in range(column - half, column + half + 1):
                        if not (0 <= x < columns and 0 <= y < rows):
                            continue
                        squared = (x - column) ** 2 + (y - row) ** 2
                        sigma = int(size[b, q, m]) / 6
                        g = 1.0 if form == "box" else math.exp(-squared / (2 * sigma**2))
                        dense[b, :, q, first + y * columns + x] = g * strength[:, b, q, m]
    return dense


def draw(heads):
    torch.manual_seed(11)
    center = torch.stack(
        [torch.stack([torch.randint(-1, c, (2, 9)), torch.randint(0, r, (2, 9))], -1) for c, r in MAPS], 2
    )
    size = torch.randint(0, 4, (2, 9, 2), dtype=torch.int32) * 2 + 1
    return center, size, torch.randn(heads, 2, 9, 2, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("form", ["box", "gaussian"])
@pytest.mark.parametrize("heads", [1, 3])
def test_windows_are_those_of_a_slow_loop(form, heads):
    center, size, strength = draw(heads)
    bias = camber.StructuredBias.from_windows(center, size, MAPS, strength, form=form)
    torch.testing.assert_close(bias.materialize(), dense_by_loop(center, size, strength, form), atol=1e-6, rtol=1e-6)
    assert bias.segments.offsets.tolist() == [0, 35, 59]
    assert bias.shape == (2, 9, KEYS)


def test_one_size_one_a_map_and_one_a_query_agree():
    center, _, strength = draw(1)
    whole = torch.full((2, 9, 2), 3, dtype=torch.int32)
    for size in (3, [3, 3], torch.tensor([3, 3]), whole):
        bias = camber.StructuredBias.from_windows(center, size, MAPS, strength[0])
        assert torch.equal(
            bias.materialize(), camber.StructuredBias.from_windows(center, whole, MAPS, strength).materialize()
        )


@pytest.mark.parametrize(
    ("layout", "heads"), [("batch_query_key", 1), ("query_batch_key", 1), ("batch_head_query_key", 3)]
)
def test_dense_there_and_back(layout, heads):
    torch.manual_seed(0)
    dense = torch.randn(2, heads, 4, 6).where(torch.rand(2, heads, 4, 6) < 0.4, 0.0)
    shaped = {
        "batch_query_key": dense[:, 0],
        "query_batch_key": dense[:, 0].transpose(0, 1),
        "batch_head_query_key": dense.flatten(0, 1),
    }[layout]
    bias = camber.StructuredBias.from_dense(shaped, layout, heads=heads if heads > 1 else None)
    assert torch.equal(bias.materialize(), dense)
    assert torch.equal(camber.dense_mask(shaped, layout, heads=heads), dense)


def test_support_keeps_zeros_that_learn():
    dense = torch.zeros(1, 2, 5, requires_grad=True)
    support = torch.zeros(1, 2, 5, dtype=torch.bool)
    support[0, :, 1:3] = True
    bias = camber.StructuredBias.from_dense(dense, support=support)
    assert bias.windows.value.shape == (1, 4)
    bias.materialize().sum().backward()
    assert torch.equal(dense.grad, support.float())


def test_bytes_are_what_is_stored():
    center, size, strength = draw(1)
    bias = camber.StructuredBias.from_windows(center, size, MAPS, strength)
    entries = bias.windows.key_index.numel()
    assert bias.bytes() == 8 * (2 * 9 + 1) + 4 * entries + 8 * entries + 8 * 3


def test_an_empty_bias_is_zero():
    assert torch.equal(camber.StructuredBias().materialize(1, 2, 3), torch.zeros(1, 1, 2, 3))


def raises(sentence, call):
    with pytest.raises(ValueError) as error:
        call()
    assert str(error.value).splitlines()[0] == sentence


def test_errors_are_sentences():
    center, _, strength = draw(1)
    windows = camber.StructuredBias.from_windows
    raises(
        "[build_windows] size must be odd and at least 1, got 4",
        lambda: windows(center, 4, MAPS, strength),
    )
    raises(
        "[StructuredBias] form must be 'box' or 'gaussian', got 'round'",
        lambda: windows(center, 3, MAPS, strength, form="round"),
    )
    raises(
        "[StructuredBias] strength must be [B, Q, M] or [Hb, B, Q, M] with [B, Q, M] = [2, 9, 2], got [2, 9, 1]",
        lambda: windows(center, 3, MAPS, strength[0, ..., :1]),
    )
    raises(
        "[StructuredBias] size must be a number, one for each of the 2 maps or [B, Q, M] = [2, 9, 2], got [3]",
        lambda: windows(center, [3, 3, 3], MAPS, strength),
    )
    raises(
        "[StructuredBias] size must hold whole numbers, got torch.float32", lambda: windows(center, 3.0, MAPS, strength)
    )
    raises(
        "[StructuredBias] center must be int64 [B, Q, M, 2], got [2, 9, 2]",
        lambda: windows(center[..., 0], 3, MAPS, strength),
    )
    raises(
        "[StructuredBias] support must be given for a dense bias that requires a gradient: entries that happen to be zero "
        "would never learn (or pass the bias as attn_mask, see camber.dense_mask)",
        lambda: camber.StructuredBias.from_dense(torch.zeros(1, 2, 3, requires_grad=True)),
    )
    raises(
        "[StructuredBias] heads must divide the first size of dense [6, 2, 3] in the layout [B*H, Q, K], got 4",
        lambda: camber.dense_mask(torch.zeros(6, 2, 3), "batch_head_query_key", heads=4),
    )
    raises(
        "[StructuredBias] layout must be one of batch_query_key, query_batch_key, batch_head_query_key, got 'BQK'",
        lambda: camber.dense_mask(torch.zeros(6, 2, 3), "BQK"),
    )
    raises(
        "[StructuredBias] batch, queries and keys must be given for a bias that was made by hand",
        lambda: camber.StructuredBias().materialize(),
    )
    raises(
        "[biased_attention] attn_mask must be a float tensor (a bool mask goes in as blocked_mask, true = blocked), got "
        "Bool [1, 1, 2, 3]",
        lambda: camber.biased_attention(
            *(torch.zeros(1, 1, n, 4) for n in (2, 3, 3)), attn_mask=torch.ones(1, 1, 2, 3, dtype=torch.bool)
        ),
    )
    raises(
        "[biased_attention] implementation must be auto, fused, corrected, streamed or reference, got 'fast'",
        lambda: camber.biased_attention(*(torch.zeros(1, 1, n, 4) for n in (2, 3, 3)), implementation="fast"),
    )


def test_sizes_of_windows_compile_with_dynamic_sizes():
    sizes = torch.nn.Parameter(torch.tensor([3, 5]), requires_grad=False)
    center = torch.zeros(2, 3, 2, 2, dtype=torch.int64)

    def values(center, strength):
        return camber.StructuredBias.from_windows(center, sizes, [(4, 4), (6, 5)], strength).windows.value

    strength = torch.rand(2, 3, 2)
    compiled = torch.compile(values, dynamic=True, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(center, strength), values(center, strength))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_strength_is_computed_in_float(dtype):
    center = torch.zeros(2, 3, 2, 2, dtype=torch.int64)
    strength = torch.randn(2, 3, 2).to(dtype).requires_grad_(True)
    maps = [(4, 4), (6, 5)]

    def values(strength):
        return camber.StructuredBias.from_windows(center, 3, maps, strength, form="gaussian").windows.value

    value, exact = values(strength), values(strength.detach().float())
    assert torch.equal(value, exact) and value.dtype == torch.float32
    value.sum().backward()
    assert strength.grad.dtype == dtype and strength.grad.abs().max() > 0


def test_moves_to_another_device_and_type():
    inputs = make_inputs(torch.float32)
    moved = inputs.bias.to("meta")
    assert {part.device.type for part in (*moved.windows, *moved.segments)} == {"meta"}
    assert moved.shape == inputs.bias.shape
    half = inputs.bias.to(dtype=torch.bfloat16)
    assert (half.windows.value.dtype, half.segments.value.dtype) == (torch.bfloat16, torch.bfloat16)
    assert (half.windows.row_offsets.dtype, half.windows.key_index.dtype) == (torch.int64, torch.int32)
    assert half.segments.offsets.dtype == torch.int64
    half.windows.value.sum().backward()
    assert inputs.bias.windows.value.grad is not None
    assert camber.StructuredBias(segments=camber.Segments(torch.tensor([0, 3]))).to("meta").segments.value is None
    q, k, v = (tensor.detach().to("meta") for tensor in inputs[:3])
    assert camber.biased_attention(q, k, v, moved).output.shape == (*q.shape[:3], v.shape[3])
