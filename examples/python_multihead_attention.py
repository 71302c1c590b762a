"""Puts the bias into a model that already has a torch.nn.MultiheadAttention, keeping its weights.

python examples/python_multihead_attention.py
"""

import torch
from torch import nn
from torch.nn import functional as F

import camber


class Model(nn.Module):
    """What the user has: queries that look at the cells of a bird's-eye grid."""

    def __init__(self) -> None:
        super().__init__()
        self.cross = nn.MultiheadAttention(64, 4, batch_first=True)
        self.head = nn.Linear(64, 64)

    def forward(self, queries, memory, **more):
        attended, _ = self.cross(queries, memory, memory, **more)
        return self.head(attended)


# The ten lines: the same module, the same weights, and a bias that is never stored as [B * heads, Q, K].
class BiasedAttention(nn.MultiheadAttention):
    def heads_of(self, x, part):
        weight, shift = self.in_proj_weight.chunk(3)[part], self.in_proj_bias.chunk(3)[part]
        return F.linear(x, weight, shift).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def forward(self, query, key, value, bias=None, **masks):
        parts = [self.heads_of(x, i) for i, x in enumerate((query, key, value))]
        attended = camber.biased_attention(*parts, bias, statistics=True, **masks)
        return self.out_proj(attended.output.transpose(1, 2).flatten(2)), attended.statistics


def main() -> None:
    torch.manual_seed(0)
    grid = camber.BevGrid(-16, 16, -16, 16, cell=1)
    model, bias = Model(), camber.AttentionBias(grid, camera=None, bev_window=3)
    points = torch.rand(2, 50, 3) * 30 - 15
    memory = torch.randn(2, grid.rows * grid.columns, 64)
    queries, trust = torch.randn(2, 50, 64), torch.ones(2, 50, 1)

    before = model(queries, memory)
    model.cross.__class__ = BiasedAttention  # the trained weights stay where they are
    print(f"without a bias the output moves by {(model(queries, memory) - before).abs().max():.1e}")

    structured = bias(points, None, trust)
    _, statistics = model.cross(queries, memory, memory, bias=structured)
    print(f"a scale of {bias.scale().item()} moves {100 * statistics.change.mean():.1f} % of the attention")

    # A task that needs locality: say what lies in the query's own cell.
    cells = bias.windows_at(points).index
    own = cells.key_index[cells.squared_distance == 0].long().view(2, 50, 1)
    target = memory.gather(1, own.expand(-1, -1, 64))
    groups = [{"params": model.parameters(), "lr": 3e-3}, {"params": bias.parameters(), "lr": 0.05}]
    optimizer = torch.optim.Adam(groups)
    for step in range(61):
        loss = F.mse_loss(model(queries, memory, bias=bias(points, None, trust)), target)
        if step % 20 == 0:
            print(f"step {step:2d}: loss {loss.item():.3f}, scale {bias.scale().item():.2f}")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        camber.project_scales(optimizer)


if __name__ == "__main__":
    main()
