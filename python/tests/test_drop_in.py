"""A CMT-like decoder on torch's attention, and the same a few lines later with the bias: in every way that models are run."""

import difflib
import os
import socket
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.utils.checkpoint import checkpoint

import camber

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
if not EXAMPLES.is_dir():
    pytest.skip("the examples lie in the source tree", allow_module_level=True)
sys.path.insert(0, str(EXAMPLES))
import cmt_decoder
import cmt_decoder_with_bias

BATCH, QUERIES, WIDTH, KEYS = 2, 12, 64, 256


def inputs(dtype=torch.float32):
    generator = torch.Generator().manual_seed(3)
    reference = torch.rand(BATCH, QUERIES, 3, generator=generator, dtype=dtype)
    memory, position = (torch.randn(KEYS, BATCH, WIDTH, generator=generator, dtype=dtype) for _ in range(2))
    trust = torch.rand(BATCH, QUERIES, 1, generator=generator, dtype=dtype)
    return reference, memory, position, trust


def model(seed=0):
    torch.manual_seed(seed)
    return cmt_decoder_with_bias.Decoder()


def loss_of(outputs):
    return sum(output.square().mean() for output in outputs)


def gradients(decoder, values):
    decoder.zero_grad()
    loss_of(decoder(*values)).backward()
    return {name: p.grad.clone() for name, p in decoder.named_parameters()}


def test_at_most_ten_lines_change():
    before, after = ((EXAMPLES / f"{name}.py").read_text().split('"""', 2)[2].splitlines()
                     for name in ("cmt_decoder", "cmt_decoder_with_bias"))  # fmt: skip
    changed = [line for line in difflib.ndiff(before, after) if line.startswith("+ ") and line.strip() != "+"]
    assert 0 < len(changed) <= 10, changed


def test_without_trust_it_is_the_same_model_and_with_trust_another():
    theirs, ours = cmt_decoder.Decoder(), model()
    missing = ours.load_state_dict(theirs.state_dict(), strict=False)
    assert not missing.unexpected_keys and all(name.startswith("attention_bias.") for name in missing.missing_keys)
    *plain, trust = inputs()
    for got, wanted in zip(ours(*plain), theirs(*plain), strict=True):
        torch.testing.assert_close(got, wanted, atol=1e-5, rtol=0)
    ours_grad, theirs_grad = gradients_without_trust(ours, plain), gradients_without_trust(theirs, plain)
    for name, wanted in theirs_grad.items():
        assert (ours_grad[name] - wanted).abs().max() <= 1e-5 * wanted.abs().max(), name
    assert (ours(*plain, trust)[0] - theirs(*plain)[0]).abs().max() > 1e-3


def gradients_without_trust(decoder, values):
    loss_of(decoder(*values)).backward()
    return {name: p.grad for name, p in decoder.named_parameters() if p.grad is not None}


def test_checkpointed_layers():
    decoder, values = model(), inputs()
    wanted = gradients(decoder, values)
    for layer in decoder.layers:
        plain = layer.forward
        layer.forward = lambda *given, plain=plain: checkpoint(plain, *given, use_reentrant=False)
    for name, got in gradients(decoder, values).items():
        torch.testing.assert_close(got, wanted[name], msg=name)


def test_compiled_whole():
    decoder, values = model(), inputs()
    wanted = gradients(decoder, values)
    compiled = torch.compile(decoder, fullgraph=True, backend="aot_eager")
    decoder.zero_grad()
    loss_of(compiled(*values)).backward()
    for name, parameter in decoder.named_parameters():
        torch.testing.assert_close(parameter.grad, wanted[name], msg=name)


def test_exported_and_loaded_again(tmp_path):
    decoder, values = model().eval(), inputs()
    exported = torch.export.export(decoder, values)
    torch.export.save(exported, tmp_path / "decoder.pt2")
    loaded = torch.export.load(tmp_path / "decoder.pt2").module()
    for got, wanted in zip(loaded(*values), decoder(*values), strict=True):
        torch.testing.assert_close(got, wanted)


class Attends(torch.nn.Module):
    """Takes the bias itself as an argument."""

    def forward(self, q, k, v, bias):
        return camber.biased_attention(q, k, v, bias).output


def test_a_bias_is_an_argument_of_an_exported_program(tmp_path):
    q, k, v = (torch.randn(1, 2, n, 8) for n in (3, 6, 6))
    dense = torch.zeros(1, 3, 6)
    dense[0, 0, 2], dense[0, 2, 5] = 2.0, -1.0
    bias = camber.StructuredBias.from_dense(dense)
    torch.export.save(torch.export.export(Attends(), (q, k, v, bias)), tmp_path / "attends.pt2")
    other = camber.StructuredBias.from_dense(dense * 3)
    loaded = torch.export.load(tmp_path / "attends.pt2").module()
    torch.testing.assert_close(loaded(q, k, v, other), camber.biased_attention(q, k, v, other).output)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def train_sharded(rank, port, folder):
    """Three steps by DDP and by FSDP2, each rank on its half of the batch."""
    from torch.distributed.fsdp import fully_shard

    os.environ["OMP_NUM_THREADS"] = "1"
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    reference, memory, position, trust = inputs()
    own = (reference[rank : rank + 1], memory[:, rank : rank + 1], position[:, rank : rank + 1], trust[rank : rank + 1])
    for kind in ("ddp", "fsdp"):
        decoder = model()
        # A scale without dimensions cannot be sharded.
        decoder.attention_bias = camber.AttentionBias(
            camber.BevGrid(-8, 8, -8, 8, cell=1), None, bev_window=3, scale={"shape": [1]}
        )
        if kind == "ddp":
            parallel = torch.nn.parallel.DistributedDataParallel(decoder)
        else:
            mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (2,))
            for layer in decoder.layers:
                fully_shard(layer, mesh=mesh)
            parallel = fully_shard(decoder, mesh=mesh)
        optimizer = torch.optim.SGD(parallel.parameters(), lr=0.05)
        camber.project_after_step(optimizer)
        for _ in range(3):
            optimizer.zero_grad()
            loss_of(parallel(*own)).backward()
            optimizer.step()
        state = {
            name.removeprefix("module."): getattr(p, "full_tensor", lambda p=p: p)().detach()
            for name, p in parallel.named_parameters()
        }
        if rank == 0:
            torch.save(state, f"{folder}/{kind}.pt")
    dist.barrier()
    dist.destroy_process_group()
    # Threads of torch.distributed sometimes abort a process that ends by the interpreter's own shutdown.
    os._exit(0)


def test_trains_by_ddp_and_fsdp2_as_one_process_does(tmp_path):
    torch.multiprocessing.spawn(train_sharded, args=(free_port(), str(tmp_path)), nprocs=2)
    decoder, values = model(), inputs()
    decoder.attention_bias = camber.AttentionBias(
        camber.BevGrid(-8, 8, -8, 8, cell=1), None, bev_window=3, scale={"shape": [1]}
    )
    optimizer = torch.optim.SGD(decoder.parameters(), lr=0.05)
    for _ in range(3):
        optimizer.zero_grad()
        loss_of(decoder(*values)).backward()
        optimizer.step()
        camber.project_scales(decoder)
    for kind in ("ddp", "fsdp"):
        trained = torch.load(tmp_path / f"{kind}.pt")
        for name, parameter in decoder.named_parameters():
            torch.testing.assert_close(trained[name], parameter.detach(), atol=1e-5, rtol=1e-4, msg=f"{kind} {name}")
