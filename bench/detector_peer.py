"""The small detector written in PyTorch's Python, beside ours: the same weights, the same batch, the same step.

    camber bench detector --data build/world --split val --dump peer.safetensors
    python bench/detector_peer.py peer.safetensors --repeats 30

First the outputs are compared, so that both are known to be the same model; then training steps are timed (forward,
Hungarian matching by scipy, losses, backward, clipping, AdamW), as one would write them with torch.nn. Prints JSON.
"""

from __future__ import annotations

import argparse
import json
import math
import struct
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn

WIDTH, HEADS, LAYERS, QUERIES, CLASSES = 64, 4, 2, 120, 4
REACH, CELL, PILLAR = 25.6, 1.6, 0.8
Z_MIN, Z_MAX = -5.0, 3.0
STRIDE, REFERENCE_HEIGHT = 2.5, -1.0
PICTURE, CELLS = (48, 120), (6, 15)  # rows, columns
AZIMUTH = (1, 2, 4, 8, 12, 18, 26, 36)
ELEVATION = (2, 4, 8, 12, 16, 20, 26, 34)
CODE_WEIGHTS = (2.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.2, 0.2)
GROUPS, MARGIN = 3, 1.0


def read_safetensors(path: Path) -> dict[str, Tensor]:
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    types = {"F32": np.float32, "F64": np.float64, "I64": np.int64}
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        array = np.frombuffer(data[begin:end], types[entry["dtype"]]).reshape(entry["shape"]).copy()
        tensors[name] = torch.from_numpy(array)
    return tensors


def block(inputs: int, outputs: int, stride: int, size: int = 3) -> nn.Sequential:
    conv = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


class LidarEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 32)
        self.blocks = nn.Sequential(block(33, 32, 1), block(32, 64, 2), block(64, 64, 1), block(64, 64, 1), nn.Conv2d(64, 64, 1))

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
        largest = values.new_zeros(cells, 32).scatter_reduce(0, cell[:, None].expand(-1, 32), values, "amax", include_self=True)
        count = torch.bincount(cell, minlength=cells).float().log1p()
        grid = torch.cat([largest, count[:, None]], 1).view(batch, side, side, 33).permute(0, 3, 1, 2)
        return self.blocks(grid)


class CameraEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(
            block(3, 24, 2, 5), block(24, 32, 2), block(32, 32, 1), block(32, 64, 2), block(64, 64, 1), nn.Conv2d(64, 64, 1)
        )

    def forward(self, pictures: Tensor) -> Tensor:
        return self.blocks((pictures - 0.5).contiguous(memory_format=torch.channels_last))


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
        return self.grid_embedding(torch.cat([sines(xy[..., 0], self.frequencies), sines(xy[..., 1], self.frequencies)], -1))

    def ray_part(self, direction: Tensor) -> Tensor:
        x, y, z = direction.unbind(-1)
        flat = (x * x + y * y + 1e-12).sqrt()
        return self.ray_embedding(torch.cat([sines(torch.atan2(y, x), self.azimuth), sines(torch.atan2(z, flat), self.elevation)], -1))

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
        seen = (depth > 0.1) & (u >= 0) & (u < PICTURE[1]) & (v >= 0) & (v < PICTURE[0])
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
        heads = [
            F.linear(x, w, b).view(len(x), -1, HEADS, WIDTH // HEADS).transpose(1, 2)
            for x, w, b in zip((q, k, v), weights, biases)
        ]
        out = F.scaled_dot_product_attention(*heads, attn_mask=mask)
        return self.out_proj(out.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.self_attention, self.cross_attention = Attention(), Attention()
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(WIDTH) for _ in range(3))
        self.expand, self.contract = nn.Linear(WIDTH, 128), nn.Linear(128, WIDTH)

    def forward(self, x: Tensor, place: Tensor, memory: Tensor, keys: Tensor, mask: Tensor | None) -> Tensor:
        x = self.norm1(x + self.self_attention(x + place, x + place, x, mask))
        x = self.norm2(x + self.cross_attention(x + place, keys, memory))
        return self.norm3(x + self.contract(F.relu(self.expand(x))))


class TaskHead(nn.Module):
    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.hidden, self.norm, self.out = nn.Linear(WIDTH, 64, bias=False), nn.LayerNorm(64, eps=1e-6), nn.Linear(64, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(F.relu(self.norm(self.hidden(x))))


TASKS = {"centre": 2, "height": 1, "size": 3, "heading": 2, "velocity": 2, "classes": CLASSES}


class Detector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lidar_encoder, self.camera_encoder, self.positions = LidarEncoder(), CameraEncoder(), Positions()
        self.grid_norm, self.camera_norm, self.post_norm = (nn.LayerNorm(WIDTH) for _ in range(3))
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.tasks = nn.ModuleList(nn.ModuleDict({name: TaskHead(n) for name, n in TASKS.items()}) for _ in range(LAYERS))
        self.grid_classes, self.camera_classes = nn.Linear(WIDTH, CLASSES), nn.Linear(WIDTH, CLASSES)
        self.query_start = nn.Linear(WIDTH, WIDTH)
        self.register_buffer("references", torch.zeros(QUERIES, 3))

    def forward(self, batch: dict, denoising: dict | None = None) -> dict:
        size = len(batch["pictures"])
        grid = self.lidar_encoder(batch["points"], batch["point_offsets"]).permute(0, 2, 3, 1).flatten(1, 2)
        maps = self.camera_encoder(batch["pictures"].flatten(0, 1)).permute(0, 2, 3, 1)
        grid, cameras = self.grid_norm(grid), self.camera_norm(maps.reshape(size, -1, WIDTH))
        memory = torch.cat([grid, cameras], 1)
        keys = memory + self.positions.keys(batch["rays"])
        references, mask = self.references.expand(size, -1, -1), None
        if denoising is not None:
            references, mask = torch.cat([denoising["references"], references], 1), denoising["mask"]
        x, logits, codes = None, [], []
        for layer, tasks in zip(self.layers, self.tasks):
            place = self.positions.queries(references, batch["projections"], batch["centres"])
            x = layer(self.query_start(place) if x is None else x, place, memory, keys, mask)
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


# --- names of our file to names of this model ---


def load(model: Detector, tensors: dict[str, Tensor]) -> None:
    ours = {name[6:]: value for name, value in tensors.items() if name.startswith("model.")}
    state = {}
    for encoder in ("lidar_encoder", "camera_encoder"):
        for name, value in ours.items():
            if name.startswith(f"{encoder}.blocks."):
                state[name.replace(".conv.", ".0.").replace(".norm.", ".1.")] = value
    for name in ("weight", "bias"):
        state[f"lidar_encoder.linear.{name}"] = ours[f"lidar_encoder.pillars.linear.{name}"]
    for part in ("grid_embedding", "ray_embedding"):
        state[f"positions.{part}.weight"] = ours[f"head.positions.{part}.weight"]
    for part in ("grid_norm", "camera_norm", "grid_classes", "camera_classes", "query_start"):
        for name in ("weight", "bias"):
            state[f"{part}.{name}"] = ours[f"head.{part}.{name}"]
    for name, value in ours.items():
        if name.startswith("head.decoder."):
            state[name[len("head.decoder.") :].replace("feedforward.", "")] = value
    for layer in range(LAYERS):
        hidden = ours["head.task_heads.hidden"][layer].view(len(TASKS), 64, WIDTH)
        for i, task in enumerate(TASKS):
            at = f"tasks.{layer}.{task}"
            state[f"{at}.hidden.weight"] = hidden[i]
            state[f"{at}.norm.weight"] = ours["head.task_heads.norm_weight"][layer, i]
            state[f"{at}.norm.bias"] = ours["head.task_heads.norm_bias"][layer, i]
            state[f"{at}.out.weight"] = ours[f"head.task_heads.{task}_weight"][layer]
            state[f"{at}.out.bias"] = ours[f"head.task_heads.{task}_bias"][layer]
    state["references"] = ours["head.reference_points"]
    model.load_state_dict(state)


def make_batch(tensors: dict[str, Tensor]) -> dict:
    batch = {name: tensors[f"batch.{name}"] for name in ("points", "point_offsets", "pictures")}
    projections = tensors["batch.lidar_to_image"].double()
    inverse = torch.linalg.inv(projections[..., :3, :3])
    rows, columns = torch.meshgrid(torch.arange(CELLS[0]), torch.arange(CELLS[1]), indexing="ij")
    pixel = torch.stack([(columns + 0.5) * PICTURE[1] / CELLS[1], (rows + 0.5) * PICTURE[0] / CELLS[0], torch.ones_like(rows)], -1)
    rays = torch.einsum("bvij,nj->bvni", inverse, pixel.view(-1, 3).double())
    batch["projections"] = projections
    batch["rays"] = rays.flatten(1, 2).float()
    batch["centres"] = -(inverse @ projections[..., :3, 3:]).squeeze(-1).float()
    count = len(batch["pictures"])
    batch["boxes"] = [tensors[f"batch.boxes.{i}"] for i in range(count)]
    batch["labels"] = [tensors[f"batch.labels.{i}"] for i in range(count)]
    return batch


# --- training ---


def encode(boxes: Tensor) -> Tensor:
    yaw = boxes[:, 6:7]
    return torch.cat([boxes[:, :3], boxes[:, 3:6].log(), yaw.sin(), yaw.cos(), boxes[:, 7:9]], -1)


def focal(logits: Tensor, target: Tensor) -> Tensor:
    score = logits.sigmoid()
    entropy = F.binary_cross_entropy_with_logits(logits, target, reduction="none")
    miss = target * (1 - score) + (1 - target) * score
    return (0.25 * target + 0.75 * (1 - target)) * miss**2 * entropy


def denoise(batch: dict) -> dict:
    most = max(len(labels) for labels in batch["labels"])
    size, count = len(batch["labels"]), GROUPS * most
    references, owner = torch.zeros(size, count, 3), torch.full((size, count), -1)
    for b, boxes in enumerate(batch["boxes"]):
        for g in range(GROUPS):
            noise = (torch.rand(len(boxes), 3) * 2 - 1) * (boxes[:, 3:4] / 2 + MARGIN)
            references[b, g * most : g * most + len(boxes)] = boxes[:, :3] + noise
            owner[b, g * most : g * most + len(boxes)] = torch.arange(len(boxes))
    references[..., 2] = REFERENCE_HEIGHT
    total = count + QUERIES
    allowed = torch.ones(total, total, dtype=torch.bool)
    allowed[:, :count] = False
    for g in range(GROUPS):
        part = slice(g * most, (g + 1) * most)
        allowed[part, part] = True
    padding = F.pad(owner < 0, (0, QUERIES))
    return {"references": references, "owner": owner, "mask": (allowed & ~padding[:, None])[:, None], "count": count}


@torch.no_grad()
def match(logits: Tensor, codes: Tensor, labels: Tensor, truth: Tensor) -> tuple[np.ndarray, np.ndarray]:
    score = logits.sigmoid()[:, labels]
    positive = 0.25 * (1 - score) ** 2 * -(score + 1e-12).log()
    negative = 0.75 * score**2 * -(1 - score + 1e-12).log()
    weights = torch.tensor(CODE_WEIGHTS[:8])
    cost = 2 * (positive - negative) + 0.25 * torch.cdist(codes[:, :8] * weights, truth[:, :8] * weights, p=1)
    return linear_sum_assignment(cost.nan_to_num(1e6).numpy())


def query_loss(logits: Tensor, codes: Tensor, owner: Tensor, batch: dict, truth: list[Tensor], divisor: float) -> Tensor:
    target, wanted, weight = torch.zeros_like(logits), torch.zeros_like(codes), torch.zeros_like(codes)
    for b, objects in enumerate(truth):
        rows = (owner[b] >= 0).nonzero().squeeze(1)
        of = owner[b, rows]
        target[b, rows, batch["labels"][b][of]] = 1
        wanted[b, rows] = objects[of].nan_to_num()
        weight[b, rows] = torch.tensor(CODE_WEIGHTS) * objects[of].isfinite()
    return 2 * focal(logits, target).sum() / divisor + 0.25 * ((codes - wanted).abs() * weight).sum() / divisor


def dense_targets(batch: dict) -> tuple[Tensor, Tensor]:
    size, side = len(batch["labels"]), int(2 * REACH / CELL)
    grid = torch.zeros(size, side * side, CLASSES)
    views = batch["projections"].shape[1]
    cameras = torch.zeros(size, views, CELLS[0] * CELLS[1], CLASSES)
    for b, (boxes, labels) in enumerate(zip(batch["boxes"], batch["labels"])):
        cell = ((boxes[:, :2] + REACH) / CELL).floor().long().clamp(0, side - 1)
        grid[b, cell[:, 1] * side + cell[:, 0], labels] = 1
        p = torch.einsum("vij,gj->vgi", batch["projections"][b], F.pad(boxes[:, :3], (0, 1), value=1.0).double())
        u, v = p[..., 0] / p[..., 2], p[..., 1] / p[..., 2]
        seen = (p[..., 2] > 0.1) & (u >= 0) & (u < PICTURE[1]) & (v >= 0) & (v < PICTURE[0])
        view, which = seen.nonzero(as_tuple=True)
        row, column = (v[seen] / 8).long(), (u[seen] / 8).long()
        cameras[b, view, row * CELLS[1] + column, labels[which]] = 1
    return grid, cameras.flatten(1, 2)


def losses(model: Detector, batch: dict) -> Tensor:
    denoising = denoise(batch)
    out = model(batch, denoising)
    truth = [encode(boxes) for boxes in batch["boxes"]]
    objects = float(max(1, sum(len(labels) for labels in batch["labels"])))
    count, total = denoising["count"], torch.zeros(())
    for layer in range(LAYERS):
        logits, codes = out["logits"][layer], out["codes"][layer]
        owner = torch.full((len(truth), QUERIES), -1)
        for b, labels in enumerate(batch["labels"]):
            if len(labels):
                rows, of = match(logits[b, count:], codes[b, count:], labels, truth[b])
                owner[b, rows] = torch.from_numpy(of)
        total = total + query_loss(logits[:, count:], codes[:, count:], owner, batch, truth, objects)
        noised = torch.where((denoising["owner"] < 0)[..., None], torch.full_like(logits[:, :count], -50.0), logits[:, :count])
        divisor = float(max(1, (denoising["owner"] >= 0).sum()))
        total = total + query_loss(noised, codes[:, :count], denoising["owner"], batch, truth, divisor)
    for logits, target in zip((out["grid"], out["cameras"]), dense_targets(batch)):
        total = total + 2 * focal(logits, target).sum() / objects
    return total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    tensors = read_safetensors(arguments.file)
    model = Detector().to(memory_format=torch.channels_last)
    load(model, tensors)
    batch = make_batch(tensors)
    model.eval()
    with torch.no_grad():
        out = model(batch)
    difference = {
        name: float((out[name] - tensors[f"output.{ours}"]).abs().max())
        for name, ours in (("logits", "class_logits"), ("codes", "codes"))
    }
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, weight_decay=0.01)
    times = []
    for _ in range(5 + arguments.repeats):
        begin = time.perf_counter()
        optimizer.zero_grad()
        losses(model, batch).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 35)
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - begin))
    times = sorted(times[5:])
    print(
        json.dumps(
            {
                "parameters": sum(p.numel() for p in model.parameters()),
                "difference": difference,
                "step_p50": times[len(times) // 2],
                "step_p95": times[int(0.95 * len(times))],
            }
        )
    )


if __name__ == "__main__":
    main()
