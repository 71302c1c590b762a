"""The sparse part of `corrected` attention as Triton kernels: what the entries of the windows change.

Of an entry with score s (its product and shift), bias b and the row's logsumexp L, with p0 = exp(s - L) and
p1 = exp(s + b - L):

    forward    Z = 1 + sum (p1 - p0),  output' = (output + sum (p1 - p0) v) / Z,  L' = L + ln Z
    backward   with L' for L: change = (p1 - p0) (dO . v - delta),  dq += scale change k,  dk += scale change q,
               dv += (p1 - p0) dO,  dbias = p1 (dO . v - delta)

One program owns one row (or, for dk and dv, one key) of one head and adds up its entries in their order: no atomics, the
same bits every time. Sums are in float, and products are sums of float products: `tl.dot` is not used, which the
interpreter gets wrong in bfloat16.
"""

# Arguments of a kernel have no types of Python: Triton takes an annotation for one of its own.
# mypy: disable-error-code="no-untyped-def"
from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

__all__ = ["BLOCK", "correct_windows", "correct_windows_backward", "forward_kernel", "key_kernel", "row_kernel"]

BLOCK = 32  # entries that a program takes at a time


@triton.jit
def _weights(z, bias, lse):
    """exp(z - lse) and exp(z + bias - lse); -inf on either side wins over whatever the other holds."""
    plain = tl.where(z == float("-inf"), 0.0, tl.exp(z - lse))
    gone = (z == float("-inf")) | (bias == float("-inf"))
    return plain, tl.where(gone, 0.0, tl.exp(z + bias - lse))


@triton.jit
def _scores(q, k_rows, shift_ptr, entry, used, scale, HAS_SHIFT: tl.constexpr):
    z = tl.sum(k_rows * q[None, :], 1) * scale
    if HAS_SHIFT:
        shift = tl.load(shift_ptr + entry, mask=used, other=0.0)
        z = tl.where(shift == float("-inf"), float("-inf"), z + shift)
    return z


@triton.jit
def forward_kernel(
    q_ptr, k_ptr, v_ptr, offsets_ptr, key_ptr, bias_ptr, shift_ptr, output_ptr, lse_ptr, total_ptr,
    heads, queries, keys, entries, bias_step, shift_step, scale,
    WIDTH: tl.constexpr, VALUE_WIDTH: tl.constexpr, WIDE: tl.constexpr, VALUE_WIDE: tl.constexpr,
    BLOCK: tl.constexpr, HAS_SHIFT: tl.constexpr, HAS_OUTPUT: tl.constexpr,
):  # fmt: skip
    """q, k, v, output [B, H, N, W] and lse, total [B, H, Q], dense; one program a row (b * Q + q) and head."""
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1).to(tl.int64)
    batch = row // queries
    place = (batch * heads + head) * queries + row % queries
    first_key = (batch * heads + head) * keys
    d, dv = tl.arange(0, WIDE), tl.arange(0, VALUE_WIDE)
    q = tl.load(q_ptr + place * WIDTH + d, mask=d < WIDTH, other=0.0).to(tl.float32)
    lse = tl.load(lse_ptr + place)
    reference = tl.where(lse == float("-inf"), float("inf"), lse)
    begin, end = tl.load(offsets_ptr + row), tl.load(offsets_ptr + row + 1)
    total = 1.0
    moved = tl.zeros([VALUE_WIDE], tl.float32)
    for start in range(begin, end, BLOCK):
        entry = start + tl.arange(0, BLOCK)
        used = entry < end
        key = first_key + tl.load(key_ptr + entry, mask=used, other=0).to(tl.int64)
        inside = used[:, None] & (d < WIDTH)[None, :]
        k_rows = tl.load(k_ptr + key[:, None] * WIDTH + d[None, :], mask=inside, other=0.0).to(tl.float32)
        z = _scores(q, k_rows, shift_ptr + head * shift_step, entry, used, scale, HAS_SHIFT)
        bias = tl.load(bias_ptr + head * bias_step + entry, mask=used, other=0.0).to(tl.float32)
        plain, biased = _weights(z, bias, reference)
        change = tl.where(used, biased - plain, 0.0)
        total += tl.sum(change, 0)
        if HAS_OUTPUT:
            inside = used[:, None] & (dv < VALUE_WIDTH)[None, :]
            values = tl.load(v_ptr + key[:, None] * VALUE_WIDTH + dv[None, :], mask=inside, other=0.0).to(tl.float32)
            moved += tl.sum(change[:, None] * values, 0)
    tl.store(total_ptr + place, total)
    if HAS_OUTPUT:
        good = (total > 0) & (total < float("inf"))
        divisor = tl.where(good, total, 1.0)
        at = output_ptr + place * VALUE_WIDTH + dv
        before = tl.load(at, mask=dv < VALUE_WIDTH, other=0.0)
        tl.store(at, tl.where(good, (before + moved) / divisor, before), mask=dv < VALUE_WIDTH)
        tl.store(lse_ptr + place, tl.where(good, lse + tl.log(divisor), lse))


