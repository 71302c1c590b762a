"""The small detector as one would write it with torch.nn; bench/detector_peer.py compares and times it."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

WIDTH, HEADS, LAYERS, QUERIES, CLASSES = 64, 4, 2, 120, 4
REACH, CELL, PILLAR = 25.6, 1.6, 0.8
Z_MIN, Z_MAX = -5.0, 3.0
STRIDE = 2.5
IMAGE, CELLS = (48, 120), (6, 15)  # rows, columns
AZIMUTH = (1, 2, 4, 8, 12, 18, 26, 36)
ELEVATION = (2, 4, 8, 12, 16, 20, 26, 34)


def block(inputs: int, outputs: int, stride: int, size: int = 3) -> nn.Sequential:
    conv = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


class LidarEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 32)
        self.blocks = nn.Sequential(
            block(33, 32, 1), block(32, 64, 2), block(64, 64, 1), block(64, 64, 1), nn.Conv2d(64, 64, 1)
        )

    def forward(self, points: Tensor, offsets: Tensor) -> Tensor:
        batch, side = len(offsets) - 1, int(2 * REACH / PILLAR)
        frame = torch.repeat_interleave(torch.arange(batch), offsets.diff())
        x, y, z, intensity, lag = points.unbind(1)
        # In double, as a point that stands on a cell's border must fall to the same side everywhere.
        column, row = ((x.double() + REACH) / PILLAR).floor().float(), ((y.double() + REACH) / PILLAR).floor().float()
        inside = (x >= -REACH) & (x <= REACH) & (y >= -REACH) & (y <= REACH) & (z >= Z_MIN) & (z <= Z_MAX)
        column, row = column.clamp(0, side - 1), row.clamp(0, side - 1)
        height = z + 1
        features = torch.stack(
            [
                (x - ((column + 0.5) * PILLAR - REACH)) / PILLAR,
                (y - ((row + 0.5) * PILLAR - REACH)) / PILLAR,
                height,
                4 * height - 1,
                2 * intensity,
                x / REACH,
                y / REACH,
                5 * lag,
            ],
            1,
        )[inside]
        cell = ((frame * side + row.long()) * side + column.long())[inside]
        values = F.relu(self.linear(features))
        cells = batch * side * side
        largest = values.new_zeros(cells, 32).scatter_reduce(
            0, cell[:, None].expand(-1, 32), values, "amax", include_self=True
        )
        count = torch.bincount(cell, minlength=cells).float().log1p()
        grid = torch.cat([largest, count[:, None]], 1).view(batch, side, side, 33).permute(0, 3, 1, 2)
        return self.blocks(grid)


class CameraEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(
            block(3, 24, 2, 5),
            block(24, 32, 2),
            block(32, 32, 1),
            block(32, 64, 2),
            block(64, 64, 1),
            nn.Conv2d(64, 64, 1),
        )

    def forward(self, images: Tensor) -> Tensor:
        return self.blocks((images - 0.5).contiguous(memory_format=torch.channels_last))


def sines(value: Tensor, frequencies: Tensor) -> Tensor:
    angle = value[..., None] * frequencies
    return torch.cat([angle.sin(), angle.cos()], -1)


class Positions(nn.Module):
    """The grid in the first half of the channels, rays in the second."""

    def __init__(self) -> None:
        super().__init__()
        self.grid_embedding = nn.Linear(32, 32, bias=False)
        self.ray_embedding = nn.Linear(32, 32, bias=False)
        longest, shortest = 4 * REACH, 2 * CELL
        periods = [longest * (shortest / longest) ** (i / 7) for i in range(8)]
        self.frequencies = torch.tensor([2 * math.pi / period for period in periods])
        self.azimuth, self.elevation = torch.tensor(AZIMUTH).float(), torch.tensor(ELEVATION).float()

    def grid_part(self, xy: Tensor) -> Tensor:
        return self.grid_embedding(
            torch.cat([sines(xy[..., 0], self.frequencies), sines(xy[..., 1], self.frequencies)], -1)
        )

    def ray_part(self, direction: Tensor) -> Tensor:
        x, y, z = direction.unbind(-1)
        flat = (x * x + y * y + 1e-12).sqrt()
        return self.ray_embedding(
            torch.cat([sines(torch.atan2(y, x), self.azimuth), sines(torch.atan2(z, flat), self.elevation)], -1)
        )

    def keys(self, rays: Tensor) -> Tensor:
        """rays [B, camera keys, 3]."""
        side = int(2 * REACH / CELL)
        centre = (torch.arange(side) + 0.5) * CELL - REACH
        xy = torch.stack([centre.repeat(side), centre.repeat_interleave(side)], -1)
        grid = F.pad(self.grid_part(xy), (0, 32)).expand(len(rays), -1, -1)
        return torch.cat([grid, F.pad(self.ray_part(rays), (32, 0))], 1)

    def queries(self, points: Tensor, projections: Tensor, centres: Tensor) -> Tensor:
        """projections [B, V, 4, 4], centres [B, V, 3]."""
        homogeneous = F.pad(points, (0, 1), value=1.0).double()
        p = torch.einsum("bvij,bqj->bqvi", projections, homogeneous)
        u, v, depth = p[..., 0] / p[..., 2], p[..., 1] / p[..., 2], p[..., 2]
        seen = (depth > 0.1) & (u >= 0) & (u < IMAGE[1]) & (v >= 0) & (v < IMAGE[0])
        rays = points[:, :, None] - centres[:, None]
        unit = rays / (rays.detach().norm(dim=-1, keepdim=True) + 1e-6)
        mean = (unit * seen[..., None].float()).sum(2)
        direction = torch.where(seen.any(2)[..., None], mean, points)
        return torch.cat([self.grid_part(points[..., :2]), self.ray_part(direction)], -1)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.in_proj_weight = nn.Parameter(torch.empty(3 * WIDTH, WIDTH))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * WIDTH))
        self.out_proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
        weights, biases = self.in_proj_weight.chunk(3), self.in_proj_bias.chunk(3)
        queries, keys, values = (
            F.linear(x, w, b).view(len(x), -1, HEADS, WIDTH // HEADS).transpose(1, 2)
            for x, w, b in zip((q, k, v), weights, biases)
        )
        out = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
        return self.out_proj(out.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.self_attention, self.cross_attention = Attention(), Attention()
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(WIDTH) for _ in range(3))
        self.expand, self.contract = nn.Linear(WIDTH, 128), nn.Linear(128, WIDTH)

    def forward(self, x: Tensor, position: Tensor, memory: Tensor, keys: Tensor, mask: Tensor | None) -> Tensor:
        x = self.norm1(x + self.self_attention(x + position, x + position, x, mask))
        x = self.norm2(x + self.cross_attention(x + position, keys, memory))
        return self.norm3(x + self.contract(F.relu(self.expand(x))))


class TaskHead(nn.Module):
    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.hidden, self.norm, self.out = (
            nn.Linear(WIDTH, 64, bias=False),
            nn.LayerNorm(64, eps=1e-6),
            nn.Linear(64, outputs),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.out(F.relu(self.norm(self.hidden(x))))


TASKS = {"centre": 2, "height": 1, "size": 3, "heading": 2, "velocity": 2, "classes": CLASSES}


class Detector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lidar_encoder, self.camera_encoder, self.positions = LidarEncoder(), CameraEncoder(), Positions()
        self.grid_norm, self.camera_norm, self.post_norm = (nn.LayerNorm(WIDTH) for _ in range(3))
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.tasks = nn.ModuleList(
            nn.ModuleDict({name: TaskHead(n) for name, n in TASKS.items()}) for _ in range(LAYERS)
        )
        self.grid_classes, self.camera_classes = nn.Linear(WIDTH, CLASSES), nn.Linear(WIDTH, CLASSES)
        self.query_start = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("references", torch.zeros(QUERIES, 3))

    def forward(self, batch: dict, denoising: dict | None = None) -> dict:
        size = len(batch["images"])
        grid = self.lidar_encoder(batch["points"], batch["point_offsets"]).permute(0, 2, 3, 1).flatten(1, 2)
        maps = self.camera_encoder(batch["images"].flatten(0, 1)).permute(0, 2, 3, 1)
        grid, cameras = self.grid_norm(grid), self.camera_norm(maps.reshape(size, -1, WIDTH))
        memory = torch.cat([grid, cameras], 1)
        keys = memory + self.positions.keys(batch["rays"])
        references, mask = self.references.expand(size, -1, -1), None
        if denoising is not None:
            references, mask = torch.cat([denoising["references"], references], 1), denoising["mask"]
        x, logits, codes = None, [], []
        for layer, tasks in zip(self.layers, self.tasks):
            position = self.positions.queries(references, batch["projections"], batch["centres"])
            x = layer(self.query_start(position) if x is None else x, position, memory, keys, mask)
            out = {name: head(self.post_norm(x)) for name, head in tasks.items()}
            moved = torch.cat([out["centre"] * STRIDE, out["height"]], -1)
            centre = references + moved
            codes.append(torch.cat([centre, out["size"], out["heading"], out["velocity"]], -1))
            logits.append(out["classes"])
            references = centre.detach()
        result = {"logits": torch.stack(logits), "codes": torch.stack(codes)}
        if self.training:
            result |= {"grid": self.grid_classes(grid), "cameras": self.camera_classes(cameras)}
        return result
