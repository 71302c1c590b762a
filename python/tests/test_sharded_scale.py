"""Scales that FSDP2 shards: projection, momentum and counters, on two processes."""

import os

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing

import camber

WORLD = 2
OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=1.0, momentum=0.9),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=1.0),
}


def make_bias(sharing):
    options = {"shape": [1]} if sharing == "shared" else {}
    torch.manual_seed(0)
    grid = camber.BevGrid(-4, 4, -4, 4, cell=0.5)
    return camber.AttentionBias(grid, None, sharing=sharing, num_heads=3, scale={"init": 4.5, **options})


def train(bias, optimizer):
    """(projected, raw, share at the bound) after each of three steps whose gradients push two heads up, one down."""
    torch.manual_seed(1)
    push = torch.tensor([-1.0, 0.5, -2.0]).view(3, 1)
    history = []
    for _ in range(3):
        optimizer.zero_grad()
        value = bias(torch.rand(1, 2, 3), None, torch.full((1, 2, 1), 0.1)).windows.value
        (value * push).mean().mul(30).backward()
        optimizer.step()
        count = camber.project_scales(optimizer)
        history.append(
            (count, camber.bounded_scale.whole(bias.scale.raw).tolist(), bias.scale.share_at_bound().tolist())
        )
    return history


def work(rank, rendezvous, results):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=WORLD)
    mesh = init_device_mesh("cpu", (WORLD,))
    seen = {}
    for sharing in ("shared", "per_head"):
        for name, make in OPTIMIZERS.items():
            bias = fully_shard(make_bias(sharing), mesh=mesh)
            optimizer = make(bias.parameters())
            history = train(bias, optimizer)
            state = optimizer.state[bias.scale.raw]
            momentum = state["momentum_buffer" if name == "sgd" else "exp_avg"].full_tensor()
            with torch.no_grad():
                penalty = bias.penalty().full_tensor().item()
            seen[sharing, name] = (history, momentum.tolist(), penalty)
    torch.save(seen, f"{results}/{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()
    # Threads of torch.distributed sometimes abort a process that ends by the interpreter's own shutdown.
    os._exit(0)


@pytest.mark.skipif(not dist.is_available(), reason="this torch was built without torch.distributed")
def test_sharded_scales_are_projected_like_whole_ones(tmp_path):
    torch.multiprocessing.spawn(work, (str(tmp_path / "rendezvous"), str(tmp_path)), nprocs=WORLD)
    for rank in range(WORLD):
        seen = torch.load(tmp_path / f"{rank}.pt")
        for (sharing, name), (history, momentum, penalty) in seen.items():
            bias = make_bias(sharing)
            optimizer = OPTIMIZERS[name](bias.parameters())
            assert history == train(bias, optimizer), (rank, sharing, name)
            assert sum(count for count, _, _ in history) > 0
            state = optimizer.state[bias.scale.raw]
            assert momentum == state["momentum_buffer" if name == "sgd" else "exp_avg"].tolist()
            assert penalty == bias.penalty().item()
