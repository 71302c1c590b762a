"""CMT (cmt_voxel0100_r50_800x320) as one would write it with torch.nn, SDPA and spconv; bench/cmt_peer.py times it.

Modules carry the names of the published checkpoints. Shapes: N voxels, Q = 900 queries, K = 22,384 keys, C = 256.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sparse_encoder_peer import CELLS, CHANNELS, DOWN_PADDING, LOWER, MOST_POINTS, SHAPE, SIZE

LOW, HIGH = (-54.0, -54.0, -5.0), (54.0, 54.0, 3.0)
IMAGE, MAP = (320, 800), (20, 50)  # rows, columns
GRID, WIDTH, HEADS, LAYERS, DEPTHS, CLASSES = 128, 256, 8, 6, 64, 10
TASKS = {"center": 2, "height": 1, "dim": 3, "rot": 2, "vel": 2, "cls_logits": CLASSES}
MOST_VOXELS = 160000

Stage = Callable[[str], None]  # told when a stage is done


# --- LiDAR ---


class SparseBlock(nn.Module):
    def __init__(self, spconv: Any, width: int) -> None:
        super().__init__()
        self.conv1 = spconv.SubMConv3d(width, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm1d(width, eps=1e-3)
        self.conv2 = spconv.SubMConv3d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm1d(width, eps=1e-3)

    def forward(self, x: Any) -> Any:
        y = self.conv1(x)
        y = self.conv2(y.replace_feature(F.relu(self.bn1(y.features))))
        return y.replace_feature(F.relu(self.bn2(y.features) + x.features))


class SparseEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        import spconv.pytorch as spconv

        self.spconv = spconv

        def unit(module: Any, width: int) -> Any:
            return spconv.SparseSequential(module, nn.BatchNorm1d(width, eps=1e-3), nn.ReLU())

        first = spconv.SubMConv3d(5, CHANNELS[0], 3, padding=1, bias=False, indice_key="subm1")
        self.conv_input = unit(first, CHANNELS[0])
        self.encoder_layers = nn.Module()
        self.stages = []
        for stage, width in enumerate(CHANNELS):
            layers = [SparseBlock(spconv, width), SparseBlock(spconv, width)]
            if stage < 3:
                wider = CHANNELS[stage + 1]
                down = spconv.SparseConv3d(width, wider, 3, 2, DOWN_PADDING[stage], bias=False)
                layers.append(unit(down, wider))
            name = f"encoder_layer{stage + 1}"
            setattr(self.encoder_layers, name, nn.Sequential(*layers))
            self.stages.append(name)
        last = spconv.SparseConv3d(CHANNELS[3], CHANNELS[3], (3, 1, 1), (2, 1, 1), 0, bias=False)
        self.conv_out = unit(last, CHANNELS[3])

    def forward(self, features: Tensor, sites: Tensor) -> Tensor:
        x = self.conv_input(self.spconv.SparseConvTensor(features, sites, list(SHAPE), 1))
        for name in self.stages:
            x = getattr(self.encoder_layers, name)(x)
        return self.conv_out(x).dense().flatten(1, 2)


def layer(inputs: int, outputs: int, size: int, stride: int) -> list[nn.Module]:
    conv = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)
    return [conv, nn.BatchNorm2d(outputs, eps=1e-3), nn.ReLU(inplace=True)]


class Second(nn.Module):
    def __init__(self) -> None:
        super().__init__()

        def block(inputs: int, outputs: int, stride: int) -> nn.Sequential:
            rest = [module for _ in range(5) for module in layer(outputs, outputs, 3, 1)]
            return nn.Sequential(*layer(inputs, outputs, 3, stride), *rest)

        self.blocks = nn.ModuleList([block(256, 128, 1), block(128, 256, 2)])

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        near = self.blocks[0](x)
        return near, self.blocks[1](near)


class SecondFpn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        raised = nn.ConvTranspose2d(256, 256, 2, 2, bias=False)
        far = nn.Sequential(raised, nn.BatchNorm2d(256, eps=1e-3), nn.ReLU(inplace=True))
        self.deblocks = nn.ModuleList([nn.Sequential(*layer(128, 256, 1, 1)), far])

    def forward(self, levels: tuple[Tensor, Tensor]) -> Tensor:
        return torch.cat([self.deblocks[0](levels[0]), self.deblocks[1](levels[1])], 1)


# --- images ---


class Bottleneck(nn.Module):
    def __init__(self, inputs: int, inner: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, inner, 1, bias=False), nn.BatchNorm2d(inner)
        self.conv2, self.bn2 = nn.Conv2d(inner, inner, 3, stride, 1, bias=False), nn.BatchNorm2d(inner)
        self.conv3, self.bn3 = nn.Conv2d(inner, 4 * inner, 1, bias=False), nn.BatchNorm2d(4 * inner)
        self.downsample: nn.Sequential | None = None
        if stride != 1 or inputs != 4 * inner:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, 4 * inner, 1, stride, bias=False), nn.BatchNorm2d(4 * inner)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = F.relu(self.bn2(self.conv2(y)), inplace=True)
        y = self.bn3(self.conv3(y))
        return F.relu(y + (self.downsample(x) if self.downsample else x), inplace=True)


class ResNet50(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        inputs = 64
        for stage, blocks in enumerate((3, 4, 6, 3)):
            inner, modules = 64 << stage, []
            for i in range(blocks):
                modules.append(Bottleneck(inputs, inner, 2 if i == 0 and stage > 0 else 1))
                inputs = 4 * inner
            setattr(self, f"layer{stage + 1}", nn.Sequential(*modules))

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(images)), inplace=True), 3, 2, 1)
        near = self.layer3(self.layer2(self.layer1(x)))
        return near, self.layer4(near)


class ConvModule(nn.Module):
    def __init__(self, inputs: int, outputs: int, size: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, size, padding=size // 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(x)


class Cpfpn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lateral_convs = nn.ModuleList([ConvModule(1024, WIDTH, 1), ConvModule(2048, WIDTH, 1)])
        self.fpn_convs = nn.ModuleList([ConvModule(WIDTH, WIDTH, 3)])

    def forward(self, levels: tuple[Tensor, Tensor]) -> Tensor:
        near, far = (conv(level) for conv, level in zip(self.lateral_convs, levels))
        return self.fpn_convs[0](near + F.interpolate(far, size=near.shape[2:], mode="nearest"))


# --- the head ---


class Attention(nn.Module):
    """Names of nn.MultiheadAttention, the product by SDPA."""

    def __init__(self) -> None:
        super().__init__()
        self.in_proj_weight = nn.Parameter(torch.empty(3 * WIDTH, WIDTH))
        self.in_proj_bias = nn.Parameter(torch.empty(3 * WIDTH))
        self.out_proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        parts = zip((query, key, value), self.in_proj_weight.chunk(3), self.in_proj_bias.chunk(3))
        q, k, v = (F.linear(x, w, b).unflatten(-1, (HEADS, -1)).transpose(1, 2) for x, w, b in parts)
        return self.out_proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Named(nn.Module):
    """Holds one module under a name."""

    def __init__(self, **modules: nn.Module) -> None:
        super().__init__()
        for name, module in modules.items():
            setattr(self, name, module)


class DecoderLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attentions = nn.ModuleList([Named(attn=Attention()), Named(attn=Attention())])
        inner = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.ReLU(inplace=True))
        self.ffns = nn.ModuleList([Named(layers=nn.Sequential(inner, nn.Linear(4 * WIDTH, WIDTH)))])
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH) for _ in range(3)])

    def forward(self, x: Tensor, at: Tensor, memory: Tensor, memory_at: Tensor) -> Tensor:
        own, cross = self.attentions[0].attn, self.attentions[1].attn
        x = self.norms[0](x + own(x + at, x + at, x))
        x = self.norms[1](x + cross(x + at, memory + memory_at, memory))
        return self.norms[2](x + self.ffns[0].layers(x))


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([DecoderLayer() for _ in range(LAYERS)])
        self.post_norm = nn.LayerNorm(WIDTH)

    def forward(self, at: Tensor, memory: Tensor, memory_at: Tensor) -> Tensor:
        x, states = torch.zeros_like(at), []
        for layer in self.layers:
            x = layer(x, at, memory, memory_at)
            states.append(self.post_norm(x))
        return torch.stack(states)


class GroupedNorm(nn.Module):
    """Layer norm of each group of 64 channels, [L, 64 L, Q] as groups of layers."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.empty(64 * LAYERS)), nn.Parameter(torch.empty(64 * LAYERS))

    def forward(self, x: Tensor) -> Tensor:
        groups = x.unflatten(1, (LAYERS, 64))
        centred = groups - groups.mean(2, keepdim=True)
        normed = centred / (centred.square().mean(2, keepdim=True) + 1e-6).sqrt()
        return normed.flatten(1, 2) * self.weight[None, :, None] + self.bias[None, :, None]


