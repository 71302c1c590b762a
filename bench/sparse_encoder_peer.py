"""The sparse encoder of CMT (21 convolutions, 16 to 128 channels) on `camber.sparse_convolution` and on spconv.

    make bench-peers                                    installs spconv into .venv-peers and runs this too
    python bench/sparse_encoder_peer.py --threads 1     with the packages that this Python has

Both get the same voxels, weights and normalisation; index building counts. Every peer is a process of its own that holds
its inputs and waits, and runs go in turns. The cloud is the real nuScenes key frame below CAMBER_DATA, alone and shifted
by 0.4 m ten times as if it were ten sweeps; where there is none, rings drawn on a plane and a wall take its place.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from peer_process import PeerProcess, parse_arguments, show

ROOT = Path(__file__).resolve().parents[1]
SHAPE = (41, 1024, 1024)  # (z, y, x)
LOWER, SIZE, CELLS = (-54.0, -54.0, -5.0), (0.1, 0.1, 0.2), (1080, 1080, 40)  # (x, y, z)
CHANNELS = (16, 32, 64, 128)
DOWN_PADDING = ((1, 1, 1), (1, 1, 1), (0, 1, 1))
MOST_POINTS = 10  # of a voxel


# --- the clouds ---


def key_frame_points() -> np.ndarray | None:
    """[N, 5] of the real key frame, or None."""
    data = ROOT / (os.environ.get("CAMBER_DATA") or "../shared/data")
    files = sorted((data / "nuscenes_keyframe" / "samples" / "LIDAR_TOP").glob("*.bin"))
    return np.fromfile(files[0], np.float32).reshape(-1, 5) if files else None


def drawn_points() -> np.ndarray:
    """32 rings of 1,080 points on a plane, cut off by a round wall 30 m away."""
    azimuth, elevation = np.meshgrid(np.linspace(0, 2 * np.pi, 1080), np.radians(np.linspace(-30, 4, 32)))
    down = np.minimum(elevation, -1e-3)
    reach = np.minimum(1.8 / -np.tan(down), 30.0)
    points = np.stack((reach * np.cos(azimuth), reach * np.sin(azimuth), reach * np.tan(elevation)), -1).reshape(-1, 3)
    return np.concatenate((points, np.ones((len(points), 2))), 1).astype(np.float32)


def voxels_of(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Features [N, 5], the means of at most ten points, and sites [N, 4], in the order of their first points."""
    cell = np.floor((points[:, :3] - np.array(LOWER, np.float32)) / np.array(SIZE, np.float32)).astype(np.int64)
    inside = ((cell >= 0) & (cell < CELLS) & (cell[:, ::-1] < SHAPE)).all(1)
    cell, points = cell[inside], points[inside]
    key = (cell[:, 2] * SHAPE[1] + cell[:, 1]) * SHAPE[2] + cell[:, 0]
    unique, first, voxel = np.unique(key, return_index=True, return_inverse=True)
    by_voxel = np.argsort(voxel, kind="stable")
    rank = np.empty(len(key), np.int64)
    rank[by_voxel] = np.arange(len(key)) - np.searchsorted(voxel[by_voxel], voxel[by_voxel])
    kept = rank < MOST_POINTS
    counts = np.bincount(voxel[kept], minlength=len(unique))
    means = np.stack([np.bincount(voxel[kept], points[kept, c], len(unique)) / counts for c in range(5)], 1)
    order = np.argsort(first)
    site = unique[order]
    columns = (np.zeros_like(site), site // (SHAPE[1] * SHAPE[2]), site // SHAPE[2] % SHAPE[1], site % SHAPE[2])
    return means[order].astype(np.float32), np.stack(columns, 1).astype(np.int32)


def clouds() -> dict[str, np.ndarray]:
    points = key_frame_points()
    if points is None:
        print("no key frame below CAMBER_DATA: rings drawn on a plane take its place", file=sys.stderr)
        return {"drawn rings": drawn_points()}
    shifts = [points + np.array([0.4 * i, 0, 0, 0, 0], np.float32) for i in range(10)]
    return {"key frame": points, "ten sweeps": np.concatenate(shifts)}


# --- the encoder: names and shapes of its convolutions, and the network on either package ---


def convolutions() -> Iterator[tuple[str, tuple[int, ...]]]:
    """(name, weight shape [out, z, y, x, in]) in the order of the network."""
    yield "input", (CHANNELS[0], 3, 3, 3, 5)
    for stage, width in enumerate(CHANNELS):
        for block in range(2):
            for half in range(2):
                yield f"{stage}.{block}.{half}", (width, 3, 3, 3, width)
        if stage < 3:
            yield f"{stage}.down", (CHANNELS[stage + 1], 3, 3, 3, width)
    yield "output", (CHANNELS[3], 3, 1, 1, CHANNELS[3])


class Encoder(nn.Module):
    """What both have in common: weights, normalisation and the order of the layers."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weights = nn.ParameterDict()
        self.norms = nn.ModuleDict()
        for name, shape in convolutions():
            scale = (6 / (shape[1] * shape[2] * shape[3] * shape[4])) ** 0.5
            self.weights[name.replace(".", "_")] = nn.Parameter(scale * torch.randn(shape))
            self.norms[name.replace(".", "_")] = nn.BatchNorm1d(shape[0], eps=1e-3)
        self.eval()

    def norm(self, name: str, x: Tensor) -> Tensor:
        result: Tensor = self.norms[name.replace(".", "_")](x)
        return result

    def weight(self, name: str) -> Tensor:
        return self.weights[name.replace(".", "_")]


class CamberEncoder(Encoder):
    multiplications = 0  # of the last pass

    def forward(self, features: Tensor, sites: Tensor) -> tuple[Tensor, Tensor]:
        import camber

        indices = camber.build_sparse_indices(sites, SHAPE, 1, 3, submanifold=True)
        self.multiplications = 0

        def layer(name: str, x: Tensor) -> Tensor:
            weight = self.weight(name)
            self.multiplications += len(indices.pair_input) * weight.shape[0] * weight.shape[4]
            return self.norm(name, camber.sparse_convolution(x, weight, indices))

        x = layer("input", features).relu()
        for stage in range(4):
            for block in range(2):
                inner = layer(f"{stage}.{block}.0", x).relu()
                x = (layer(f"{stage}.{block}.1", inner) + x).relu()
            if stage < 3:
                grid = indices.spatial_shape
                padding = DOWN_PADDING[stage]
                indices = camber.build_sparse_indices(indices.coordinates, grid, 1, 3, stride=2, padding=padding)
                x = layer(f"{stage}.down", x).relu()
                grid = indices.spatial_shape
                indices = camber.build_sparse_indices(indices.coordinates, grid, 1, 3, submanifold=True)
        indices = camber.build_sparse_indices(
            indices.coordinates, indices.spatial_shape, 1, (3, 1, 1), stride=(2, 1, 1)
        )
        return layer("output", x).relu(), indices.coordinates


class SpconvEncoder(Encoder):
    """As published each convolution of a block builds its own pairs; `shared` gives those of a stage one key."""

    def __init__(self, shared: bool) -> None:
        super().__init__()
        import spconv.pytorch as spconv

        # spconv asks for a CUDA stream that its CPU code never uses.
        for name, module in list(sys.modules.items()):
            if name.startswith("spconv") and hasattr(module, "get_current_stream"):
                module.get_current_stream = lambda: 0
        self.spconv, self.convolutions = spconv, nn.ModuleDict()
        for name, shape in convolutions():
            wide_out, kernel, wide_in = shape[0], shape[1:4], shape[4]
            if name.endswith("down"):
                module = spconv.SparseConv3d(wide_in, wide_out, 3, 2, DOWN_PADDING[int(name[0])], bias=False)
            elif name == "output":
                module = spconv.SparseConv3d(wide_in, wide_out, kernel, (2, 1, 1), 0, bias=False)
            else:
                key = f"stage{0 if name == 'input' else name[0]}" if shared or name == "input" else None
                module = spconv.SubMConv3d(wide_in, wide_out, 3, padding=1, bias=False, indice_key=key)
            module.weight = self.weight(name)
            self.convolutions[name.replace(".", "_")] = module

    def forward(self, features: Tensor, sites: Tensor) -> tuple[Tensor, Tensor]:
        x = self.spconv.SparseConvTensor(features, sites, list(SHAPE), 1)

        def layer(name: str, x: Any) -> Any:
            y = self.convolutions[name.replace(".", "_")](x)
            return y.replace_feature(self.norm(name, y.features))

        def relu(x: Any) -> Any:
            return x.replace_feature(x.features.relu())

        x = relu(layer("input", x))
        for stage in range(4):
            for block in range(2):
                y = layer(f"{stage}.{block}.1", relu(layer(f"{stage}.{block}.0", x)))
                x = relu(y.replace_feature(y.features + x.features))
            if stage < 3:
                x = relu(layer(f"{stage}.down", x))
        x = relu(layer("output", x))
        return x.features, x.indices


PEERS: dict[str, Callable[[], Encoder]] = {
    "camber": CamberEncoder,
    "camber/bfloat16": lambda: CamberEncoder().to(torch.bfloat16),
    "spconv/published": lambda: SpconvEncoder(shared=False),
    "spconv/shared": lambda: SpconvEncoder(shared=True),
}


# --- a peer's process ---


def serve(name: str, folder: Path, threads: int, processor: bool) -> None:
    """Answers each line (`PASS CLOUD`) on standard input with a time in ms; the first of each writes its results."""
    torch.set_num_threads(threads)
    encoder = PEERS[name]()
    dtype = encoder.weight("input").dtype
    clock = time.process_time if processor else time.perf_counter
    print("ready", flush=True)
    for line in sys.stdin:
        step, cloud = line.strip().split(" ", 1)
        voxels = np.load(folder / f"{cloud}.npz")
        features, sites = torch.from_numpy(voxels["features"]).to(dtype), torch.from_numpy(voxels["sites"])
        encoder.zero_grad()
        features.requires_grad_(step == "both")
        began = clock()
        with torch.set_grad_enabled(step == "both"):
            output, at = encoder(features, sites)
            if step == "both":
                output.sum().backward()
        milliseconds = 1e3 * (clock() - began) / (threads if processor else 1)
        file = folder / f"{name.replace('/', '_')}.{step}.{cloud}.npz"
        if not file.exists():
            wide = at.long()
            order = (((wide[:, 0] * 4096 + wide[:, 1]) * 4096 + wide[:, 2]) * 4096 + wide[:, 3]).argsort()
            gradients = [features.grad, encoder.weight("0.1.1").grad] if step == "both" else []
            np.savez(file, *(t.float().numpy() for t in (output.detach()[order], at[order], *gradients)))
        print(milliseconds, flush=True)


# --- the run ---


def gigaflops(features: np.ndarray, sites: np.ndarray) -> float:
    """Multiply-adds of one forward pass, counted as two, of the pairs that exist."""
    encoder = CamberEncoder()
    with torch.no_grad():
        encoder(torch.from_numpy(features), torch.from_numpy(sites))
    return 2e-9 * encoder.multiplications


def difference(folder: Path, name: str, step: str, cloud: str) -> float:
    """The largest |found - ours| / |ours| of a peer's results, by the norms of whole arrays."""
    ours = np.load(folder / f"camber.{step}.{cloud}.npz")
    found = np.load(folder / f"{name.replace('/', '_')}.{step}.{cloud}.npz")
    norm = np.linalg.norm
    return max(float(norm(found[array] - ours[array]) / norm(ours[array])) for array in ours.files)


def check_same(name: str, threads: int, error: float) -> None:
    """That a peer computes what ours does. With several threads spconv's results change from run to run: told, not held."""
    if name.startswith("spconv") and threads > 1:
        return
    if not error <= (5e-2 if name.endswith("bfloat16") else 1e-3):
        raise RuntimeError(f"[bench peers] {name} must compute the same, got a relative difference of {error}")


def measure(threads: int, repeats: int, clock: str) -> dict[str, Any]:
    from peers import measured_peak

    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        sizes = {}
        for cloud, points in clouds().items():
            features, sites = voxels_of(points)
            features = features / np.abs(features).max(0).clip(min=1e-6)
            np.savez(folder / f"{cloud}.npz", features=features, sites=sites)
            sizes[cloud] = (len(sites), gigaflops(features, sites))
        started = [PeerProcess(__file__, name, folder, threads, "--clock", clock) for name in PEERS]
        peers = [peer for peer in started if peer.available]
        peak = measured_peak(threads)
        for cloud, (voxels, gflop) in sizes.items():
            for step in ("forward", "both"):
                runners = [peer for peer in peers if step == "forward" or not peer.name.endswith("bfloat16")]
                best = {peer.name: float(peer.ask(f"{step} {cloud}")) for peer in runners}
                errors = {peer.name: difference(folder, peer.name, step, cloud) for peer in runners}
                for name, error in errors.items():
                    check_same(name, threads, error)
                for _ in range(repeats):
                    for peer in runners:
                        best[peer.name] = min(best[peer.name], float(peer.ask(f"{step} {cloud}")))
                peak = max(peak, measured_peak(threads))
                work = gflop * (1 if step == "forward" else 3)
                for name, milliseconds in best.items():
                    rows.append(
                        {
                            "name": name,
                            "cloud": cloud,
                            "pass": step,
                            "voxels": voxels,
                            "milliseconds": milliseconds,
                            "gflops": 1e3 * work / milliseconds,
                            "speedup": milliseconds / best["camber"],
                            "difference": errors[name],
                        }
                    )
        for peer in started:
            peer.end()
    for row in rows:
        row["share_of_peak"] = row["gflops"] / peak
    missing = [peer.name for peer in started if not peer.available]
    return {"threads": threads, "clock": clock, "repeats": repeats, "peak": peak, "rows": rows, "missing": missing}


def lines_of(row: dict[str, Any]) -> Iterator[str]:
    yield (
        f"{row['name']:<18} {row['cloud']:<12} {row['pass']:<8} {row['milliseconds']:8.1f} {row['gflops']:8.1f} "
        f"{100 * row['share_of_peak']:7.1f} {row['speedup']:6.2f} {row['difference']:9.1e}"
    )


def main() -> None:
    arguments = parse_arguments(__doc__, repeats=7)
    if arguments.serve:
        serve(arguments.serve, arguments.folder, arguments.threads, arguments.clock == "processor")
        return
    answer = measure(arguments.threads, arguments.repeats, arguments.clock)
    head = f"{'sparse encoder':<18} {'cloud':<12} {'pass':<8} {'ms':>8} {'GFLOP/s':>8} {'% peak':>7} {'x':>6} {'differs':>9}"
    show(answer, head, lines_of, arguments.out)


if __name__ == "__main__":
    main()
