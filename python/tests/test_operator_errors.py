"""Every operator checks what it indexes with: bad arguments get one sentence, never a crash or a wrong number."""

import math

import pytest
import torch
from attention_inputs import BATCH, HEADS, KEYS, MAPS, QUERIES, WIDTH

operators = torch.ops.camber
ROWS = BATCH * QUERIES
ENTRIES = 2 * ROWS


def int32(*values):
    return torch.tensor(values, dtype=torch.int32)


def rows():
    """Two entries a row, on the keys 1 and 4."""
    return torch.arange(0, ENTRIES + 1, 2), int32(1, 4).repeat(ROWS)


def qkv(dtype=torch.float32):
    shapes = ((QUERIES, WIDTH), (KEYS, WIDTH), (KEYS, WIDTH + 1))
    return [torch.randn(BATCH, HEADS, *shape, dtype=dtype) for shape in shapes]


def attention_arguments():
    row_offsets, key_index = rows()
    q, k, v = qkv()
    return {
        "query": q,
        "key": k,
        "value": v,
        "row_offsets": row_offsets,
        "key_index": key_index,
        "window_value": torch.randn(1, ENTRIES),
        "segment_offsets": torch.tensor([0, 6, KEYS]),
        "segment_value": torch.randn(BATCH, 1, QUERIES, 2),
        "segment_available": None,
        "attn_mask": None,
        "blocked_mask": None,
        "key_padding_mask": None,
        "key_lengths": torch.tensor([KEYS, 9]),
        "row_lengths": None,
        "table_value": None,
        "table_index": None,
        "query_code": None,
        "key_code": None,
        "softmax_scale": None,
        "dropout": 0.0,
        "seed": 0,
        "statistics": False,
        "implementation": "auto",
    }


def attention_backward_arguments():
    forward = attention_arguments()
    output, logsumexp, _, _ = operators.biased_attention(**forward)
    saved = {"grad_output": torch.randn_like(output), "grad_logsumexp": torch.randn_like(logsumexp)}
    return {**saved, "output": output, "logsumexp": logsumexp, **forward, "needs": [True] * 7}


def sparse_arguments():
    row_offsets, key_index = rows()
    q, k, v = qkv()
    lists = {"row_offsets": row_offsets, "key_index": key_index, "bias": torch.randn(1, ENTRIES)}
    return {"query": q, "key": k, "value": v, **lists, "softmax_scale": None}


def sparse_backward_arguments():
    forward = sparse_arguments()
    output, logsumexp = operators.sparse_attention(**forward)
    saved = {"grad_output": torch.randn_like(output), "output": output, "logsumexp": logsumexp}
    return {**saved, **forward, "needs": [True] * 4}


def values_arguments():
    row_offsets, _ = rows()
    lists = {"profile": torch.rand(ENTRIES), "row_offsets": row_offsets, "map_index": int32(0, 1).repeat(ROWS)}
    return {"strength": torch.randn(HEADS, ROWS, 2), **lists}


def values_backward_arguments():
    lists = values_arguments()
    del lists["strength"]
    return {"grad": torch.randn(HEADS, ENTRIES), **lists, "maps": 2}


def windows_arguments():
    size = torch.full((BATCH, QUERIES, 2), 3, dtype=torch.int32)
    return {
        "center": torch.zeros(BATCH, QUERIES, 2, 2, dtype=torch.int64),
        "size": size,
        "map_shape": torch.tensor(MAPS),
    }


GOOD = {
    "biased_attention": attention_arguments,
    "biased_attention_backward": attention_backward_arguments,
    "biased_attention_report": attention_arguments,
    "sparse_attention": sparse_arguments,
    "sparse_attention_backward": sparse_backward_arguments,
    "window_values": values_arguments,
    "window_values_backward": values_backward_arguments,
    "build_windows": windows_arguments,
}


@pytest.mark.parametrize("name", GOOD)
def test_the_good_arguments_are_good(name):
    getattr(operators, name)(**GOOD[name]())


FAR = torch.arange(0, ENTRIES + 1, 2).index_fill(0, torch.tensor([1]), 50_000_000)  # rises out of the list, then falls
NEGATIVE = torch.arange(0, ENTRIES + 1, 2).index_fill(0, torch.tensor([1]), -50_000_000)
FAR_KEY = int32(1, 50_000_000).repeat(ROWS)
ROW_FALLS = "row_offsets must never fall, got 50000000 then 4 at row 1"
KEY_BEYOND = f"key_index must lie in 0 .. K-1 = {KEYS - 1}, got 50000000 in row 0"
MAP_BEYOND = "map_index must lie in 0 .. M-1 = 1, got 50000000"
OUTPUT = [BATCH, HEADS, QUERIES, WIDTH + 1]