@triton.jit
def row_kernel(
    q_ptr, k_ptr, v_ptr, offsets_ptr, key_ptr, bias_ptr, shift_ptr, grad_ptr, lse_ptr, delta_ptr,
    dq_ptr, slope_ptr, difference_ptr, dbias_ptr,
    heads, queries, keys, entries, bias_step, shift_step, scale,
    WIDTH: tl.constexpr, VALUE_WIDTH: tl.constexpr, WIDE: tl.constexpr, VALUE_WIDE: tl.constexpr,
    BLOCK: tl.constexpr, HAS_SHIFT: tl.constexpr,
):  # fmt: skip
    """dq of a row and head, and of its entries the slope, the difference of weights and dbias, [H, nnz] each."""
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1).to(tl.int64)
    batch = row // queries
    place = (batch * heads + head) * queries + row % queries
    first_key = (batch * heads + head) * keys
    d, dv = tl.arange(0, WIDE), tl.arange(0, VALUE_WIDE)
    q = tl.load(q_ptr + place * WIDTH + d, mask=d < WIDTH, other=0.0).to(tl.float32)
    grad = tl.load(grad_ptr + place * VALUE_WIDTH + dv, mask=dv < VALUE_WIDTH, other=0.0).to(tl.float32)
    lse = tl.load(lse_ptr + place)
    reference = tl.where(lse == float("-inf"), float("inf"), lse)
    delta = tl.load(delta_ptr + place)
    begin, end = tl.load(offsets_ptr + row), tl.load(offsets_ptr + row + 1)
    dq = tl.zeros([WIDE], tl.float32)
    for start in range(begin, end, BLOCK):
        entry = start + tl.arange(0, BLOCK)
        used = entry < end
        key = first_key + tl.load(key_ptr + entry, mask=used, other=0).to(tl.int64)
        inside = used[:, None] & (d < WIDTH)[None, :]
        k_rows = tl.load(k_ptr + key[:, None] * WIDTH + d[None, :], mask=inside, other=0.0).to(tl.float32)
        z = _scores(q, k_rows, shift_ptr + head * shift_step, entry, used, scale, HAS_SHIFT)
        bias = tl.load(bias_ptr + head * bias_step + entry, mask=used, other=0.0).to(tl.float32)
        plain, biased = _weights(z, bias, reference)
        inside = used[:, None] & (dv < VALUE_WIDTH)[None, :]
        values = tl.load(v_ptr + key[:, None] * VALUE_WIDTH + dv[None, :], mask=inside, other=0.0).to(tl.float32)
        distance = tl.sum(values * grad[None, :], 1) - delta
        difference = tl.where(used, biased - plain, 0.0)
        slope = difference * distance
        dq += tl.sum(slope[:, None] * k_rows, 0)
        at = head * entries + entry
        tl.store(slope_ptr + at, slope, mask=used)
        tl.store(difference_ptr + at, difference, mask=used)
        tl.store(dbias_ptr + at, biased * distance, mask=used)
    tl.store(dq_ptr + place * WIDTH + d, dq * scale, mask=d < WIDTH)


@triton.jit
def key_kernel(
    q_ptr, grad_ptr, ends_ptr, order_ptr, row_ptr, slope_ptr, difference_ptr, dk_ptr, dv_ptr,
    heads, queries, keys, entries, scale,
    WIDTH: tl.constexpr, VALUE_WIDTH: tl.constexpr, WIDE: tl.constexpr, VALUE_WIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """dk and dv of a key (b * K + key) and head: its entries in the order of their rows."""
    owner = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1).to(tl.int64)
    batch = owner // keys
    place = (batch * heads + head) * keys + owner % keys
    d, dv = tl.arange(0, WIDE), tl.arange(0, VALUE_WIDE)
    begin, end = tl.load(ends_ptr + owner), tl.load(ends_ptr + owner + 1)
    dk = tl.zeros([WIDE], tl.float32)
    dvalue = tl.zeros([VALUE_WIDE], tl.float32)
    for start in range(begin, end, BLOCK):
        position = start + tl.arange(0, BLOCK)
        used = position < end
        entry = tl.load(order_ptr + position, mask=used, other=0)
        row = tl.load(row_ptr + entry, mask=used, other=0)
        query = (batch * heads + head) * queries + row % queries
        slope = tl.load(slope_ptr + head * entries + entry, mask=used, other=0.0)
        difference = tl.load(difference_ptr + head * entries + entry, mask=used, other=0.0)
        inside = used[:, None] & (d < WIDTH)[None, :]
        q_rows = tl.load(q_ptr + query[:, None] * WIDTH + d[None, :], mask=inside, other=0.0).to(tl.float32)
        dk += tl.sum(slope[:, None] * q_rows, 0)
        inside = used[:, None] & (dv < VALUE_WIDTH)[None, :]
        grads = tl.load(grad_ptr + query[:, None] * VALUE_WIDTH + dv[None, :], mask=inside, other=0.0).to(tl.float32)
        dvalue += tl.sum(difference[:, None] * grads, 0)
    tl.store(dk_ptr + place * WIDTH + d, dk * scale, mask=d < WIDTH)
    tl.store(dv_ptr + place * VALUE_WIDTH + dv, dvalue, mask=dv < VALUE_WIDTH)


