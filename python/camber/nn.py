"""Modules that take the place of torch's own, with a bias."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from .attention import biased_attention, dropout_seed
from .structured_bias import StructuredBias, dense_mask

__all__ = ["MultiheadAttention"]


class MultiheadAttention(torch.nn.MultiheadAttention):
    """torch.nn.MultiheadAttention with `bias=`, a StructuredBias that is never stored as [B * heads, Q, K].

    Parameters and state are torch's own, sequence first or batch first, and without a bias so is the output. Masks are
    torch's: bool (True = blocked) or float (added) key_padding_mask [B, K] and attn_mask [Q, K] or [B * heads, Q, K].
    The weights are not stored, so need_weights is False by default and None comes back in their stead; with True they
    are computed densely besides. A row whose every key is blocked gives out_proj of 0, where torch gives NaN. Dropout
    draws one seed from torch's default generator, which a compiled graph cannot hold: it breaks the graph there.

    >>> import torch, camber
    >>> theirs = torch.nn.MultiheadAttention(64, 4, batch_first=True)
    >>> ours = camber.nn.MultiheadAttention.from_torch(theirs)
    >>> queries, memory = torch.randn(2, 10, 64), torch.randn(2, 36, 64)
    >>> torch.allclose(ours(queries, memory, memory)[0], theirs(queries, memory, memory)[0], atol=1e-5)
    True
    >>> cells = torch.randint(0, 6, (2, 10, 1, 2))
    >>> bias = camber.StructuredBias.from_windows(cells, 3, [(6, 6)], torch.full((2, 10, 1), 2.5))
    >>> ours(queries, memory, memory, bias=bias)[0].shape
    torch.Size([2, 10, 64])
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._check()

    @classmethod
    def from_torch(cls, module: torch.nn.MultiheadAttention) -> MultiheadAttention:
        """The module's own parameters (shared, not copied), options and mode in a module that takes a bias.

        >>> import torch, camber
        >>> theirs = torch.nn.MultiheadAttention(64, 4)
        >>> camber.nn.MultiheadAttention.from_torch(theirs).in_proj_weight is theirs.in_proj_weight
        True
        """
        if not isinstance(module, torch.nn.MultiheadAttention):
            raise TypeError(
                f"[MultiheadAttention] module must be a torch.nn.MultiheadAttention, got {type(module).__name__}"
            )
        ours = cls.__new__(cls)
        ours.__dict__.update(module.__dict__)
        for name in ("_parameters", "_buffers", "_modules"):  # dictionaries of its own, the same tensors
            ours.__dict__[name] = dict(module.__dict__[name])
        ours._check()
        return ours

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = False,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
        *,
        bias: StructuredBias | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """As torch.nn.MultiheadAttention.forward; bias has B * Q rows and the K keys in their order."""
        if is_causal and attn_mask is None:
            raise ValueError("[MultiheadAttention] attn_mask must be given when is_causal is set, as torch demands")
        batched = query.dim() == 3
        if not batched:
            query, key, value = (x.unsqueeze(0 if self.batch_first else 1) for x in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        q, k, v = (self._heads_of(part, x) for part, x in enumerate((query, key, value)))
        added, blocked = self._masks(q, k, key_padding_mask, attn_mask)
        padding = key_padding_mask if key_padding_mask is not None and key_padding_mask.dtype == torch.bool else None
        dropout = self.dropout if self.training else 0.0
        attended = biased_attention(
            q, k, v, bias, attn_mask=added, blocked_mask=blocked, key_padding_mask=padding, dropout=dropout,
            dropout_seed=dropout_seed() if dropout > 0 else 0,
        )  # fmt: skip
        output = self.out_proj(attended.output.transpose(1, 2).flatten(2))
        weights = self._weights(q, k, bias, added, blocked, padding, average_attn_weights) if need_weights else None
        if not batched:
            return output.squeeze(0), None if weights is None else weights.squeeze(0)
        return output if self.batch_first else output.transpose(0, 1), weights

    def _heads_of(self, part: int, x: Tensor) -> Tensor:
        """The projection of query, key or value, [B, H, N, D]."""
        if self._qkv_same_embed_dim:
            weight = self.in_proj_weight.chunk(3)[part]
        else:
            weight = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)[part]
        shift = None if self.in_proj_bias is None else self.in_proj_bias.chunk(3)[part]
        heads = F.linear(x, weight, shift).unflatten(-1, (self.num_heads, self.head_dim))
        return heads.transpose(1, 2) if self.batch_first else heads.permute(1, 2, 0, 3)

    def _masks(
        self, q: Tensor, k: Tensor, padding: Tensor | None, mask: Tensor | None
    ) -> tuple[Tensor | None, Tensor | None]:
        """What is added to the scores and what is blocked, [1|B, 1|H, Q, K]."""
        batch, heads, queries, keys = q.shape[0], self.num_heads, q.shape[2], k.shape[2]
        added: Tensor | None = None
        blocked: Tensor | None = None
        if mask is not None:
            if mask.shape == (queries, keys):
                mask = mask[None, None]
            elif mask.shape == (batch * heads, queries, keys):
                mask = dense_mask(mask, "batch_head_query_key", heads=heads)
            else:
                raise ValueError(
                    f"[MultiheadAttention] attn_mask must be [Q, K] = {[queries, keys]} or [B * heads, Q, K] = "
                    f"{[batch * heads, queries, keys]}, got {list(mask.shape)}"
                )
            added, blocked = (None, mask) if mask.dtype == torch.bool else (mask, None)
        if padding is not None and padding.shape != (batch, keys):
            raise ValueError(
                f"[MultiheadAttention] key_padding_mask must be [B, K] = {[batch, keys]}, got {list(padding.shape)}"
            )
        if padding is not None and padding.dtype != torch.bool:
            spread = padding[:, None, None].expand(batch, 1, queries, keys)
            added = spread if added is None else added + spread
        return added, blocked

    def _weights(
        self,
        q: Tensor,
        k: Tensor,
        bias: StructuredBias | None,
        added: Tensor | None,
        blocked: Tensor | None,
        padding: Tensor | None,
        average: bool,
    ) -> Tensor:
        """The attention weights before dropout, [B, Q, K] or [B, H, Q, K], as the definition says them."""
        scores = q @ k.transpose(-2, -1) * self.head_dim**-0.5
        if bias is not None:
            scores = scores + bias.materialize(q.shape[0], q.shape[2], k.shape[2])
        if added is not None:
            scores = scores + added
        if blocked is not None:
            scores = scores.masked_fill(blocked, float("-inf"))
        if padding is not None:
            scores = scores.masked_fill(padding[:, None, None], float("-inf"))
        dead = (scores == float("-inf")).all(-1, keepdim=True)
        weights = scores.masked_fill(dead, 0.0).softmax(-1).masked_fill(dead, 0.0)
        return weights.mean(1) if average else weights

    def _check(self) -> None:
        if self.bias_k is not None or self.add_zero_attn:
            raise ValueError(
                "[MultiheadAttention] add_bias_kv and add_zero_attn must be False: they add a key that no bias knows"
            )
