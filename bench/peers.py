"""Camber's forward pass beside the attention of other Python packages, in one run.

    make bench-peers                       installs them into .venv-peers, runs this, writes bench/results/peers.json
    python bench/peers.py --repeats 3      with the packages that this Python has

Every peer is a process of its own that holds its inputs and waits: so no thread pool disturbs another, runs go in
turns, and the memory of the first run is that of a fresh process. A package that is not there is named and left out.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from peer_process import PeerProcess, parse_arguments, show, status_bytes

BATCH, HEADS, WIDTH, QUERIES, KEYS = 1, 8, 32, 900, 22384
CAMERAS, GRID, MAP = 6, (128, 128), (50, 20)  # (columns, rows)
GFLOP = 4e-9 * BATCH * HEADS * WIDTH * QUERIES * KEYS
ROOT = Path(__file__).resolve().parents[1]


# --- the problem ---


def make_problem(folder: Path) -> None:
    """Writes q, k, v [B, H, rows, D], the windows (centres, strength) and the dense bias [B, 1, Q, K]."""
    import torch

    import camber

    torch.manual_seed(0)
    for name, rows in (("q", QUERIES), ("k", KEYS), ("v", KEYS)):
        np.save(folder / f"{name}.npy", torch.randn(BATCH, HEADS, rows, WIDTH).numpy())
    bias = camber.AttentionBias()
    reach = torch.tensor([51.2, 51.2, 1.5])
    points = (torch.rand(BATCH, QUERIES, 3) * 2 - 1) * reach - torch.tensor([0, 0, 0.5])
    trust = torch.rand(BATCH, QUERIES, 2) * 2 - 1
    structured = bias(points, ring_of_cameras(), trust)
    cells = [bias.grid.cells_at(points.double()).unsqueeze(2)]
    cells.append(bias.camera.cells_at(camber.sensors.project(points.double(), ring_of_cameras().double())))
    np.save(folder / "center.npy", torch.cat(cells, 2).numpy())
    strength = torch.cat((trust[..., :1], trust[..., 1:].expand(-1, -1, CAMERAS)), -1) * 2.5
    np.save(folder / "strength.npy", strength.numpy())
    for name, part in zip(("row_offsets", "key_index", "value"), structured.windows):
        np.save(folder / f"{name}.npy", part.detach().numpy())
    np.save(folder / "bias.npy", structured.materialize().detach().contiguous().numpy())


def ring_of_cameras() -> Any:
    """lidar2img [B, 6, 4, 4] of cameras of 70 degrees on images of 800 x 320."""
    import torch

    focal = 400 / math.tan(math.radians(35))
    matrices = torch.zeros(CAMERAS, 4, 4)
    for i in range(CAMERAS):
        c, s = math.cos(i * math.pi / 3), math.sin(i * math.pi / 3)
        matrices[i, 0] = torch.tensor([focal * s + 400 * c, -focal * c + 400 * s, 0, 0])
        matrices[i, 1] = torch.tensor([160 * c, 160 * s, -focal, 0])
        matrices[i, 2] = torch.tensor([c, s, 0, 0])
        matrices[i, 3, 3] = 1
    return matrices.expand(BATCH, -1, -1, -1)


# --- the peers: each makes a function that computes the output [B, H, Q, D] ---

Load = Callable[[str], np.ndarray]


def torch_inputs(load: Load) -> Any:
    import torch

    torch.set_grad_enabled(False)
    return [torch.from_numpy(load(name)) for name in ("q", "k", "v")]


def warmed(run: Callable[[], Any]) -> Callable[[], Any]:
    """torch keeps nothing of a run, but the first one starts threads, loads code and may compile."""
    run()
    return run


def camber_windows(load: Load, threads: int) -> Callable[[], Any]:
    import torch

    import camber

    torch.set_num_threads(threads)
    q, k, v = torch_inputs(load)
    windows = camber.Windows(*(torch.from_numpy(load(name)) for name in ("row_offsets", "key_index", "value")))
    bias = camber.StructuredBias(windows=windows)
    return warmed(lambda: camber.biased_attention(q, k, v, bias).output)


def sdpa(load: Load, threads: int, dense: bool) -> Callable[[], Any]:
    import torch

    torch.set_num_threads(threads)
    q, k, v = torch_inputs(load)
    bias = torch.from_numpy(load("bias")) if dense else None
    return warmed(lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, bias))


def flex_attention(load: Load, threads: int) -> Callable[[], Any]:
    import torch
    from torch.nn.attention.flex_attention import create_block_mask
    from torch.nn.attention.flex_attention import flex_attention as attend

    torch.set_num_threads(threads)
    q, k, v = torch_inputs(load)
    center, strength = torch.from_numpy(load("center")), torch.from_numpy(load("strength"))
    shapes = [GRID] + [MAP] * CAMERAS
    of_key = torch.cat([torch.full((c * r,), m) for m, (c, r) in enumerate(shapes)])
    column = torch.cat([torch.arange(c).repeat(r) for c, r in shapes])
    row = torch.cat([torch.arange(r).repeat_interleave(c) for c, r in shapes])
    half = torch.tensor([2] + [7] * CAMERAS)

    def window(score, b, h, query, key):
        m = of_key[key]
        x, y = center[b, query, m, 0], center[b, query, m, 1]
        inside = (x >= 0) & ((column[key] - x).abs() <= half[m]) & ((row[key] - y).abs() <= half[m])
        return score + torch.where(inside, strength[b, query, m], 0.0)

    blocks = create_block_mask(lambda b, h, query, key: query >= 0, None, None, QUERIES, KEYS, device="cpu")
    compiled = torch.compile(attend, fullgraph=True)
    return warmed(lambda: compiled(q, k, v, score_mod=window, block_mask=blocks))


def onnx_runtime(load: Load, threads: int) -> Callable[[], Any]:
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper

    channels = HEADS * WIDTH
    shapes = {
        "query": [BATCH, QUERIES, channels],
        "key": [BATCH, KEYS, channels],
        "value": [BATCH, KEYS, channels],
        "bias": [BATCH, 1, QUERIES, KEYS],
    }
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    output = helper.make_tensor_value_info("output", TensorProto.FLOAT, shapes["query"])
    node = helper.make_node(
        "MultiHeadAttention",
        ["query", "key", "value", "", "", "bias"],
        ["output"],
        domain="com.microsoft",
        num_heads=HEADS,
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(
        helper.make_graph([node], "attention", inputs, [output]), opset_imports=opsets, ir_version=9
    )
    onnx.checker.check_model(model)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feed = {
        name: np.ascontiguousarray(load(name[0]).transpose(0, 2, 1, 3)).reshape(shapes[name])
        for name in ("query", "key", "value")
    }
    feed["bias"] = load("bias")
    return lambda: session.run(None, feed)[0].reshape(BATCH, QUERIES, HEADS, WIDTH).transpose(0, 2, 1, 3)


def openvino(load: Load, threads: int) -> Callable[[], Any]:
    import openvino as ov
    from openvino import opset13 as ops

    arrays = [load(name) for name in ("q", "k", "v", "bias")]
    parameters = [ops.parameter(array.shape, np.float32) for array in arrays]
    attention = ops.scaled_dot_product_attention(*parameters)
    settings = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "PERFORMANCE_HINT": "LATENCY"}
    request = ov.Core().compile_model(ov.Model([attention], parameters), "CPU", settings).create_infer_request()
    return lambda: request.infer(arrays, share_inputs=True, share_outputs=True)[0]


PEERS: dict[str, Callable[[Load, int], Callable[[], Any]]] = {
    "camber/windows": camber_windows,
    "sdpa/no_bias": lambda load, threads: sdpa(load, threads, dense=False),
    "sdpa/dense_bias": lambda load, threads: sdpa(load, threads, dense=True),
    "flex_attention/score_mod": flex_attention,
    "onnx_runtime/dense_bias": onnx_runtime,
    "openvino/dense_bias": openvino,
}


# --- a peer's process ---


def serve(name: str, folder: Path, threads: int) -> None:
    """Answers each line on standard input: `first` (memory of the first run, and the output), `run` (a time)."""
    # Inputs are copied into memory: pages of a mapped file would be counted when a run first reads them.
    run = PEERS[name](lambda array: np.load(folder / f"{array}.npy"), threads)
    print("ready", flush=True)
    for line in sys.stdin:
        if line.strip() == "first":
            Path("/proc/self/clear_refs").write_text("5")
            begin = status_bytes("VmRSS")
            output = np.asarray(run())
            extra = (status_bytes("VmHWM") - begin - output.nbytes) / 2**20
            np.save(folder / f"{name.replace('/', '_')}_output.npy", output)
            print(extra, flush=True)
        else:
            began = time.perf_counter()
            run()
            print(1e3 * (time.perf_counter() - began), flush=True)


class Peer(PeerProcess):
    """A way to compute the attention, in a process of its own."""

    best = math.inf

    def time_once(self) -> None:
        self.best = min(self.best, float(self.ask("run")))


# --- the run ---


def measured_peak(threads: int) -> float:
    """The processor's FMA peak in GFLOP/s, by the program's own meter."""
    program = ROOT / "build" / "camber"
    command = [str(program), "bench", "attention", "--only", "camber/local", "--queries", "1", "--keys", "5000"]
    command += ["--repeats", "1", "--no-memory", "--format", "json", "--threads", str(threads)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["peak"]["fma_gflops"]


def check_outputs(peers: list[Peer], folder: Path) -> None:
    def output(name: str) -> np.ndarray:
        return np.load(folder / f"{name.replace('/', '_')}_output.npy")

    expected = output("sdpa/dense_bias")
    for peer in peers:
        if peer.name == "sdpa/no_bias":
            continue
        error = float(np.abs(output(peer.name) - expected).max())
        if not error <= 1e-4 * float(np.abs(expected).max()):
            raise RuntimeError(f"[bench peers] {peer.name} must compute the same, got a difference of {error}")


def measure(threads: int, repeats: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        make_problem(folder)
        peers, missing = [], []
        for name in PEERS:
            peer = Peer(__file__, name, folder, threads)
            (peers if peer.available else missing).append(peer)
        memory = {peer.name: float(peer.ask("first")) for peer in peers}
        check_outputs(peers, folder)
        peak = measured_peak(threads)
        for _ in range(repeats):
            for peer in peers:
                peer.time_once()
        peak = max(peak, measured_peak(threads))
        for peer in peers + missing:
            peer.end()
    ours = next(peer.best for peer in peers if peer.name == "camber/windows")
    rows = [
        {
            "name": peer.name,
            "pass": "forward",
            "milliseconds": peer.best,
            "gflops": GFLOP / peer.best * 1e3,
            "share_of_peak": GFLOP / peer.best * 1e3 / peak,
            "extra_megabytes": memory[peer.name],
            "speedup": peer.best / ours,
            "compared_with": "camber/windows",
        }
        for peer in peers
    ]
    return {
        "threads": threads,
        "versions": versions(),
        "problem": {
            "batch": BATCH,
            "heads": HEADS,
            "width": WIDTH,
            "queries": QUERIES,
            "keys": KEYS,
            "repeats": repeats,
        },
        "peak": {"fma_gflops": peak},
        "rows": rows,
        "missing": [peer.name for peer in missing],
    }


def versions() -> dict[str, str]:
    from importlib import metadata

    found = {}
    for package in ("torch", "onnxruntime", "openvino"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def lines_of(row: dict[str, Any]) -> Iterator[str]:
    yield (
        f"{row['name']:<28} {row['milliseconds']:8.1f} {row['gflops']:8.1f} {100 * row['share_of_peak']:7.1f} "
        f"{row['extra_megabytes']:9.1f} {row['speedup']:6.2f}"
    )


def main() -> None:
    arguments = parse_arguments(__doc__, repeats=7, clocks=False)
    if arguments.serve:
        serve(arguments.serve, arguments.folder, arguments.threads)
        return
    answer = measure(arguments.threads, arguments.repeats)
    head = f"{'':<28} {'ms':>8} {'GFLOP/s':>8} {'% peak':>7} {'extra MB':>9} {'x':>6}"
    show(answer, head, lines_of, arguments.out)


if __name__ == "__main__":
    main()
