"""Reads what `camber bench detector --dump` writes: safetensors, without a package for them."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

TYPES = {"F32": np.float32, "F64": np.float64, "I64": np.int64}


def read_dump(path: Path, *prefixes: str) -> dict[str, Tensor]:
    """The tensors whose names begin so; all without any."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name == "__metadata__" or not name.startswith(prefixes or ("",)):
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        array = np.frombuffer(data[begin:end], TYPES[entry["dtype"]]).reshape(entry["shape"]).copy()
        tensors[name] = torch.from_numpy(array)
    return tensors
