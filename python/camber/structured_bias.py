"""A bias of queries toward keys, stored as what it is and never as a [B, H, Q, K] tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.utils import _pytree

from .table_bias import Table, table_by_index, table_entries, table_of_offsets, table_of_slopes

WindowForm = Literal["box", "gaussian"]
DenseLayout = Literal["batch_query_key", "query_batch_key", "batch_head_query_key"]

_LAYOUTS = {
    "batch_query_key": "[B, Q, K]",
    "query_batch_key": "[Q, B, K]",
    "batch_head_query_key": "[B*H, Q, K]",
}


class Windows(NamedTuple):
    """A sparse additive bias: row b * Q + q of `row_offsets` lists the keys that query q of element b is biased to.

    row_offsets int64 [B*Q+1] from 0 to nnz; key_index int32 [nnz], sorted and unique in a row; value [Hb, nnz] with
    Hb = 1 (shared by the heads) or H, differentiable. -inf removes a key; +inf, and in float 2^125 and more, is refused.

    >>> import torch
    >>> Windows(torch.tensor([0, 2, 3]), torch.tensor([1, 4, 0], dtype=torch.int32), torch.ones(1, 3)).value.shape
    torch.Size([1, 3])
    """

    row_offsets: Tensor
    key_index: Tensor
    value: Tensor


class Segments(NamedTuple):
    """A bias per query and contiguous range of keys (the bird's-eye grid, each camera).

    offsets int64 [S+1] from 0 to K, never falling; value [B, Hb, Q, S], or None: offsets alone serve statistics and
    availability.

    >>> import torch
    >>> Segments(torch.tensor([0, 16384, 22384])).value is None
    True
    """

    offsets: Tensor
    value: Tensor | None = None


class WindowIndex(NamedTuple):
    """Windows without values: what `build_windows` gives."""

    row_offsets: Tensor  # int64 [B*Q+1]
    key_index: Tensor  # int32 [nnz]
    map_index: Tensor  # int32 [nnz]: which map the key lies in
    squared_distance: Tensor  # int32 [nnz]: to the window's centre, in cells


def broadcasts(sizes: Sequence[int], to: Sequence[int]) -> bool:
    """Whether a shape broadcasts to another. Sizes may be symbols of a compiler, which a tuple does not look for."""
    return len(sizes) <= len(to) and all(a == 1 or a == b for a, b in zip(reversed(sizes), reversed(to)))


def in_float(tensor: Tensor) -> Tensor:
    """In float, or in double where it came so: the types that values are computed in."""
    return tensor if tensor.dtype == torch.float64 else tensor.float()


class _Once(torch.autograd.Function):
    """The identity, whose backward says in a sentence that the graph behind it was gone through and freed."""

    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        ctx.save_for_backward(value.new_empty(0))
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        try:
            _ = ctx.saved_tensors
        except RuntimeError:
            raise RuntimeError(
                "[StructuredBias] a bias that layers share must meet one backward pass, got a second one through its "
                "freed graph: give torch.utils.checkpoint use_reentrant=False, or backward retain_graph=True"
            ) from None
        return gradient


def once(value: Tensor) -> Tensor:
    """Values of a bias as they are handed over to be shared by layers."""
    if torch.compiler.is_compiling() or not value.requires_grad:
        return value
    shared: Tensor = _Once.apply(value)
    return shared


def _check_form(form: str) -> None:
    if form not in ("box", "gaussian"):
        raise ValueError(f"[StructuredBias] form must be 'box' or 'gaussian', got {form!r}")


def window_sizes(size: int | Sequence[int] | Tensor, like: torch.Size) -> Tensor:
    """Window sizes as int32 [B, Q, M] from one size, one a map, or one a query and map."""
    sizes = torch.as_tensor(size)
    if sizes.is_floating_point() or sizes.is_complex() or sizes.dtype == torch.bool:
        raise ValueError(f"[StructuredBias] size must hold whole numbers, got {sizes.dtype}")
    if not broadcasts(sizes.shape, like):
        raise ValueError(
            f"[StructuredBias] size must be a number, one for each of the {like[2]} maps or [B, Q, M] = {list(like)}, "
            f"got {list(sizes.shape)}"
        )
    return sizes.to(torch.int32).expand(like).contiguous()


def window_profile(index: WindowIndex, sizes: Tensor, form: WindowForm) -> Tensor:
    """g(d) of every entry, float [nnz]: 1 for a box; exp(-d^2 / (2 s^2)) with s = size / 6 for a Gaussian."""
    _check_form(form)
    distance = index.squared_distance.to(torch.float32)
    if form == "box":
        return torch.ones_like(distance)
    # 1 / (2 s^2) = 18 / size^2 of the window that the entry belongs to. (18.0 / x would be 18.0 * (1 / x), rounded twice.)
    squares = sizes.to(torch.float32).square().flatten(0, 1).unsqueeze(0)
    steepness = torch.full_like(squares, 18.0) / squares
    exponent = torch.ops.camber.window_values(steepness, distance, index.row_offsets, index.map_index)
    return exponent.squeeze(0).neg().exp()


def segment_offsets(map_shape: Tensor) -> Tensor:
    """Where each map's keys begin, int64 [M+1], for map_shape [M, 2] = (columns, rows)."""
    return torch.nn.functional.pad(map_shape.prod(1).cumsum(0), (1, 0))


def dense_mask(dense: Tensor, layout: DenseLayout = "batch_query_key", *, heads: int | None = None) -> Tensor:
    """A dense bias as the view [B, 1|H, Q, K] that `biased_attention` takes as `attn_mask`, with all its gradients.

    >>> import torch
    >>> dense_mask(torch.zeros(16, 5, 7), "batch_head_query_key", heads=8).shape
    torch.Size([2, 8, 5, 7])
    """
    if layout not in _LAYOUTS:
        raise ValueError(f"[StructuredBias] layout must be one of {', '.join(_LAYOUTS)}, got {layout!r}")
    if dense.dim() != 3:
        raise ValueError(f"[StructuredBias] dense must be {_LAYOUTS[layout]}, got {list(dense.shape)}")
    if layout == "batch_query_key":
        return dense.unsqueeze(1)
    if layout == "query_batch_key":
        return dense.transpose(0, 1).unsqueeze(1)
    if heads is None or heads < 1 or dense.shape[0] % heads != 0:
        raise ValueError(
            f"[StructuredBias] heads must divide the first size of dense {list(dense.shape)} in the layout [B*H, Q, K], "
            f"got {heads}"
        )
    return dense.unflatten(0, (-1, heads))


def _entry_rows(row_offsets: Tensor) -> Tensor:
    lengths = row_offsets.diff()
    return torch.arange(lengths.shape[0], device=row_offsets.device).repeat_interleave(lengths)


@dataclass(frozen=True)
class StructuredBias:
    """Windows (sparse rows), segments (contiguous ranges of keys) and a table by position, each of which may be absent.

    `shape` = (B, Q, K) is known to the biases that the constructors below make, and lets `materialize` go without
    arguments.

    >>> import torch, camber
    >>> rows = Windows(torch.tensor([0, 1, 2]), torch.tensor([3, 0], dtype=torch.int32), torch.tensor([[2.5, -1.0]]))
    >>> bias = camber.StructuredBias(windows=rows)
    >>> bias.materialize(batch=1, queries=2, keys=4)
    tensor([[[[ 0.0000,  0.0000,  0.0000,  2.5000],
              [-1.0000,  0.0000,  0.0000,  0.0000]]]])
    """

    windows: Windows | None = None
    segments: Segments | None = None
    shape: tuple[int, int, int] | None = None
    table: Table | None = None

    @staticmethod
    def from_table(value: Tensor, index: Tensor) -> StructuredBias:
        """value [1|H, T] looked up by index, integers [Q, K] (such as Swin's relative_position_index).

        >>> import torch, camber
        >>> value = torch.tensor([[0.5, -1.0]], requires_grad=True)
        >>> bias = camber.StructuredBias.from_table(value, torch.tensor([[0, 1], [1, 0]]))
        >>> bias.materialize(1, 2, 2).tolist()
        [[[[0.5, -1.0], [-1.0, 0.5]]]]
        """
        return StructuredBias(table=table_by_index(value, index))

    @staticmethod
    def from_offsets(table: Tensor, query_position: Tensor, key_position: Tensor) -> StructuredBias:
        """The value at key's position less query's, never stored as [Q, K].

        table [1|H, 2 m_1 + 1, .., 2 m_n + 1] holds the offsets -m .. m along each of n dimensions, the middle is offset 0, and
        offsets beyond take the outermost value; positions are integers [Q, n] and [K, n]. Differentiable in the table.

        >>> import torch, camber
        >>> table = torch.tensor([[-1.0, 0.0, 1.0]], requires_grad=True)           # left of, at, right of the query
        >>> places = torch.arange(3)[:, None]
        >>> camber.StructuredBias.from_offsets(table, places, places).materialize(1, 3, 3).tolist()
        [[[[0.0, 1.0, 1.0], [-1.0, 0.0, 1.0], [-1.0, -1.0, 0.0]]]]
        """
        return StructuredBias(table=table_of_offsets(table, query_position, key_position))

    @staticmethod
    def from_slopes(slopes: Tensor, query_position: Tensor, key_position: Tensor) -> StructuredBias:
        """ALiBi: -slope[head] * |key's position less query's|; slopes [H], positions integers [Q] and [K].

        >>> import torch, camber
        >>> bias = camber.StructuredBias.from_slopes(torch.tensor([0.5]), torch.arange(2), torch.arange(3))
        >>> bias.materialize(1, 2, 3).neg().tolist()
        [[[[0.0, 0.5, 1.0], [0.5, 0.0, 0.5]]]]
        """
        return StructuredBias(table=table_of_slopes(slopes, query_position, key_position))

    @staticmethod
    def from_windows(
        center: Tensor,
        size: int | Sequence[int] | Tensor,
        map_shape: Tensor | Sequence[Sequence[int]],
        strength: Tensor,
        *,
        form: WindowForm = "box",
    ) -> StructuredBias:
        """Windows round cells of maps: value = g(d) * strength of the query on that map.

        center int64 [B, Q, M, 2] holds (column, row) on each of the M maps (a column below 0: no window there); size,
        odd, is one number, one a map, or int [B, Q, M]; map_shape [M, 2] holds (columns, rows) in the order of the keys;
        strength [B, Q, M], or [Hb, B, Q, M] for one a head, is what gets the gradient; values are computed in float, of a
        double one in double. Windows are cut at the borders
        of their map. The maps become the bias's segments, without values.

        >>> import torch, camber
        >>> center = torch.tensor([[[[1, 0], [-1, -1]]]])         # one query: seen on the first map, not on the second
        >>> strength = torch.full((1, 1, 2), 2.0, requires_grad=True)
        >>> bias = camber.StructuredBias.from_windows(center, 3, [(3, 2), (2, 1)], strength)
        >>> bias.windows.key_index.tolist(), bias.segments.offsets.tolist()
        ([0, 1, 2, 3, 4, 5], [0, 6, 8])
        >>> bias.materialize().sum().backward()
        >>> strength.grad
        tensor([[[6., 0.]]])
        """
        shapes = torch.as_tensor(map_shape, dtype=torch.int64)
        if center.dim() != 4:
            raise ValueError(f"[StructuredBias] center must be int64 [B, Q, M, 2], got {list(center.shape)}")
        sizes = window_sizes(size, center.shape[:3])
        index = WindowIndex(*torch.ops.camber.build_windows(center, sizes, shapes))
        if strength.dim() not in (3, 4) or strength.shape[-3:] != center.shape[:3]:
            raise ValueError(
                f"[StructuredBias] strength must be [B, Q, M] or [Hb, B, Q, M] with [B, Q, M] = {list(center.shape[:3])}, "
                f"got {list(strength.shape)}"
            )
        per_head = in_float(strength if strength.dim() == 4 else strength.unsqueeze(0))
        profile = window_profile(index, sizes, form).to(per_head.dtype)
        value = torch.ops.camber.window_values(per_head.flatten(1, 2), profile, index.row_offsets, index.map_index)
        offsets = segment_offsets(shapes)
        return StructuredBias(
            windows=Windows(index.row_offsets, index.key_index, once(value)),
            segments=Segments(offsets),
            shape=(center.shape[0], center.shape[1], int(offsets[-1])),
        )

    @staticmethod
    def from_dense(
        dense: Tensor,
        layout: DenseLayout = "batch_query_key",
        *,
        heads: int | None = None,
        support: Tensor | None = None,
    ) -> StructuredBias:
        """Sparse rows from a dense bias in one of the layouts [B, Q, K], [Q, B, K] or [B*H, Q, K].

        `support`, of the same shape, says which entries are kept; without it the entries other than zero are, which is
        refused for a bias that requires a gradient: an entry that happens to be zero would never learn. A dense bias
        that learns everywhere goes in as `attn_mask`: see `dense_mask`.

        >>> import torch, camber
        >>> dense = torch.tensor([[[0.0, 1.5, 0.0], [0.0, 0.0, -2.0]]])
        >>> camber.StructuredBias.from_dense(dense).windows
        Windows(row_offsets=tensor([0, 1, 2]), key_index=tensor([1, 2], dtype=torch.int32), value=tensor([[ 1.5000, -2.0000]]))
        """
        if support is None and dense.requires_grad:
            raise ValueError(
                "[StructuredBias] support must be given for a dense bias that requires a gradient: entries that happen "
                "to be zero would never learn (or pass the bias as attn_mask, see camber.dense_mask)"
            )
        values = dense_mask(dense, layout, heads=heads)  # [B, Hb, Q, K]
        if support is not None and support.shape != dense.shape:
            raise ValueError(
                f"[StructuredBias] support must have the shape of dense {list(dense.shape)}, got {list(support.shape)}"
            )
        kept = values.detach() != 0 if support is None else dense_mask(support, layout, heads=heads).to(torch.bool)
        in_any_head = kept.any(1)  # [B, Q, K]
        b, q, key = in_any_head.nonzero(as_tuple=True)
        row_offsets = torch.nn.functional.pad(in_any_head.sum(2).flatten().cumsum(0), (1, 0))
        value = values.permute(1, 0, 2, 3)[:, b, q, key]  # [Hb, nnz]
        shape = (values.shape[0], values.shape[2], values.shape[3])
        return StructuredBias(windows=Windows(row_offsets, key.to(torch.int32), value), shape=shape)

    def materialize(self, batch: int | None = None, queries: int | None = None, keys: int | None = None) -> Tensor:
        """The dense bias [B, Hb, Q, K], differentiable in the values; for tests, for peers and for looking at.

        >>> import torch, camber
        >>> segments = Segments(torch.tensor([0, 1, 3]), torch.tensor([[[[0.5, -0.5]]]]))
        >>> camber.StructuredBias(segments=segments).materialize(1, 1, 3)
        tensor([[[[ 0.5000, -0.5000, -0.5000]]]])
        """
        known = self.shape or (None, None, None)
        sizes = [given if given is not None else own for given, own in zip((batch, queries, keys), known)]
        if None in sizes:
            raise ValueError("[StructuredBias] batch, queries and keys must be given for a bias that was made by hand")
        b, q, k = (int(size) for size in sizes if size is not None)
        dense: Tensor | None = None
        if self.windows is not None:
            value = self.windows.value
            flat = _entry_rows(self.windows.row_offsets) * k + self.windows.key_index
            zeros = value.new_zeros((value.shape[0], b * q * k))
            dense = zeros.index_copy(1, flat, value).view(value.shape[0], b, q, k).transpose(0, 1)
        if self.segments is not None and self.segments.value is not None:
            spread = self.segments.value.repeat_interleave(self.segments.offsets.diff(), -1, output_size=k)
            dense = spread if dense is None else dense + spread
        if self.table is not None:
            values = self.table.value[:, table_entries(self.table)][None]
            dense = values.expand(b, -1, -1, -1) if dense is None else dense + values
        return torch.zeros(b, 1, q, k) if dense is None else dense

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> StructuredBias:
        """The bias on a device, its values in a type; indices keep theirs. Differentiable.

        >>> import torch, camber
        >>> bias = camber.StructuredBias.from_dense(torch.eye(3)[None]).to("cpu", torch.bfloat16)
        >>> bias.windows.value.dtype, bias.windows.key_index.dtype
        (torch.bfloat16, torch.int32)
        """
        windows, segments = self.windows, self.segments
        if windows is not None:
            row_offsets, key_index = windows.row_offsets.to(device), windows.key_index.to(device)
            windows = Windows(row_offsets, key_index, windows.value.to(device, dtype))
        if segments is not None:
            value = None if segments.value is None else segments.value.to(device, dtype)
            segments = Segments(segments.offsets.to(device), value)
        table = self.table
        if table is not None:
            codes = [None if code is None else code.to(device) for code in table[1:]]
            table = Table(table.value.to(device, dtype), *codes)
        return StructuredBias(windows, segments, self.shape, table)

    def bytes(self) -> int:
        """What the bias really occupies.

        >>> import torch, camber
        >>> camber.StructuredBias(segments=Segments(torch.tensor([0, 3, 8]))).bytes()
        24
        """
        parts = [*(self.windows or ()), *(self.segments or ()), *(self.table or ())]
        return sum(part.numel() * part.element_size() for part in parts if part is not None)


# A bias may be an argument of torch.export, and of what AOTInductor makes of it.
for _parts in (Windows, Segments, Table):
    _pytree._register_namedtuple(_parts, serialized_type_name=f"camber.{_parts.__name__}")
_pytree.register_dataclass(StructuredBias, serialized_type_name="camber.StructuredBias")
