"""One run on several processes: the weights of one process, the same bits again, whoever is killed."""

import json
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from camber import _library, _processes
from camber._program import run_program

pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="torch has no torch.distributed")

LIBRARY = _library.find_library()
PATIENCE = float(os.environ.get("CAMBER_PATIENCE", "1"))  # under a sanitizer everything takes longer
PACKAGE = Path(_library.__file__).resolve().parents[1]
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(PACKAGE),
    "CAMBER_LIBRARY": str(LIBRARY),
    "OMP_NUM_THREADS": "1",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
}
# Half of the frames are without a LiDAR, so that often one rank has none; rounding is far below what is compared.
OPTIONS = [
    "--double_precision=true", "--data.batch_size=3", "--data.faults.share=0.5", '--data.faults.kinds=["lidar_off"]',
    "--data.faults.weights=[1]", "--detector.router.mode=learned", "--loop.steps=6", "--loop.checkpoint_every=1",
    "--log_every=1", "--evaluation.limit=3", "--evaluation.batch_size=2", "--quiet",
]  # fmt: skip


def torchrun(run, world, *options, ranks=2):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--max-restarts=3",
               f"--nproc-per-node={ranks}", "-m", "camber", "train", "--out", run, f"--data.root={world}",
               *OPTIONS, *options]  # fmt: skip
    return subprocess.Popen(
        list(map(str, command)), env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def ended(process):
    output, errors = process.communicate(timeout=240 * PATIENCE)
    assert process.returncode == 0, errors
    return output


def ranks_of(process):
    lists = Path(f"/proc/{process.pid}/task").glob("*/children")
    return [int(number) for children in lists for number in children.read_text().split()]


def tensors(path):
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    types = {"F64": np.float64, "F32": np.float32}
    return {
        name: np.frombuffer(data, types[entry["dtype"]], offset=8 + size + entry["data_offsets"][0],
                            count=(entry["data_offsets"][1] - entry["data_offsets"][0])
                            // np.dtype(types[entry["dtype"]]).itemsize)
        for name, entry in header.items()
        if name.startswith("model.") and entry["dtype"] in types
    }  # fmt: skip


def records(run):
    times = ("time", "seconds_a_step", "seconds_waiting_a_step")
    lines = (json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines())
    return [{name: value for name, value in line.items() if name not in times} for line in lines]


def test_two_ranks_and_a_killed_one_train_as_one_process_does(tmp_path, capfd):
    world, one, two, killed = (tmp_path / name for name in ("world", "one", "two", "killed"))
    simulate = ["simulate", "--out", str(world), "--scenes", "5", "--world.frames=2", "--seed", "7"]
    assert run_program([*simulate, "--quiet"]) == 0
    assert run_program(["train", "--out", str(one), f"--data.root={world}", *OPTIONS]) == 0
    unbroken, broken = torchrun(two, world), torchrun(killed, world)
    deadline = time.monotonic() + 120 * PATIENCE
    while not (killed / "checkpoints/previous.safetensors").exists():
        assert time.monotonic() < deadline and broken.poll() is None
        time.sleep(0.01)
    os.kill(ranks_of(broken)[1], signal.SIGKILL)
    output = ended(unbroken)
    assert output.count("finished at step 6") == 1  # rank 0 alone speaks
    ended(broken)
    capfd.readouterr()

    last = Path("checkpoints/last.safetensors")
    assert (two / last).read_bytes() == (killed / last).read_bytes()
    assert records(two) == records(killed)
    alone, shared = tensors(one / last), tensors(two / last)
    assert alone.keys() == shared.keys()
    assert max(np.abs(alone[name] - shared[name]).max() for name in alone) < 1e-9
    for ours, theirs in zip(records(two), records(one), strict=True):
        assert ours.keys() == theirs.keys()
        assert ours["loss/total"] == pytest.approx(theirs["loss/total"], rel=1e-9)
    mean_aps = [json.loads((run / "result.json").read_text())["clean"]["mean_ap"] for run in (one, two)]
    assert mean_aps[0] == pytest.approx(mean_aps[1], abs=1e-6)

    # A run goes on with any number of ranks, and a command that has nothing left to do says so.
    assert "is finished already" in ended(torchrun(two, world, "--continue", ranks=1))


@pytest.mark.parametrize("late", [0, 1, 2])
def test_attempts_on_one_store_do_not_read_each_other(late):
    store, parts = torch.distributed.HashStore(), {}

    def join(rank):
        time.sleep(0.1 * (rank == late))
        parts[rank] = _processes.unused_store(store, rank, 3)
        parts[rank].set(f"address/{rank}", f"{attempt}")

    for attempt in range(3):
        ranks = [threading.Thread(target=join, args=(rank,)) for rank in range(3)]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join(timeout=20 * PATIENCE)
            assert not rank.is_alive()
        read = {parts[reader].get(f"address/{rank}") for reader in range(3) for rank in range(3)}
        assert read == {f"{attempt}".encode()}


def test_processes_that_nobody_joined_are_refused(tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert run_program(["train", "--out", str(tmp_path / "run"), "--data.root=nowhere"]) == 2
    assert "WORLD_SIZE must be 1 here, got 2" in capfd.readouterr().err
