"""The small detector written in PyTorch's Python, beside ours: the same weights, the same batch, the same step.

    camber bench detector --data build/world --split val --dump peer.safetensors
    python bench/detector_peer.py peer.safetensors --repeats 30

First the outputs are compared, so that both are known to be the same model; then training steps are timed (forward,
Hungarian matching by scipy, losses, backward, clipping, AdamW), as one would write them with torch.nn. Prints JSON.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn

from detector_peer_model import CELL, CELLS, CLASSES, IMAGE, LAYERS, QUERIES, REACH, TASKS, WIDTH, Detector
from dump_file import read_dump

REFERENCE_HEIGHT = -1.0
CODE_WEIGHTS = (2.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.2, 0.2)
GROUPS, MARGIN = 3, 1.0


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
    batch = {name: tensors[f"batch.{name}"] for name in ("points", "point_offsets", "images")}
    projections = tensors["batch.lidar_to_image"].double()
    inverse = torch.linalg.inv(projections[..., :3, :3])
    rows, columns = torch.meshgrid(torch.arange(CELLS[0]), torch.arange(CELLS[1]), indexing="ij")
    pixel = torch.stack(
        [(columns + 0.5) * IMAGE[1] / CELLS[1], (rows + 0.5) * IMAGE[0] / CELLS[0], torch.ones_like(rows)], -1
    )
    rays = torch.einsum("bvij,nj->bvni", inverse, pixel.view(-1, 3).double())
    batch["projections"] = projections
    batch["rays"] = rays.flatten(1, 2).float()
    batch["centres"] = -(inverse @ projections[..., :3, 3:]).squeeze(-1).float()
    count = len(batch["images"])
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


def query_loss(
    logits: Tensor, codes: Tensor, owner: Tensor, batch: dict, truth: list[Tensor], divisor: float
) -> Tensor:
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
        seen = (p[..., 2] > 0.1) & (u >= 0) & (u < IMAGE[1]) & (v >= 0) & (v < IMAGE[0])
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
        noised = torch.where(
            (denoising["owner"] < 0)[..., None], torch.full_like(logits[:, :count], -50.0), logits[:, :count]
        )
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
    tensors = read_dump(arguments.file)
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