def on_rows(names):
    """Lists that leave memory, for every operator that walks along them."""
    for name, prefix in names:
        yield name, {"row_offsets": FAR}, f"[{prefix}] {ROW_FALLS}"
        yield name, {"row_offsets": NEGATIVE}, f"[{prefix}] row_offsets must never fall, got 0 then -50000000 at row 0"
        end = torch.arange(0, 3 * ROWS + 1, 3)
        yield name, {"row_offsets": end}, f"[{prefix}] row_offsets must run from 0 to nnz = 20, got 0 to 30"


BAD = [
    *on_rows(
        [
            ("biased_attention", "biased_attention"),
            ("biased_attention_backward", "biased_attention"),
            ("sparse_attention", "sparse_attention"),
            ("sparse_attention_backward", "sparse_attention_backward"),
            ("window_values", "window_values"),
            ("window_values_backward", "window_values_backward"),
        ]
    ),
    ("biased_attention_backward", {"key_index": FAR_KEY}, f"[biased_attention] {KEY_BEYOND}"),
    ("sparse_attention", {"key_index": FAR_KEY}, f"[sparse_attention] {KEY_BEYOND}"),
    ("sparse_attention_backward", {"key_index": FAR_KEY}, f"[sparse_attention_backward] {KEY_BEYOND}"),
    ("window_values", {"map_index": FAR_KEY}, f"[window_values] {MAP_BEYOND}"),
    ("window_values_backward", {"map_index": FAR_KEY}, f"[window_values_backward] {MAP_BEYOND}"),
    (
        "biased_attention_backward",
        {"segment_offsets": torch.tensor([0, 50_000_000, KEYS])},
        f"[biased_attention] segment_offsets must never fall, got 50000000 then {KEYS} at segment 1",
    ),
    (
        "biased_attention_backward",
        {"key_lengths": torch.tensor([KEYS, 50_000_000])},
        f"[biased_attention] key_lengths must lie in 0 .. K = {KEYS}, got 50000000 for batch element 1",
    ),
    # Shapes and types of what the forward saved and of what flows back.
    *(
        (
            "biased_attention_backward",
            {name: torch.zeros(1)},
            f"[biased_attention_backward] {name} must be Float {shape}, got Float [1]",
        )
        for name, shape in (
            ("grad_output", OUTPUT),
            ("output", OUTPUT),
            ("logsumexp", OUTPUT[:3]),
            ("grad_logsumexp", OUTPUT[:3]),
        )
    ),
    (
        "biased_attention_backward",
        {"logsumexp": torch.zeros(OUTPUT[:3], dtype=torch.float64)},
        f"[biased_attention_backward] logsumexp must be Float {OUTPUT[:3]}, got Double {OUTPUT[:3]}",
    ),
    (
        "biased_attention_backward",
        {"window_value": torch.zeros(1, 3)},
        "[biased_attention] window_value must be float [1 or H, nnz] = [1 or 2, 20], got Float [1, 3]",
    ),
    *(
        (
            "sparse_attention_backward",
            {name: torch.zeros(1)},
            f"[sparse_attention_backward] {name} must be Float {shape}, got Float [1]",
        )
        for name, shape in (("grad_output", OUTPUT), ("output", OUTPUT), ("logsumexp", OUTPUT[:3]))
    ),
    (
        "sparse_attention_backward",
        {"output": torch.zeros(OUTPUT, dtype=torch.float64)},
        f"[sparse_attention_backward] output must be Float {OUTPUT}, got Double {OUTPUT}",
    ),
    ("sparse_attention_backward", {"needs": [True]}, "[sparse_attention_backward] needs must hold 4 flags, got 1"),
    (
        "window_values",
        {"strength": torch.zeros(HEADS, ROWS, 2, dtype=torch.float64)},
        (
            "[window_values] strength must be [Hb, B*Q, M] with B*Q = 10 and the dtype of profile (Float), "
            "got Double [2, 10, 2]"
        ),
    ),
    (
        "window_values",
        {"row_offsets": torch.tensor(3)},
        "[window_values] row_offsets must be int64 [B*Q+1], got Long []",
    ),
    (
        "window_values_backward",
        {"grad": torch.zeros(HEADS, 3)},
        (
            "[window_values_backward] grad must be [Hb, nnz] with nnz = 20 and the dtype of profile (Float), "
            "got Float [2, 3]"
        ),
    ),
    (
        "window_values_backward",
        {"grad": torch.zeros(HEADS, ENTRIES, dtype=torch.float64)},
        (
            "[window_values_backward] grad must be [Hb, nnz] with nnz = 20 and the dtype of profile (Float), "
            "got Double [2, 20]"
        ),
    ),
    ("window_values_backward", {"maps": -1}, "[window_values_backward] maps must be at least 0, got -1"),
    (
        "window_values_backward",
        {"row_offsets": torch.zeros(0, dtype=torch.int64)},
        "[window_values_backward] row_offsets must be int64 [B*Q+1], got Long [0]",
    ),
    (
        "build_windows",
        {"map_shape": torch.tensor([[2**40, 2**40], [2, 4]])},
        "[build_windows] map_shape must hold fewer than 2^31 keys in all, got 1099511627776 x 1099511627776 after 0 keys",
    ),
    (
        "build_windows",
        {
            "map_shape": torch.tensor([[2**30, 1], [2, 4]]),
            "size": torch.full((BATCH, QUERIES, 2), 100_001, dtype=torch.int32),
        },
        "[build_windows] size must keep squared distances below 2^31, got 100001 on a map of 1073741824 x 1",
    ),
    (
        "biased_attention_report",
        {"key_index": torch.zeros(3)},
        "[biased_attention] key_index must be int32 [nnz], got Float [3]",
    ),
    (
        "biased_attention",
        {"row_offsets": rows()[0].to("meta")},
        "[biased_attention] row_offsets must be on the device of q, cpu, got meta",
    ),
    (
        "biased_attention_backward",
        {"output": torch.zeros(OUTPUT, device="meta")},
        "[biased_attention_backward] output must be on the device of q, cpu, got meta",
    ),
    # A value that is +inf where scores are computed.
    *(
        ("sparse_attention", {"bias": torch.full((1, ENTRIES), value)}, f"[sparse_attention] value must be {sentence}")
        for value, sentence in (
            (math.inf, "below +inf (-inf removes a key), got +inf"),
            (3e38, "below 2^125, so that a score stays finite in float, got 3e+38"),
        )
    ),
    *(
        (
            "biased_attention",
            {name: torch.full(shape, 1e39, dtype=torch.float64)},
            f"[biased_attention] {name} must be below 2^125, so that a score stays finite in float, got 1e+39",
        )
        for name, shape in (
            ("window_value", (1, ENTRIES)),
            ("segment_value", (BATCH, 1, QUERIES, 2)),
            ("attn_mask", (1, 1, QUERIES, KEYS)),
        )
    ),
    (
        "biased_attention",
        {"attn_mask": torch.full((1, 1, QUERIES, KEYS), math.nan).index_fill(3, torch.tensor([2]), 3e38)},
        "[biased_attention] attn_mask must be below 2^125, so that a score stays finite in float, got 3e+38",
    ),
    *(
        (name, {"softmax_scale": 1e39}, f"[{name}] softmax_scale must be finite in float, got 1e+39")
        for name in ("biased_attention", "sparse_attention")
    ),
    ("sparse_attention", {"softmax_scale": math.nan}, "[sparse_attention] softmax_scale must be finite, got nan"),
]


