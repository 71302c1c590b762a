"""camber.scaled_dot_product_attention against the function whose signature it has."""

import inspect

import pytest
import torch
from torch.nn import functional as F

import camber

SHAPES = {"2d": (), "3d": (3,), "4d": (2, 3), "5d": (2, 2, 3)}


def inputs(leading, queries=5, keys=7, width=8, value_width=6, dtype=torch.float64):
    torch.manual_seed(1)
    sizes = ((queries, width), (keys, width), (keys, value_width))
    return [torch.randn(*leading, *size, dtype=dtype, requires_grad=True) for size in sizes]


def same(ours, torchs, leaves):
    """Both outputs and all gradients."""
    torch.testing.assert_close(ours, torchs)
    weight = torch.randn_like(ours)
    for got, expected in zip(
        torch.autograd.grad((ours * weight).sum(), leaves),
        torch.autograd.grad((torchs * weight).sum(), leaves),
        strict=True,
    ):
        torch.testing.assert_close(got, expected)


def test_signature_is_torchs():
    ours = inspect.signature(camber.scaled_dot_product_attention).parameters
    names = ["query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa"]
    assert list(ours) == names
    for name in names:
        assert name in F.scaled_dot_product_attention.__doc__
    assert [ours[n].default for n in names[3:]] == [None, 0.0, False, None, False]


@pytest.mark.parametrize("leading", SHAPES.values(), ids=SHAPES)
def test_without_a_mask(leading):
    q, k, v = inputs(leading)
    same(
        camber.scaled_dot_product_attention(q, k, v, scale=0.2),
        F.scaled_dot_product_attention(q, k, v, scale=0.2),
        (q, k, v),
    )


@pytest.mark.parametrize(
    ("leading", "mask_shape"),
    [
        ((), (5, 7)),
        ((3,), (5, 7)),
        ((3,), (3, 5, 7)),
        ((2, 3), (5, 7)),
        ((2, 3), (3, 1, 7)),
        ((2, 3), (2, 1, 5, 7)),
        ((2, 3), (2, 3, 5, 1)),
        ((2, 2, 3), (2, 1, 3, 5, 7)),
        ((2, 2, 3), (2, 1, 1, 5, 7)),
    ],
)
@pytest.mark.parametrize("kind", ["float", "bool"])
def test_masks(leading, mask_shape, kind):
    q, k, v = inputs(leading)
    if kind == "float":
        mask = torch.randn(mask_shape, dtype=q.dtype, requires_grad=True)
        leaves = (q, k, v, mask)
    else:
        mask = torch.rand(mask_shape) < 0.7
        leaves = (q, k, v)
    same(camber.scaled_dot_product_attention(q, k, v, mask), F.scaled_dot_product_attention(q, k, v, mask), leaves)


@pytest.mark.parametrize("sizes", [(5, 7), (7, 5), (6, 6)])
def test_causal(sizes):
    q, k, v = inputs((2, 3), *sizes)
    same(
        camber.scaled_dot_product_attention(q, k, v, is_causal=True),
        F.scaled_dot_product_attention(q, k, v, is_causal=True),
        (q, k, v),
    )


def test_grouped_queries():
    torch.manual_seed(2)
    q = torch.randn(2, 6, 5, 8, dtype=torch.float64, requires_grad=True)
    k, v = (torch.randn(2, 3, 7, 8, dtype=torch.float64, requires_grad=True) for _ in range(2))
    mask = torch.randn(2, 6, 5, 7, dtype=torch.float64, requires_grad=True)
    same(
        camber.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True),
        F.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True),
        (q, k, v, mask),
    )


def test_dropout_follows_the_seed_of_torch():
    q, k, v = inputs((2, 3), queries=40, keys=60)
    torch.manual_seed(5)
    first = camber.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
    second = camber.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
    torch.manual_seed(5)
    assert torch.equal(first, camber.scaled_dot_product_attention(q, k, v, dropout_p=0.5))
    assert not torch.equal(first, second)
    # Unbiased: kept weights are scaled by 1 / (1 - p).
    ones = torch.ones_like(v)
    assert abs(camber.scaled_dot_product_attention(q, k, ones, dropout_p=0.5).mean().item() - 1) < 0.05


def test_float32_and_bfloat16():
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.bfloat16, 3e-2)):
        q, k, v = inputs((2, 3), dtype=dtype)
        mask = torch.randn(5, 7, dtype=dtype)
        got = camber.scaled_dot_product_attention(q, k, v, mask)
        assert got.dtype == dtype
        expected = F.scaled_dot_product_attention(q.double(), k.double(), v.double(), mask.double())
        torch.testing.assert_close(got.double(), expected, atol=tolerance, rtol=tolerance)


def test_compiles_to_one_graph():
    q, k, v = inputs((2, 3), dtype=torch.float32)
    mask = torch.randn(3, 5, 7, requires_grad=True)
    compiled = torch.compile(camber.scaled_dot_product_attention, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(q, k, v, mask), camber.scaled_dot_product_attention(q, k, v, mask))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            {"attn_mask": torch.zeros(5, 7), "is_causal": True},
            "[scaled_dot_product_attention] attn_mask must be None when is_causal is set, got both",
        ),
        (
            {"attn_mask": torch.zeros(4, 7)},
            "[scaled_dot_product_attention] attn_mask must broadcast to [*, Q, K] = [2, 3, 5, 7], got [4, 7]",
        ),
        (
            {"key": torch.zeros(7, 8)},
            "[scaled_dot_product_attention] key must be [*, N, D] with as many dimensions as query (4), got [7, 8]",
        ),
        (
            {"key": torch.zeros(2, 2, 7, 8), "enable_gqa": True},
            (
                "[scaled_dot_product_attention] the heads of key and value must divide those of query with enable_gqa, "
                "got query [2, 3, 5, 8], key [2, 2, 7, 8] and value [2, 3, 7, 6]"
            ),
        ),
    ],
)
def test_errors_are_sentences(arguments, sentence):
    q, k, v = inputs((2, 3), dtype=torch.float32)
    with pytest.raises(ValueError) as error:
        camber.scaled_dot_product_attention(**{"query": q, "key": k, "value": v, **arguments})
    assert str(error.value) == sentence


class LearnedMask(torch.nn.Module):
    def __init__(self, *shape):
        super().__init__()
        self.mask = torch.nn.Parameter(torch.randn(*shape))

    def forward(self, q, k, v):
        return camber.scaled_dot_product_attention(q, k, v, self.mask)


@pytest.mark.parametrize("shape", [(5, 6), (1, 6), (2, 5, 6), (2, 1, 6), (3, 2, 5, 6), (1, 2, 5, 6)])
def test_a_parameter_as_mask_compiles_with_dynamic_sizes(shape):
    """Parameters keep their numbers as sizes, the inputs get symbols: both must be compared, not looked for."""
    torch.manual_seed(2)
    q, k, v = (torch.randn(3, 2, n, 8) for n in (5, 6, 6))
    model = LearnedMask(*shape)
    compiled = torch.compile(model, dynamic=True, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(q, k, v), model(q, k, v))