def _sizes(q: Tensor, v: Tensor) -> dict[str, int]:
    width, value_width = q.shape[3], v.shape[3]
    return {
        "WIDTH": width,
        "VALUE_WIDTH": value_width,
        "WIDE": triton.next_power_of_2(width),
        "VALUE_WIDE": triton.next_power_of_2(value_width),
        "BLOCK": BLOCK,
    }


def _step(tensor: Tensor) -> int:
    """From one head's entries to the next's; 0 where all heads share them."""
    return 0 if tensor.shape[0] == 1 else int(tensor.shape[1])


def correct_windows(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    row_offsets: Tensor,
    key_index: Tensor,
    bias: Tensor,
    shift: Tensor | None,
    output: Tensor | None,
    logsumexp: Tensor,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Output and logsumexp with the bias (the output empty where none is given), and Z of every row."""
    batch, heads, queries, _ = q.shape
    q, k, v, bias = q.contiguous(), k.contiguous(), v.contiguous(), bias.contiguous()
    shift = None if shift is None else shift.contiguous()
    lse = logsumexp.clone(memory_format=torch.contiguous_format)
    total = torch.empty_like(lse)
    corrected = lse.new_empty(0) if output is None else output.clone(memory_format=torch.contiguous_format)
    if batch * queries * heads > 0:
        forward_kernel[(batch * queries, heads)](
            q, k, v, row_offsets, key_index, bias, bias if shift is None else shift, corrected, lse, total,
            heads, queries, k.shape[2], key_index.shape[0], _step(bias), 0 if shift is None else _step(shift), scale,
            **_sizes(q, v), HAS_SHIFT=shift is not None, HAS_OUTPUT=output is not None,
        )  # fmt: skip
    return corrected, lse, total


def correct_windows_backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    row_offsets: Tensor,
    key_index: Tensor,
    bias: Tensor,
    shift: Tensor | None,
    grad_output: Tensor,
    grad_logsumexp: Tensor | None,
    output: Tensor,
    logsumexp: Tensor,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """What the entries add to dq, dk and dv, the gradient of each entry's bias and the slope of its score, [H, nnz]."""
    batch, heads, queries, _ = q.shape
    keys, entries = k.shape[2], key_index.shape[0]
    q, k, v, bias, grad = (t.contiguous() for t in (q, k, v, bias, grad_output))
    shift = None if shift is None else shift.contiguous()
    lse = logsumexp.contiguous()
    delta = (grad.float() * output.float()).sum(-1)
    if grad_logsumexp is not None:
        delta = delta - grad_logsumexp
    dq, dk, dv = (torch.zeros(t.shape, dtype=torch.float32, device=t.device) for t in (q, k, v))
    slope, difference, dbias = (torch.zeros(heads, entries, dtype=torch.float32, device=q.device) for _ in range(3))
    if batch * queries * heads * entries > 0:
        sizes = _sizes(q, v)
        row_kernel[(batch * queries, heads)](
            q, k, v, row_offsets, key_index, bias, bias if shift is None else shift, grad, lse, delta.contiguous(),
            dq, slope, difference, dbias,
            heads, queries, keys, entries, _step(bias), 0 if shift is None else _step(shift), scale,
            **sizes, HAS_SHIFT=shift is not None,
        )  # fmt: skip
        # Entries in the order of their keys; those behind the last row belong to no key.
        position = torch.arange(entries, device=q.device)
        row = torch.searchsorted(row_offsets[1:].contiguous(), position, right=True)
        own = (row // queries) * keys + key_index
        own = own.masked_fill(row >= batch * queries, batch * keys)
        order = torch.argsort(own, stable=True)
        ends = torch.searchsorted(own[order], torch.arange(batch * keys + 1, device=q.device))
        key_kernel[(batch * keys, heads)](
            q, grad, ends, order, row, slope, difference, dk, dv, heads, queries, keys, entries, scale, **sizes
        )
    return dq, dk, dv, dbias, slope
