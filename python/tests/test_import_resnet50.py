"""scripts/import_resnet50 on a state_dict with torchvision's names and shapes."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[2]
PREFIX = "model.camera_encoder.backbone."


def torchvision_state() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    state = {}
    for line in (ROOT / "tests/support/torchvision_resnet50.txt").read_text().splitlines():
        name, *shape = line.split()
        counts = name.endswith("num_batches_tracked")
        state[name] = torch.tensor(7) if counts else torch.randn([int(size) for size in shape], generator=generator)
    return state


def convert(weights: Path, out: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts/import_resnet50"), str(weights), str(out)]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_every_tensor_but_the_classifiers_arrives_bit_for_bit(tmp_path: Path) -> None:
    state = torchvision_state()
    assert len(state) == 320
    assert sum(t.numel() for name, t in state.items() if t.dim() > 0 and "running" not in name) == 25_557_032
    torch.save(state, tmp_path / "resnet50.pth")
    answer = convert(tmp_path / "resnet50.pth", tmp_path / "out.safetensors")
    assert answer.returncode == 0, answer.stderr
    data = (tmp_path / "out.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    assert set(header) == {PREFIX + name for name in state if not name.startswith("fc.")}
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        values = np.frombuffer(data[begin:end], {"F32": np.float32, "I64": np.int64}[entry["dtype"]])
        tensor = state[name[len(PREFIX) :]]
        assert entry["shape"] == list(tensor.shape)
        assert values.tobytes() == tensor.numpy().tobytes()


def test_another_network_is_refused_with_a_sentence(tmp_path: Path) -> None:
    state = torchvision_state()
    del state["layer3.5.bn2.running_var"]
    torch.save(state, tmp_path / "other.pth")
    answer = convert(tmp_path / "other.pth", tmp_path / "out.safetensors")
    assert answer.returncode != 0
    assert "must hold torchvision's ResNet-50" in answer.stderr
    assert not (tmp_path / "out.safetensors").exists()
