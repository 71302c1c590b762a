"""A decoder in CMT's design on torch's attention: queries at reference points look at all keys of LiDAR and cameras.

examples/cmt_decoder_with_bias.py is the same file with the bias, a few lines later.
"""

import torch
from torch import Tensor, nn


class Layer(nn.Module):
    """Self-attention, cross-attention and a feed-forward network, each with its residual and norm; sequence first."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.self_attention = nn.MultiheadAttention(width, heads)
        self.cross_attention = nn.MultiheadAttention(width, heads)
        self.feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))

    def forward(self, x: Tensor, position: Tensor, memory: Tensor, key_position: Tensor) -> Tensor:
        placed = x + position
        x = self.norms[0](x + self.self_attention(placed, placed, x, need_weights=False)[0])
        attended = self.cross_attention(x + position, memory + key_position, memory, need_weights=False)
        x = self.norms[1](x + attended[0])
        return self.norms[2](x + self.feed_forward(x))


class Decoder(nn.Module):
    """Reference points [B, Q, 3] in [0, 1] and a memory [K, B, C] with position embeddings, to class scores and boxes."""

    def __init__(self, width: int = 64, heads: int = 4, layers: int = 2, classes: int = 10) -> None:
        super().__init__()
        self.embedding = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, width))
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.scores, self.codes = nn.Linear(width, classes), nn.Linear(width, 10)

    def forward(self, reference: Tensor, memory: Tensor, key_position: Tensor) -> tuple[Tensor, Tensor]:
        position = self.embedding(reference).transpose(0, 1)
        x = torch.zeros_like(position)
        for layer in self.layers:
            x = layer(x, position, memory, key_position)
        return self.scores(x).transpose(0, 1), self.codes(x).transpose(0, 1)
