"""Finds the shared libraries, checks that they fit the torch that is running, and loads them."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from pathlib import Path

import torch

_NAME = "libcamber_ops.so"


def find_library(name: str = _NAME) -> Path:
    """A library in the folder of the one that CAMBER_LIBRARY names, else in the package, else in the source tree's build."""
    named = os.environ.get("CAMBER_LIBRARY")
    package = Path(__file__).resolve().parent
    folders = [Path(named).parent] if named else [package, package.parents[1] / "build" / "lib"]
    candidates = [folder / name for folder in folders]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise ImportError(
        f"[camber] {name} must be at {' or '.join(map(str, candidates))}, found none: run `make build`, then "
        "`pip install ./python`, or name libcamber_ops.so in CAMBER_LIBRARY"
    )


def find_configurations() -> Path:
    """The folder of the configurations: in the package, else in the source tree."""
    package = Path(__file__).resolve().parent
    return next(
        (folder for folder in (package / "configs", package.parents[1] / "configs") if folder.is_dir()), package
    )


def minor_version(version: str) -> str:
    """The part of a torch version that binaries depend on.

    >>> minor_version("2.13.0+cpu")
    '2.13'
    """
    return ".".join(version.split("+")[0].split(".")[:2])


def check_torch(built_with: str, running: str) -> None:
    """Raises ImportError, in a sentence, when the library was built with another minor version of torch.

    >>> check_torch("2.13.0", "2.13.1+cpu")
    >>> check_torch("2.13.0", "2.12.0")
    Traceback (most recent call last):
    ImportError: [camber] torch must be 2.13, the version that libcamber_ops.so was built with, got 2.12.0: \
install that torch, or build Camber anew with this one (Torch_DIR=... make build)
    """
    wanted = minor_version(built_with)
    if minor_version(running) != wanted:
        raise ImportError(
            f"[camber] torch must be {wanted}, the version that {_NAME} was built with, got {running}: install that "
            "torch, or build Camber anew with this one (Torch_DIR=... make build)"
        )


def load_library() -> dict[str, str]:
    """Registers the operators of torch.ops.camber; returns the library's description (version, torch)."""
    library = find_library()
    description_file = library.with_suffix(".json")
    if not description_file.is_file():
        raise ImportError(f"[camber] {description_file} must lie beside {_NAME}, found none: run `make build`")
    description: dict[str, str] = json.loads(description_file.read_text())
    check_torch(description["torch"], torch.__version__)
    torch.ops.load_library(str(library))
    return description


DESCRIPTION = load_library()


# The number of window entries depends on the contents of center and size.
@torch.library.register_fake("camber::build_windows")
def _build_windows_shape(
    center: torch.Tensor, size: torch.Tensor, map_shape: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    entries = torch.library.get_ctx().new_dynamic_size()
    index = center.new_empty(entries, dtype=torch.int32)
    rows = center.shape[0] * center.shape[1]
    return center.new_empty(rows + 1), index, torch.empty_like(index), torch.empty_like(index)


# The numbers of output sites and of pairs depend on the coordinates.
@torch.library.register_fake("camber::build_sparse_indices")
def _build_sparse_indices_shape(
    coordinates: torch.Tensor,
    spatial_shape: Sequence[int],
    batch: int,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    submanifold: bool,
) -> tuple[torch.Tensor, ...]:
    context, taps = torch.library.get_ctx(), math.prod(kernel)
    outputs, pairs = context.new_dynamic_size(), context.new_dynamic_size()

    def offsets(rows: int | torch.SymInt) -> torch.Tensor:
        return coordinates.new_empty((taps, (rows + 63) // 64 + 1), dtype=torch.int64)

    def index() -> torch.Tensor:
        return coordinates.new_empty(pairs, dtype=torch.int32)

    forward, back = (index(), index(), offsets(outputs)), (index(), index(), offsets(coordinates.shape[0]))
    dropped = coordinates.new_empty((), dtype=torch.int64)
    return coordinates.new_empty((outputs, 4), dtype=torch.int32), *forward, *back, dropped
