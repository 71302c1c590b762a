"""Attention with a structured additive bias, and the same behind scaled_dot_product_attention's signature."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from .structured_bias import StructuredBias, broadcasts

__all__ = [
    "AttentionResult",
    "AttentionStatistics",
    "biased_attention",
    "explain_attention",
    "merge",
    "scaled_dot_product_attention",
    "sparse_attention",
]

Implementation = Literal["auto", "fused", "corrected", "streamed", "reference"]


class AttentionStatistics(NamedTuple):
    """Row statistics [B, H, Q] of the attention that was really used, taken before dropout.

    p0 is the attention without the finite bias of windows and segments (table, masks and -inf stay).
    """

    entropy: Tensor  # logsumexp(z) - sum p z, in nats
    largest_weight: Tensor  # max p
    sum_of_squares: Tensor  # sum p^2
    change: Tensor  # half of sum |p - p0|: the share of attention that the bias moved
    divergence: Tensor  # KL(p || p0)
    keys_left: Tensor  # keys with a finite z
    segment_mass: Tensor | None  # [B, H, Q, S]; None without segments


class AttentionResult(NamedTuple):
    """What `biased_attention` returns."""

    output: Tensor  # [B, H, Q, Dv], dtype of q
    logsumexp: Tensor  # [B, H, Q], natural log, float (double for double inputs), differentiable
    statistics: AttentionStatistics | None = None


def _table_tensors(bias: StructuredBias | None) -> tuple[Tensor | None, ...]:
    return (None,) * 4 if bias is None or bias.table is None else tuple(bias.table)


def _bias_tensors(bias: StructuredBias | None) -> tuple[Tensor | None, ...]:
    if bias is not None and not isinstance(bias, StructuredBias):
        got = f"a tensor {list(bias.shape)}" if isinstance(bias, Tensor) else type(bias).__name__
        raise TypeError(
            f"[biased_attention] bias must be a StructuredBias or None, got {got}: a dense bias goes in as attn_mask (see "
            "camber.dense_mask) or through StructuredBias.from_dense"
        )
    windows = bias.windows if bias is not None else None
    segments = bias.segments if bias is not None else None
    return (
        windows.row_offsets if windows is not None else None,
        windows.key_index if windows is not None else None,
        windows.value if windows is not None else None,
        segments.offsets if segments is not None else None,
        segments.value if segments is not None else None,
    )


def _bool_padding(mask: Tensor) -> Tensor:
    """A padding mask of floats, 0 = kept and -inf = blocked, as a bool one. Its other values would be a bias."""
    blocked = mask == -math.inf
    if torch.compiler.is_compiling():
        torch._assert_async((blocked | (mask == 0)).all(), _FLOAT_PADDING)
    elif mask.requires_grad or not bool((blocked | (mask == 0)).all()):
        got = "one that requires a gradient" if mask.requires_grad else f"values from {mask.min()} to {mask.max()}"
        raise ValueError(f"{_FLOAT_PADDING}, got {got}")
    return blocked


_FLOAT_PADDING = (
    "[biased_attention] key_padding_mask must be bool [B, K] (True = blocked), or float with 0 (kept) and -inf (blocked) "
    "alone: other values go in as attn_mask"
)


def biased_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: StructuredBias | None = None,
    *,
    attn_mask: Tensor | None = None,
    blocked_mask: Tensor | None = None,
    key_padding_mask: Tensor | None = None,
    key_lengths: Tensor | None = None,
    row_lengths: Tensor | None = None,
    segment_available: Tensor | None = None,
    softmax_scale: float | None = None,
    dropout: float = 0.0,
    dropout_seed: int = 0,
    statistics: bool = False,
    implementation: Implementation = "auto",
) -> AttentionResult:
    """softmax(softmax_scale * q k^T + windows + segments + table + attn_mask) v, the bias never stored densely.

    q [B, H, Q, D], k [B, H, K, D], v [B, H, K, Dv]. Gradients flow to q, k, v, window values, segment values, the table and
    attn_mask. All masks may come together, and with the bias:

    - attn_mask: float [1|B, 1|H, Q, K], added to the scores, differentiable;
    - blocked_mask: bool [1|B, 1|H, Q, K], True = blocked (the opposite of SDPA's bool mask);
    - key_padding_mask: bool [B, K], True = blocked, or float, 0 = kept and -inf = blocked; key_lengths: int64 [B];
    - row_lengths: int64 [1|B, Q]: query i sees the keys before this index alone, and the others cost nothing; causal
      attention has torch.arange(1, Q + 1)[None];
    - segment_available: bool [B, S], which sensors delivered; needs segments. Keys of an absent one cost nothing.

    A row without a finite score gives output 0, logsumexp -inf and gradients 0. Dropout of the weights is a function of
    (dropout_seed, b, h, q, k) in every implementation.

    >>> import torch, camber
    >>> q, k, v = (torch.randn(1, 2, n, 8, requires_grad=True) for n in (3, 6, 6))
    >>> strength = torch.ones(1, 3, 1, requires_grad=True)
    >>> cells = torch.tensor([[[[0, 0]], [[1, 1]], [[2, 1]]]])
    >>> bias = camber.StructuredBias.from_windows(cells, 1, [(3, 2)], strength)
    >>> result = camber.biased_attention(q, k, v, bias, statistics=True)
    >>> result.output.shape, result.logsumexp.shape, result.statistics.change.shape
    (torch.Size([1, 2, 3, 8]), torch.Size([1, 2, 3]), torch.Size([1, 2, 3]))
    >>> result.output.sum().backward()
    >>> strength.grad.shape
    torch.Size([1, 3, 1])
    """
    if key_padding_mask is not None and key_padding_mask.is_floating_point():
        key_padding_mask = _bool_padding(key_padding_mask)
    output, logsumexp, rows, mass = torch.ops.camber.biased_attention(
        q,
        k,
        v,
        *_bias_tensors(bias),
        segment_available,
        attn_mask,
        blocked_mask,
        key_padding_mask,
        key_lengths,
        row_lengths,
        *_table_tensors(bias),
        softmax_scale,
        dropout,
        dropout_seed,
        statistics,
        implementation,
    )
    if not statistics:
        return AttentionResult(output, logsumexp)
    segment_mass = mass if bias is not None and bias.segments is not None else None
    entropy, largest, squares, change, divergence, keys_left = rows.unbind(0)
    row_statistics = AttentionStatistics(entropy, largest, squares, change, divergence, keys_left, segment_mass)
    return AttentionResult(output, logsumexp, row_statistics)


def explain_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: StructuredBias | None = None,
    *,
    attn_mask: Tensor | None = None,
    dropout: float = 0.0,
    statistics: bool = False,
    implementation: Implementation = "auto",
) -> str:
    """Which implementation a call with these arguments runs, and why each better one could not.

    >>> import torch, camber
    >>> q, k, v = (torch.randn(1, 2, n, 8) for n in (3, 6, 6))
    >>> camber.explain_attention(q, k, v, implementation="reference")
    'reference ran'
    """
    report: str = torch.ops.camber.biased_attention_report(
        q,
        k,
        v,
        *_bias_tensors(bias),
        attn_mask=attn_mask,
        **dict(zip(("table_value", "table_index", "query_code", "key_code"), _table_tensors(bias))),
        dropout=dropout,
        statistics=statistics,
        implementation=implementation,
    )
    return report


def sparse_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    row_offsets: Tensor,
    key_index: Tensor,
    value: Tensor | None = None,
    *,
    softmax_scale: float | None = None,
) -> Tensor:
    """Attention of each query over its own short list of keys; cost and memory proportional to the lists.

    The lists are rows as in `Windows`; value [Hb, nnz] is an optional bias. A query with an empty list gets zeros.
    Gradients flow to q, k, v and value.

    >>> import torch, camber
    >>> q, k, v = (torch.randn(1, 2, n, 8) for n in (2, 6, 6))
    >>> rows, keys = torch.tensor([0, 1, 1]), torch.tensor([4], dtype=torch.int32)   # the second query has no key
    >>> output = camber.sparse_attention(q, k, v, rows, keys)
    >>> torch.allclose(output[:, :, 0], v[:, :, 4]), output[:, :, 1].abs().sum().item()
    (True, 0.0)
    """
    output: Tensor = torch.ops.camber.sparse_attention(q, k, v, row_offsets, key_index, value, softmax_scale)[0]
    return output


def merge(outputs: Sequence[Tensor], logsumexps: Sequence[Tensor]) -> AttentionResult:
    """Joins attention over shards of the keys exactly; outputs [B, H, Q, Dv], logsumexps [B, H, Q].

    >>> import torch, camber
    >>> q, k, v = (torch.randn(1, 2, n, 8) for n in (3, 10, 10))
    >>> parts = [camber.biased_attention(q, k[:, :, s], v[:, :, s]) for s in (slice(0, 4), slice(4, 10))]
    >>> joined = camber.merge([p.output for p in parts], [p.logsumexp for p in parts])
    >>> torch.allclose(joined.output, camber.biased_attention(q, k, v).output, atol=1e-6)
    True
    """
    if not outputs or len(outputs) != len(logsumexps):
        raise ValueError(
            "[merge] outputs and logsumexps must have the same number of shards, at least one, got "
            f"{len(outputs)} and {len(logsumexps)}"
        )
    stacked = torch.stack(tuple(logsumexps))  # [N, B, H, Q]
    dead = (stacked == -math.inf).all(0)
    safe = stacked.masked_fill(dead, 0.0)  # a row that no shard knows stays without gradient
    joint = safe.logsumexp(0)
    weights = (safe - joint).exp().masked_fill(dead, 0.0)
    wide = torch.stack(tuple(outputs)).to(stacked.dtype)
    output = (weights.unsqueeze(-1) * wide).sum(0).to(outputs[0].dtype)
    return AttentionResult(output, joint.masked_fill(dead, -math.inf))


def dropout_seed() -> int:
    """A seed drawn from torch's default generator: a number, so that forward and backward draw the same weights.

    item() breaks a compiled graph, which would keep the number otherwise.
    """
    return int(torch.randint(2**62, ()).item())


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | StructuredBias | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """torch.nn.functional.scaled_dot_product_attention, with a gradient for its float mask at a fused kernel's cost.

    query [*, Q, D], key [*, K, D], value [*, K, Dv]; attn_mask broadcasts to [*, Q, K]: bool, True = takes part, or
    float, added to the scores, or a StructuredBias, whose B is the product of all sizes before the heads. is_causal and a
    tensor exclude each other. Dropout draws one seed from torch's default
    generator, so it follows torch.manual_seed (but not SDPA's own random numbers). A row that the mask removes throughout
    gives 0. float kernels take torch.finfo(torch.float32).min for -inf there, where torch gives the mean of all values.

    >>> import torch, camber
    >>> q, k, v = (torch.randn(2, 4, n, 8) for n in (5, 7, 7))
    >>> pair_bias = torch.zeros(4, 5, 7, requires_grad=True)
    >>> output = camber.scaled_dot_product_attention(q, k, v, pair_bias)
    >>> torch.allclose(output, torch.nn.functional.scaled_dot_product_attention(q, k, v, pair_bias), atol=1e-6)
    True
    >>> output.sum().backward()
    >>> pair_bias.grad.shape
    torch.Size([4, 5, 7])
    >>> bias = camber.StructuredBias.from_windows(torch.zeros(2, 5, 1, 2, dtype=torch.int64), 3, [(7, 1)], torch.ones(2, 5, 1))
    >>> camber.scaled_dot_product_attention(q, k, v, bias).shape
    torch.Size([2, 4, 5, 8])
    """
    bias, attn_mask = (attn_mask, None) if isinstance(attn_mask, StructuredBias) else (None, attn_mask)
    if is_causal and attn_mask is not None:
        raise ValueError("[scaled_dot_product_attention] attn_mask must be None when is_causal is set, got both")
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        if tensor.dim() < 2 or tensor.dim() != query.dim():
            raise ValueError(
                f"[scaled_dot_product_attention] {name} must be [*, N, D] with as many dimensions as query "
                f"({query.dim()}), got {list(tensor.shape)}"
            )
    if enable_gqa:
        key, value = _repeat_heads(query, key, value)
    leading = query.shape[:-2]
    blocked: Tensor | None = None
    added: Tensor | None = None
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        blocked = _four_dimensions(attn_mask.logical_not(), leading, query.shape[-2], key.shape[-2])
    elif attn_mask is not None:
        added = _four_dimensions(attn_mask, leading, query.shape[-2], key.shape[-2])
    lengths: Tensor | None = None
    if is_causal:
        lengths = torch.arange(1, query.shape[-2] + 1, device=query.device).clamp_max(key.shape[-2])[None]
    output = biased_attention(
        _batch_and_heads(query),
        _batch_and_heads(key),
        _batch_and_heads(value),
        bias,
        attn_mask=added,
        blocked_mask=blocked,
        row_lengths=lengths,
        softmax_scale=scale,
        dropout=dropout_p,
        dropout_seed=dropout_seed() if dropout_p > 0 else 0,
    ).output
    return output.reshape(*leading, query.shape[-2], value.shape[-1])


def _repeat_heads(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    if query.dim() < 3 or query.shape[-3] % key.shape[-3] != 0 or query.shape[-3] % value.shape[-3] != 0:
        raise ValueError(
            "[scaled_dot_product_attention] the heads of key and value must divide those of query with enable_gqa, got "
            f"query {list(query.shape)}, key {list(key.shape)} and value {list(value.shape)}"
        )
    heads = query.shape[-3]
    return (
        key.repeat_interleave(heads // key.shape[-3], -3),
        value.repeat_interleave(heads // value.shape[-3], -3),
    )


def _batch_and_heads(tensor: Tensor) -> Tensor:
    """[*, N, D] as [B, H, N, D]: the dimension before N counts as heads, all before it as batch."""
    if tensor.dim() == 4:
        return tensor
    if tensor.dim() == 2:
        return tensor[None, None]
    return tensor[None] if tensor.dim() == 3 else tensor.flatten(0, -4)


def _four_dimensions(mask: Tensor, leading: torch.Size, queries: int, keys: int) -> Tensor:
    """A mask that broadcasts to [*, Q, K] as [1|B, 1|H, Q, K], expanded no further than that needs."""
    full = torch.Size([*leading, queries, keys])
    if not broadcasts(mask.shape, full):
        raise ValueError(
            f"[scaled_dot_product_attention] attn_mask must broadcast to [*, Q, K] = {list(full)}, got {list(mask.shape)}"
        )
    while mask.dim() < 4:
        mask = mask[None]
    if mask.dim() > 4:
        mask = mask.expand(*leading[:-1], *mask.shape[-3:]).flatten(0, -4)
    return mask.expand(mask.shape[0], mask.shape[1], queries, keys)
