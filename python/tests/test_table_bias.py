"""Biases out of a table: by index, by offsets, by slopes; beside the same bias as a dense mask."""

import pytest
import torch

import camber

BATCH, HEADS, QUERIES, KEYS, WIDTH = 2, 3, 12, 20, 8


def rows(dtype=torch.float64):
    torch.manual_seed(3)
    return [torch.randn(BATCH, HEADS, n, WIDTH, dtype=dtype, requires_grad=True) for n in (QUERIES, KEYS, KEYS)]


def offsets_bias(table):
    places = [torch.stack([torch.arange(n) // 4, torch.arange(n) % 4], 1) for n in (QUERIES, KEYS)]
    return camber.StructuredBias.from_offsets(table, *places)


def index_bias(table):
    index = torch.arange(QUERIES * KEYS).reshape(QUERIES, KEYS) * 7 % table[0].numel()
    return camber.StructuredBias.from_table(table.flatten(1), index)


def tables(dtype=torch.float64):
    torch.manual_seed(4)
    return [torch.randn(heads, 3, 5, dtype=dtype, requires_grad=True) for heads in (1, HEADS)]


@pytest.mark.parametrize("make", [offsets_bias, index_bias])
@pytest.mark.parametrize("implementation", ["auto", "fused", "streamed", "reference"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equals_the_dense_mask_with_all_gradients(make, implementation, dtype):
    if implementation == "fused" and dtype == torch.float64:
        pytest.skip("the kernels take no double")
    for table in tables(dtype):
        leaves = [*rows(dtype), table]
        bias = make(table)
        got = camber.biased_attention(*leaves[:3], bias, implementation=implementation)
        dense = make(table).materialize(1, QUERIES, KEYS)
        wanted = torch.nn.functional.scaled_dot_product_attention(*leaves[:3], dense.expand(BATCH, HEADS, -1, -1))
        tolerance = {"atol": 1e-12 if dtype == torch.float64 else 2e-5, "rtol": 0}
        torch.testing.assert_close(got.output, wanted, **tolerance)
        flow = torch.randn_like(wanted)
        for ours, theirs in zip(
            torch.autograd.grad(got.output, leaves, flow), torch.autograd.grad(wanted, leaves, flow)
        ):
            torch.testing.assert_close(ours, theirs, **tolerance)


@pytest.mark.parametrize("implementation", ["auto", "reference"])
def test_numeric_gradients(implementation):
    for table in tables():
        assert torch.autograd.gradcheck(
            lambda q, k, v, values: (
                camber.biased_attention(q, k, v, offsets_bias(values), implementation=implementation).output
            ),
            (*rows(), table),
            fast_mode=True,
        )


def test_slopes_are_alibi():
    slopes = torch.tensor([0.5, 0.25, 0.125], requires_grad=True)
    bias = camber.StructuredBias.from_slopes(slopes, torch.arange(QUERIES) + 8, torch.arange(KEYS))
    distance = (torch.arange(KEYS)[None] - torch.arange(QUERIES)[:, None] - 8).abs()
    torch.testing.assert_close(bias.materialize(1, QUERIES, KEYS)[0], -slopes[:, None, None] * distance)
    q, k, v = rows(torch.float32)
    camber.scaled_dot_product_attention(q, k, v, bias).sum().backward()
    assert slopes.grad is not None


def test_comes_with_windows_segments_and_causal_rows():
    q, k, v = rows(torch.float32)
    table = tables(torch.float32)[1]
    dense = torch.zeros(BATCH, QUERIES, KEYS)
    dense[:, :, 3] = 2.0
    windows = camber.StructuredBias.from_dense(dense).windows
    bias = camber.StructuredBias(windows, table=offsets_bias(table).table)
    got = camber.scaled_dot_product_attention(q, k, v, bias, is_causal=True)
    mask = (bias.materialize(BATCH, QUERIES, KEYS)).masked_fill(torch.ones(QUERIES, KEYS).triu(1) > 0, -torch.inf)
    torch.testing.assert_close(got, torch.nn.functional.scaled_dot_product_attention(q, k, v, mask), atol=1e-5, rtol=0)


def test_operators_follow_the_table():
    q, k, v = rows(torch.float32)
    for bias in (offsets_bias(tables(torch.float32)[1]), index_bias(tables(torch.float32)[0])):
        options = dict(zip(("table_value", "table_index", "query_code", "key_code"), bias.table))
        options["row_lengths"] = torch.arange(QUERIES)[None] + 1
        torch.library.opcheck(torch.ops.camber.biased_attention.default, (q, k, v), options)
        moved = bias.to(dtype=torch.float64)
        assert moved.table.value.dtype == torch.float64
        assert moved.bytes() > bias.bytes() > 0


def test_compiles_as_one_graph():
    def attend(q, k, v, table):
        return camber.biased_attention(q, k, v, camber.StructuredBias(table=camber.Table(table, None, *codes)))

    q, k, v = rows(torch.float32)
    bias = offsets_bias(tables(torch.float32)[1])
    codes = (bias.table.query_code, bias.table.key_code)
    compiled = torch.compile(attend, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(
        compiled(q, k, v, bias.table.value).output, attend(q, k, v, bias.table.value).output, atol=0, rtol=0
    )


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: camber.StructuredBias.from_table(torch.zeros(3), torch.zeros(2, 2, dtype=torch.int64)),
            "[StructuredBias] value must be float [1 or H, T], got torch.float32 [3]",
        ),
        (
            lambda: camber.StructuredBias.from_table(torch.zeros(1, 3), torch.zeros(2, 2)),
            "[StructuredBias] index must be integers [Q, K], got torch.float32 [2, 2]",
        ),
        (
            lambda: camber.StructuredBias.from_offsets(torch.zeros(1, 4), *[torch.zeros(2, 1, dtype=torch.int64)] * 2),
            "[StructuredBias] table must be float [1 or H, 2 m + 1, ..], got torch.float32 [1, 4]",
        ),
        (
            lambda: camber.StructuredBias.from_offsets(torch.zeros(1, 5), *[torch.zeros(2, 2, dtype=torch.int64)] * 2),
            "[StructuredBias] query_position must be integers [rows, 1], got torch.int64 [2, 2]",
        ),
        (
            lambda: camber.StructuredBias.from_slopes(torch.zeros(2, 2), torch.arange(2), torch.arange(2)),
            "[StructuredBias] slopes must be float [H], got torch.float32 [2, 2]",
        ),
        (
            lambda: camber.biased_attention(
                *rows(torch.float32),
                camber.StructuredBias.from_table(torch.zeros(1, 3), torch.full((QUERIES, KEYS), 3)),
            ),
            "[biased_attention] table_index must lie in 0 .. T-1 = 2, got 3 to 3",
        ),
        (
            lambda: camber.biased_attention(
                *rows(torch.float32), camber.StructuredBias(table=camber.Table(torch.zeros(1, 3)))
            ),
            "[biased_attention] table_value must come with table_index, or with query_code and key_code",
        ),
        (
            lambda: camber.biased_attention(*rows(torch.float32), row_lengths=torch.full((1, QUERIES), KEYS + 1)),
            f"[biased_attention] row_lengths must lie in 0 .. K = {KEYS}, got {KEYS + 1} for row 0",
        ),
        (
            lambda: camber.biased_attention(*rows(torch.float32), row_lengths=torch.ones(QUERIES, dtype=torch.int64)),
            f"[biased_attention] row_lengths must be [1 or B, Q] = [1 or {BATCH}, {QUERIES}], got [{QUERIES}]",
        ),
    ],
)
def test_errors_are_sentences(call, sentence):
    with pytest.raises(ValueError) as error:
        call()
    assert str(error.value).split("\n")[0] == sentence
