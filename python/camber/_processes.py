"""Processes that torchrun (or any launcher that sets the same variables) started to work on one run."""

from __future__ import annotations

import ctypes
import json
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch.distributed import Store


def are_launched() -> bool:
    """Whether a launcher has given this process a rank.

    >>> are_launched()
    False
    """
    return {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys()


def unused_store(store: Store, rank: int, world_size: int) -> Store:
    """A part of the store that no earlier attempt has written to, the same part on every rank.

    torchrun keeps one store for all its attempts and gives them the same keys: after a restart a rank that is early would
    read the address of a process that is dead. The number of restarts cannot tell attempts apart, since machines count
    their own. So every rank writes a number that is new; rank 0 names a part together with the numbers that it has read;
    the others agree once their own number is among them. A number that changes meanwhile leads to another name.
    """
    import torch.distributed as dist

    own = uuid.uuid4().hex
    store.set(f"camber/number/{rank}", own)

    def numbers() -> list[str]:
        return [store.get(f"camber/number/{other}").decode() for other in range(world_size)]

    name = ""
    read: list[str] = []
    while True:
        if rank == 0:
            if read != (now := numbers()):
                name, read = uuid.uuid4().hex, now
                store.set("camber/proposal", json.dumps([name, *read]))
            others = [f"camber/{name}/{other}" for other in range(1, world_size)]
            if not others or store.check(others):
                store.set(f"camber/{name}/agreed", "")
                break
        else:
            name, *read = json.loads(store.get("camber/proposal"))
            if read[rank : rank + 1] == [own]:
                store.set(f"camber/{name}/{rank}", "")
                if store.check([f"camber/{name}/agreed"]):
                    break
        time.sleep(0.01)
    return dist.PrefixStore(name, store)


@contextmanager
def joined(library: ctypes.CDLL) -> Iterator[None]:
    """Brings the processes together with torch.distributed and tells the program their groups: Gloo for what lies in
    main memory, NCCL for what lies on a GPU."""
    import torch.distributed as dist

    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() and dist.is_nccl_available() else "gloo"
    store, rank, world_size = next(dist.rendezvous("env://"))
    dist.init_process_group(backend, store=unused_store(store, rank, world_size), rank=rank, world_size=world_size)
    # Sums of gradients go on beside the rest: two groups, so that neither waits for the order of the other.
    sums, values = dist.group.WORLD, dist.new_group()
    assert sums is not None
    if library.camber_join_processes(sums.group_name.encode(), values.group_name.encode()) != 0:
        raise RuntimeError("[camber] the processes could not be joined")
    yield
    # Only after a run that went well: with a process gone this would wait for it.
    dist.destroy_process_group()
