"""Checkpoints as torch itself writes and reads them, for scripts/prove detector.

torch_files.py wrap IN OUT      IN as a training leaves it: behind "module.", with its meta data and an optimiser
torch_files.py compare A B      both read without running anything, as JSON: tensors, how many are equal to the bit
"""

from __future__ import annotations

import collections
import json
import sys
from typing import Any

import torch


def state_of(path: str) -> Any:
    return torch.load(path, weights_only=True)["state_dict"]


def wrap(source: str, target: str) -> None:
    state: collections.OrderedDict[str, torch.Tensor] = collections.OrderedDict(
        ("module." + name, tensor) for name, tensor in state_of(source).items()
    )
    vars(state)["_metadata"] = collections.OrderedDict({"": {"version": 1}})
    optimizer = {
        "state": {0: {"step": 3, "exp_avg": torch.ones(4)}},
        "param_groups": [{"lr": 1e-4, "params": [0]}],
    }
    meta = {"epoch": 20, "CLASSES": ("car", "truck"), "time": "now", "fp16": {"scale": 512.0}}
    torch.save({"meta": meta, "state_dict": state, "optimizer": optimizer}, target)


def compare(first: str, second: str) -> None:
    a, b = state_of(first), state_of(second)
    equal = sum(name in b and torch.equal(tensor, b[name]) for name, tensor in a.items())
    versions = getattr(b, "_metadata", {})
    sparse = [name for name in versions if name.startswith("pts_middle_encoder.") and versions[name]["version"] == 2]
    print(json.dumps({"tensors": len(b), "expected": len(a), "equal": equal, "sparse": len(sparse)}))


if __name__ == "__main__":
    {"wrap": wrap, "compare": compare}[sys.argv[1]](*sys.argv[2:])
