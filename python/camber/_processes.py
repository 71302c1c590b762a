"""Processes that torchrun (or any launcher that sets the same variables) started to work on one run."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def are_launched() -> bool:
    """Whether a launcher has given this process a rank.

    >>> are_launched()
    False
    """
    return {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys()


@contextmanager
def joined(library: ctypes.CDLL) -> Iterator[None]:
    """Brings the processes together with torch.distributed and tells the program their groups: Gloo for what lies in
    main memory, NCCL for what lies on a GPU."""
    import torch.distributed as dist

    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() and dist.is_nccl_available() else "gloo"
    dist.init_process_group(backend)
    # Sums of gradients go on beside the rest: two groups, so that neither waits for the order of the other.
    sums, values = dist.group.WORLD, dist.new_group()
    assert sums is not None
    if library.camber_join_processes(sums.group_name.encode(), values.group_name.encode()) != 0:
        raise RuntimeError("[camber] the processes could not be joined")
    yield
    # Only after a run that went well: with a process gone this would wait for it.
    dist.destroy_process_group()
