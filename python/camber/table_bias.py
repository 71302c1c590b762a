"""A bias out of a table: by any index, by offsets of positions, by slopes."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Table(NamedTuple):
    """A bias out of a table that the batch elements share: value[head, index of (query, key)].

    value [Ht, T] with Ht = 1 or H, differentiable, -inf removes a key; either table_index int32 [Q, K], or query_code int32 [Q] and
    key_code int32 [K], and the index is key_code[k] - query_code[q]: then nothing of size Q x K is stored.

    >>> import torch
    >>> Table(torch.zeros(8, 3), torch.zeros(4, 5, dtype=torch.int32)).query_code is None
    True
    """

    value: Tensor
    table_index: Tensor | None = None
    query_code: Tensor | None = None
    key_code: Tensor | None = None


def _offset_codes(query_position: Tensor, key_position: Tensor) -> tuple[list[tuple[int, int]], Tensor, Tensor]:
    """For positions [Q, n] and [K, n]: by dimension the smallest offset key - query and how many there are; codes int32 [Q]
    and [K] whose difference counts the offsets of all dimensions, the last one fastest."""
    q, k = query_position.long(), key_position.long()
    query_code, key_code = q.new_zeros(q.shape[0]), k.new_zeros(k.shape[0])
    ranges = []
    for of_queries, of_keys in zip(q.unbind(1), k.unbind(1)):
        if min(q.shape[0], k.shape[0]) == 0:
            ranges.append((0, 1))
            continue
        last_query, first_key = int(of_queries.max()), int(of_keys.min())
        smallest = first_key - last_query
        count = int(of_keys.max()) - int(of_queries.min()) - smallest + 1
        query_code = query_code * count + (of_queries - last_query)
        key_code = key_code * count + (of_keys - first_key)
        ranges.append((smallest, count))
    return ranges, query_code.to(torch.int32), key_code.to(torch.int32)


def _check_positions(query_position: Tensor, key_position: Tensor, dimensions: int) -> None:
    for name, tensor in (("query_position", query_position), ("key_position", key_position)):
        if tensor.dtype not in (torch.int32, torch.int64) or tensor.dim() != 2 or tensor.shape[1] != dimensions:
            raise ValueError(
                f"[StructuredBias] {name} must be integers [rows, {dimensions}], got {tensor.dtype} {list(tensor.shape)}"
            )


def table_by_index(value: Tensor, index: Tensor) -> Table:
    """What `StructuredBias.from_table` makes."""
    if value.dim() != 2 or not value.is_floating_point():
        raise ValueError(f"[StructuredBias] value must be float [1 or H, T], got {value.dtype} {list(value.shape)}")
    if index.dim() != 2 or index.dtype not in (torch.int32, torch.int64):
        raise ValueError(f"[StructuredBias] index must be integers [Q, K], got {index.dtype} {list(index.shape)}")
    return Table(value, index.to(torch.int32))


def table_of_offsets(table: Tensor, query_position: Tensor, key_position: Tensor) -> Table:
    """What `StructuredBias.from_offsets` makes."""
    if table.dim() < 2 or not table.is_floating_point() or any(extent % 2 == 0 for extent in table.shape[1:]):
        raise ValueError(
            f"[StructuredBias] table must be float [1 or H, 2 m + 1, ..], got {table.dtype} {list(table.shape)}"
        )
    _check_positions(query_position, key_position, table.dim() - 1)
    ranges, query_code, key_code = _offset_codes(query_position, key_position)
    value = table
    for d, (smallest, count) in enumerate(ranges, start=1):
        reach = table.shape[d] // 2
        offsets = torch.arange(smallest, smallest + count, device=table.device).clamp(-reach, reach)
        value = value.index_select(d, offsets + reach)
    return Table(value.flatten(1), None, query_code, key_code)


def table_of_slopes(slopes: Tensor, query_position: Tensor, key_position: Tensor) -> Table:
    """What `StructuredBias.from_slopes` makes."""
    if slopes.dim() != 1 or not slopes.is_floating_point():
        raise ValueError(f"[StructuredBias] slopes must be float [H], got {slopes.dtype} {list(slopes.shape)}")
    q, k = query_position.unsqueeze(-1), key_position.unsqueeze(-1)
    _check_positions(q, k, 1)
    ((smallest, count),), query_code, key_code = _offset_codes(q, k)
    distance = torch.arange(smallest, smallest + count, device=slopes.device).abs().to(slopes.dtype)
    return Table(slopes[:, None] * -distance, None, query_code, key_code)


def table_entries(table: Table) -> Tensor:
    """Which entry of the table each (query, key) takes, int64 [Q, K]."""
    if table.table_index is not None:
        return table.table_index.long()
    assert table.query_code is not None and table.key_code is not None
    return table.key_code.long()[None] - table.query_code.long()[:, None]