def task_head(outputs: int) -> nn.Sequential:
    first = nn.Conv1d(LAYERS * WIDTH, LAYERS * 64, 1, groups=LAYERS, bias=False)
    return nn.Sequential(first, GroupedNorm(), nn.ReLU(), nn.Conv1d(LAYERS * 64, LAYERS * outputs, 1, groups=LAYERS))


def pos2embed(xy: Tensor) -> Tensor:
    divisor = 2 * (torch.arange(WIDTH) // 2) / WIDTH + 1
    parts = []
    for coordinate in (xy[..., 1], xy[..., 0]):
        angle = coordinate[..., None] * 2 * math.pi / divisor
        parts.append(torch.stack([angle[..., 0::2].sin(), angle[..., 1::2].cos()], -1).flatten(-2))
    return torch.cat(parts, -1)


def inverse_sigmoid(x: Tensor) -> Tensor:
    x = x.clamp(0, 1)
    return torch.log(x.clamp(min=1e-5) / (1 - x).clamp(min=1e-5))


class Head(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.shared_conv = Named(conv=nn.Conv2d(512, WIDTH, 3, padding=1, bias=False), bn=nn.BatchNorm2d(WIDTH))
        self.reference_points = nn.Embedding(900, 3)
        self.bev_embedding = nn.Sequential(nn.Linear(2 * WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
        self.rv_embedding = nn.Sequential(nn.Linear(3 * DEPTHS, 4 * WIDTH), nn.ReLU(), nn.Linear(4 * WIDTH, WIDTH))
        self.transformer = Named(decoder=Decoder())
        self.task_heads = nn.ModuleList([nn.ModuleDict({name: task_head(size) for name, size in TASKS.items()})])

    def along_rays(self, pixels: Tensor, image_to_lidar: Tensor) -> Tensor:
        """Pixels [..., 3] of cameras with [..., 4, 4] -> [..., C]; in double up to the embedding."""
        depth = 1 + torch.arange(DEPTHS, dtype=torch.float64) * ((HIGH[0] - 1) / DEPTHS)
        points = F.pad(pixels.unsqueeze(-2) * depth[:, None], (0, 1), value=1.0)
        points = (points @ image_to_lidar.transpose(-1, -2))[..., :3]
        low, high = torch.tensor(LOW, dtype=torch.float64), torch.tensor(HIGH, dtype=torch.float64)
        return self.rv_embedding(((points - low) / (high - low)).flatten(-2).float())

    def key_positions(self, inverse: Tensor) -> Tensor:
        centre = (torch.arange(GRID) + 0.5) / GRID
        grid = torch.stack([centre.repeat(GRID), centre.repeat_interleave(GRID)], -1)
        rows, columns = torch.meshgrid(torch.arange(MAP[0]), torch.arange(MAP[1]), indexing="ij")
        stride = IMAGE[0] / MAP[0]
        pixels = torch.stack([columns * stride, rows * stride, torch.ones_like(rows)], -1).view(-1, 3).double()
        rays = self.along_rays(pixels.expand(len(inverse), -1, -1), inverse[:, None])
        return torch.cat([self.bev_embedding(pos2embed(grid)), rays.flatten(0, 1)])[None]

    def query_positions(self, reference: Tensor, projections: Tensor, inverse: Tensor) -> Tensor:
        result = self.bev_embedding(pos2embed(reference[:, :2]))
        low, extent = torch.tensor(LOW), torch.tensor(HIGH) - torch.tensor(LOW)
        points = F.pad((reference * extent + low).double(), (0, 1), value=1.0)
        image = torch.einsum("vij,qj->vqi", projections, points)
        depth = image[..., 2]
        pixels = image[..., :3] / torch.where(depth > 0, depth + 1e-6, -1e-6)[..., None]
        u, v = pixels[..., 0], pixels[..., 1]
        seen = (depth > 0) & (u >= 0) & (u < IMAGE[1]) & (v >= 0) & (v < IMAGE[0])
        embedded = self.along_rays(torch.where(seen[..., None], pixels, 0.0), inverse[:, None])
        return (result + (embedded * seen[..., None]).sum(0))[None]

    def forward(self, bev: Tensor, cameras: Tensor, projections: Tensor) -> tuple[Tensor, Tensor]:
        """-> logits [L, 1, Q, classes], codes [L, 1, Q, 10]."""
        bev = F.relu(self.shared_conv.bn(self.shared_conv.conv(bev)))
        memory = torch.cat([bev.flatten(2).transpose(1, 2), cameras.permute(0, 2, 3, 1).flatten(0, 2)[None]], 1)
        inverse = torch.linalg.inv(projections)
        reference = inverse_sigmoid(self.reference_points.weight).sigmoid()
        states = self.transformer.decoder(
            self.query_positions(reference, projections, inverse), memory, self.key_positions(inverse)
        )
        stacked = states.float().permute(1, 0, 3, 2).flatten(1, 2)  # [1, L C, Q]
        raw = {name: head(stacked).float().unflatten(1, (LAYERS, -1)) for name, head in self.task_heads[0].items()}
        out = {name: value.permute(1, 0, 3, 2) for name, value in raw.items()}  # [L, 1, Q, c]
        low, extent = torch.tensor(LOW), torch.tensor(HIGH) - torch.tensor(LOW)
        centre = torch.cat([out["center"], out["height"]], -1) + inverse_sigmoid(reference)
        codes = [centre.sigmoid() * extent + low, out["dim"], out["rot"], out["vel"]]
        return out["cls_logits"], torch.cat(codes, -1)


class Detector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        from spconv.pytorch.utils import PointToVoxel

        self.voxeliser = PointToVoxel(
            vsize_xyz=list(SIZE),
            coors_range_xyz=[*LOWER, *(low + cells * size for low, cells, size in zip(LOWER, CELLS, SIZE))],
            num_point_features=5,
            max_num_voxels=MOST_VOXELS,
            max_num_points_per_voxel=MOST_POINTS,
        )
        self.pts_middle_encoder, self.pts_backbone, self.pts_neck = SparseEncoder(), Second(), SecondFpn()
        self.img_backbone, self.img_neck = ResNet50(), Cpfpn()
        self.pts_bbox_head = Head()

    def voxels(self, points: Tensor) -> tuple[Tensor, Tensor]:
        rows, sites, counts = self.voxeliser(points)
        inside = (sites[:, 1] < SHAPE[1]) & (sites[:, 2] < SHAPE[2])  # the published range is wider than the grid
        means = rows[inside].sum(1) / counts[inside, None]
        return means, F.pad(sites[inside], (1, 0))

    def forward(self, points: Tensor, images: Tensor, projections: Tensor, done: Stage) -> tuple[Tensor, Tensor]:
        """points [N, 5], images [6, 3, 320, 800], projections [6, 4, 4] in double."""
        features, sites = self.voxels(points)
        done("voxelise")
        with torch.autocast("cpu", enabled=False):  # spconv has no bfloat16 on the CPU
            bev = self.pts_middle_encoder(features, sites)
        done("sparse encoder")
        bev = self.pts_neck(self.pts_backbone(bev))
        done("bird's-eye backbone")
        cameras = self.img_neck(self.img_backbone(images))
        done("cameras")
        logits, codes = self.pts_bbox_head(bev, cameras, projections)
        done("head")
        return logits, codes


def best_boxes(logits: Tensor, codes: Tensor) -> tuple[Tensor, Tensor]:
    """Scores and centres of the best 300 of queries times classes."""
    scores, index = logits[-1, 0].sigmoid().flatten().topk(300)
    return scores, codes[-1, 0, index // CLASSES, :3]