@pytest.mark.parametrize(("name", "spoiled", "sentence"), BAD)
def test_bad_arguments_are_sentences(name, spoiled, sentence):
    arguments = GOOD[name]() | spoiled
    with pytest.raises(ValueError) as error:
        getattr(operators, name)(**arguments)
    assert str(error.value).splitlines()[0] == sentence


def test_the_largest_bias_that_is_taken_gives_a_number():
    q, k, v = qkv()
    largest = torch.full((1, 1, QUERIES, KEYS), 2.0**125 - 2.0**101)
    for implementation in ("fused", "streamed", "reference"):
        forward = attention_arguments() | {"attn_mask": largest, "implementation": implementation}
        forward |= {"window_value": largest[0, :, :, :4].reshape(1, ENTRIES)}
        forward |= {"segment_value": torch.full((BATCH, 1, QUERIES, 2), float(largest[0, 0, 0, 0]))}
        assert operators.biased_attention(**forward)[0].isfinite().all(), implementation
    output, _ = operators.sparse_attention(q, k, v, *rows(), largest[0, :, :, :4].reshape(1, ENTRIES))
    assert output.isfinite().all()


@pytest.mark.parametrize("name", ["window_values", "window_values_backward"])
def test_a_profile_that_would_learn_is_refused(name):
    arguments = GOOD[name]()
    arguments["profile"].requires_grad_(True)
    with pytest.raises(NotImplementedError, match="profile must not require a gradient: only strength gets one"):
        getattr(operators, name)(**arguments)


def test_many_keys_are_streamed_by_auto():
    """The kernels count keys in int32; zero strides stand for 2^31 keys without their memory."""
    q = torch.zeros(1, 1, 1, 8)
    many = q.expand(1, 1, 2**31, 8)
    few = q.expand(1, 1, 2**31 - 1, 8)
    sentence = "there are 2147483648 keys, the kernels take fewer than 2^31"
    assert operators.biased_attention_report(q, many, many) == f"streamed ran; fused: {sentence}"
    assert operators.biased_attention_report(q, few, few) == "fused ran"
    with pytest.raises(NotImplementedError, match="got fused: .fused: there are 2147483648 keys"):
        operators.biased_attention_report(q, many, many, implementation="fused")
