"""A decoder in CMT's design on Camber's attention: queries at reference points look where the bias says, and at all keys.

examples/cmt_decoder.py is the same file before the bias; eight lines of code differ.
"""

import torch
from torch import Tensor, nn

import camber


class Layer(nn.Module):
    """Self-attention, cross-attention and a feed-forward network, each with its residual and norm; sequence first."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.self_attention = nn.MultiheadAttention(width, heads)
        self.cross_attention = camber.nn.MultiheadAttention(width, heads)
        self.feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))

    def forward(self, x: Tensor, position: Tensor, memory: Tensor, key_position: Tensor, bias=None) -> Tensor:
        placed = x + position
        x = self.norms[0](x + self.self_attention(placed, placed, x, need_weights=False)[0])
        attended = self.cross_attention(x + position, memory + key_position, memory, bias=bias)
        x = self.norms[1](x + attended[0])
        return self.norms[2](x + self.feed_forward(x))


class Decoder(nn.Module):
    """Reference points [B, Q, 3] in [0, 1] and a memory [K, B, C] with position embeddings, to class scores and boxes."""

    def __init__(self, width: int = 64, heads: int = 4, layers: int = 2, classes: int = 10) -> None:
        super().__init__()
        self.embedding = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, width))
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.attention_bias = camber.AttentionBias(camber.BevGrid(-8, 8, -8, 8, cell=1), None, bev_window=3)
        self.scores, self.codes = nn.Linear(width, classes), nn.Linear(width, 10)

    def forward(self, reference: Tensor, memory: Tensor, key_position: Tensor, trust=None) -> tuple[Tensor, Tensor]:
        position = self.embedding(reference).transpose(0, 1)
        x = torch.zeros_like(position)
        bias = None if trust is None else self.attention_bias(reference * 16 - 8, None, trust)
        for layer in self.layers:
            x = layer(x, position, memory, key_position, bias)
        return self.scores(x).transpose(0, 1), self.codes(x).transpose(0, 1)
