"""Several processes: one run as on one, repetition, kills, other numbers of ranks, two machines, speed.

Everything takes about half an hour on two cores.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import struct
import subprocess
import time
from typing import Any

from proofs.cmt_finetune import world as cmt_world
from proofs.programs import CAMBER, ROOT, ProgramFailed, camber, need_demo_world, python_with, read_json, run, words
from proofs.report import Proof, parts_of

TIMES = ("time", "seconds_a_step", "seconds_waiting_a_step")


def options(out: pathlib.Path, steps: int, *more: object) -> list[object]:
    short = ("--evaluation.limit=8", "--evaluation.faults=[]", "--log_every=1", "--quiet")
    return ["train", "--config", "configs/demo.toml", "--out", out, f"--loop.steps={steps}", *short, *more]


def torchrun(ranks: int, *launcher: object) -> list[object]:
    python = python_with("torch", "numpy")
    return [python, "-m", "torch.distributed.run", "--nproc-per-node", ranks, *(launcher or ("--standalone",))]


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "python"), "OMP_NUM_THREADS": "1", **more}


def start(*command: object, **more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        words(*command), cwd=ROOT, env=environment(**more), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def finish(*processes: subprocess.Popen[str]) -> None:
    for process in processes:
        _, errors = process.communicate()
        if process.returncode != 0:
            raise ProgramFailed(f"{process.args!r} failed: {errors}")


def on_ranks(ranks: int, *command: object) -> None:
    finish(start(*torchrun(ranks), "-m", "camber", *command))


def records(out: pathlib.Path) -> list[Any]:
    lines = [json.loads(text) for text in (out / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name not in TIMES} for line in lines]


def values_of(out: pathlib.Path, name: str) -> list[float]:
    lines = [json.loads(text) for text in (out / "metrics.jsonl").read_text().splitlines()]
    return [line[name] for line in lines if name in line]


def last(out: pathlib.Path) -> bytes:
    return (out / "checkpoints/last.safetensors").read_bytes()


def weights(out: pathlib.Path) -> dict[str, list[float]]:
    data = last(out)
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    letters = {"F64": "d", "F32": "f"}
    found = {}
    for name, entry in header.items():
        if name.startswith("model.") and entry["dtype"] in letters:
            begin, end = (8 + size + offset for offset in entry["data_offsets"])
            letter = letters[entry["dtype"]]
            found[name] = list(struct.unpack(f"<{(end - begin) // struct.calcsize(letter)}{letter}", data[begin:end]))
    return found


def difference(ours: dict[str, list[float]], theirs: dict[str, list[float]]) -> tuple[float, float]:
    """The largest difference in units of all weights' largest value, and in units of its own tensor's."""
    largest = max(abs(value) for values in theirs.values() for value in values)
    apart = {
        name: max((abs(one - other) for one, other in zip(ours[name], theirs[name], strict=True)), default=0.0)
        for name in theirs
    }
    own = {name: max((abs(value) for value in values), default=0.0) for name, values in theirs.items()}
    return max(apart.values()) / largest, max(apart[name] / own[name] for name in apart if own[name] > 0)


def farthest(ours: dict[str, list[float]], theirs: dict[str, list[float]]) -> str:
    """The tensor with the largest difference."""
    return max(
        theirs, key=lambda name: max((abs(a - b) for a, b in zip(ours[name], theirs[name], strict=True)), default=0.0)
    )


def rounding(proof: Proof) -> None:
    """What rounding alone does to one process: the same run on one and on two threads, which add up in another order."""
    need_demo_world()
    outs = [proof.folder / f"rounding_{threads}" for threads in (1, 2)]
    for threads, out in enumerate(outs, 1):
        run(CAMBER, *options(out, 50, "--threads", threads))
    of_all, of_own = difference(weights(outs[1]), weights(outs[0]))
    proof.note(
        "control: one process of two threads beside one of one, 50 steps in single precision",
        f"{of_all:.1e} of the largest weight, {of_own:.1e} of its own tensor's; "
        f"farthest: {farthest(weights(outs[1]), weights(outs[0]))}",
    )
    losses = [values_of(out, "loss/total") for out in outs]
    apart = [abs(ours / theirs - 1) for ours, theirs in zip(*losses, strict=True)]
    proof.note("control: the loss, largest relative difference in steps 1 to 10 and 41 to 50",
               f"{max(apart[:10]):.1e} and {max(apart[40:]):.1e}")  # fmt: skip


def equality(proof: Proof) -> None:
    need_demo_world()
    for precision, more in (("double", ["--double_precision=true"]), ("single", [])):
        one = proof.folder / f"one_{precision}"
        run(CAMBER, *options(one, 50, *more, "--threads", 1))
        for ranks in (2, 4):
            out = proof.folder / f"ranks{ranks}_{precision}"
            on_ranks(ranks, *options(out, 50, *more))
            of_all, of_own = difference(weights(out), weights(one))
            what = f"{ranks} ranks beside one process, 50 steps of the demo with AdamW in {precision} precision"
            value = f"{of_all:.1e} of the largest weight, {of_own:.1e} of its own tensor's"
            losses = [values_of(folder, "loss/total") for folder in (out, one)]
            apart = max(abs(ours / theirs - 1) for ours, theirs in zip(*losses, strict=True))
            value += f"; loss {apart:.1e}; farthest: {farthest(weights(out), weights(one))}"
            if precision == "double":
                proof.line(what, value, "within 1e-5", of_all <= 1e-5 and of_own <= 1e-5)
            else:
                proof.note(f"{what} (rounding, amplified)", value)
    first = [
        values_of(proof.folder / name, "gradient_norm")[0] for name in ("one_single", "ranks2_single", "ranks4_single")
    ]
    apart = max(abs(norm / first[0] - 1) for norm in first)
    proof.line(
        "in single precision the norm of the first gradient, 2 and 4 ranks beside one",
        f"{apart:.1e}",
        "1e-5",
        apart <= 1e-5,
    )


def repetition(proof: Proof) -> None:
    need_demo_world()
    for ranks in (2, 4):
        outs = [proof.folder / f"again{ranks}_{i}" for i in range(3)]
        for out in outs:
            on_ranks(ranks, *options(out, 20))
        same = all(last(out) == last(outs[0]) and records(out) == records(outs[0]) for out in outs)
        proof.line(
            f"{ranks} ranks, three times: bytes of the last checkpoint, records",
            "the same" if same else "other",
            "the same",
            same,
        )


def ranks_of(process: subprocess.Popen[str]) -> list[int]:
    answer = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True, check=False
    )
    return [int(number) for number in answer.stdout.split()]


def kills(proof: Proof) -> None:
    need_demo_world()
    unbroken, killed = proof.folder / "unbroken", proof.folder / "killed"
    more = ("--loop.checkpoint_every=2", "--loop.average.enabled=true", "--health.interval=5")
    on_ranks(2, *options(unbroken, 400, *more))
    dice = random.Random()
    done, rounds = 0, 0
    while done < 20:
        shutil.rmtree(killed, ignore_errors=True)
        process = start(
            *torchrun(2, "--standalone", "--max-restarts", 100), "-m", "camber", *options(killed, 400, *more)
        )
        rounds += 1
        while done < 20 and process.poll() is None:
            time.sleep(dice.uniform(4, 12))
            if len(ranks := ranks_of(process)) == 2:
                os.kill(dice.choice(ranks), signal.SIGKILL)
                done += 1
        finish(process)
        same = last(unbroken) == last(killed) and records(unbroken) == records(killed)
        proof.line(
            f"kill -9 of a random rank of two, restarted by torchrun, {done} times in {rounds} runs: last checkpoint and records",
            "the same" if same else "other",
            "those of an unbroken run",
            same,
        )


def numbers(proof: Proof) -> None:
    need_demo_world()
    whole, changed = proof.folder / "whole", proof.folder / "changed"
    more = ("--double_precision=true", "--loop.checkpoint_every=10")
    run(CAMBER, *options(whole, 60, *more, "--threads", 1))
    for ranks, step in ((2, 20), (1, 40), (4, 60)):
        process = start(*torchrun(ranks), "-m", "camber", *options(changed, 60, *more, "--continue"))
        while process.poll() is None and step < 60:
            time.sleep(0.02)
            metrics = changed / "metrics.jsonl"
            if metrics.exists() and metrics.read_text().count("\n") >= step:
                for rank in ranks_of(process):
                    os.kill(rank, signal.SIGTERM)
                process.communicate()
        if step == 60:
            finish(process)
    losses = [values_of(out, "loss/total") for out in (changed, whole)]
    apart = max(abs(ours / theirs - 1) for ours, theirs in zip(*losses, strict=True))
    proof.line(
        "2, then 1, then 4 ranks: the loss of each of 60 steps beside one process",
        f"{apart:.1e}",
        "1e-6",
        apart <= 1e-6,
    )


def hosts(proof: Proof) -> None:
    need_demo_world()
    one, two = proof.folder / "one_host", proof.folder / "two_hosts"
    on_ranks(2, *options(one, 10))
    spaces = ("camber_a", "camber_b")
    script = [
        f"ip netns add {spaces[0]} && ip netns add {spaces[1]}",
        f"ip link add va netns {spaces[0]} type veth peer name vb netns {spaces[1]}",
        *(f"ip -n {space} link set lo up && ip -n {space} addr add 10.77.0.{i + 1}/24 dev {link} && ip -n {space} link set {link} up"
          for i, (space, link) in enumerate(zip(spaces, ("va", "vb"), strict=True))),
    ]  # fmt: skip
    made = subprocess.run(["sh", "-ec", " && ".join(script)], check=False, capture_output=True, text=True)
    inside = made.returncode == 0
    address = "10.77.0.1" if inside else "127.0.0.1"
    try:
        launchers = []
        for i, space in enumerate(spaces):
            prefix = ["ip", "netns", "exec", space] if inside else []
            link = {"GLOO_SOCKET_IFNAME": "va" if i == 0 else "vb"} if inside else {}
            launch = torchrun(1, "--nnodes", 2, "--node-rank", i, "--master-addr", address, "--master-port", 29577)
            launchers.append(start(*prefix, *launch, "-m", "camber", *options(two, 10), **link))
        finish(*launchers)
    finally:
        for space in spaces:
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)
    what = (
        "two network namespaces" if inside else f"two launchers on loopback (no namespaces here: {made.stderr.strip()})"
    )
    same = last(one) == last(two)
    proof.line(
        f"a rank on each of {what}: bytes of the last checkpoint",
        "the same" if same else "other",
        "those of one machine",
        same,
    )


def speed(proof: Proof) -> None:
    need_demo_world()
    one, two = proof.folder / "threads", proof.folder / "ranks"
    camber(*options(one, 150, "--threads", 2))
    on_ranks(2, *options(two, 150))
    steps = [statistics.median(values_of(out, "seconds_a_step")[20:]) for out in (one, two)]
    ratio = steps[0] / steps[1]
    proof.line(
        "two ranks of one thread beside one process of two threads, median step of the demo",
        f"{1e3 * steps[1]:.1f} ms beside {1e3 * steps[0]:.1f} ms, {ratio:.2f} times faster",
        "at least 1.3",
        ratio >= 1.3,
    )
    waiting = statistics.median(values_of(two, "seconds_waiting_a_step")[20:]) / steps[1]
    proof.note("the same: share of a step that rank 0 waits for the other and for sums", f"{100 * waiting:.0f} %")
    result = [read_json(out / "result.json")["clean"]["mean_ap"] for out in (one, two)]
    proof.note("mAP of both on 8 frames after 150 steps", " and ".join(f"{value:.4f}" for value in result))


# Times torch.distributed's own sums: as many numbers as a step of CMT sums, and one number.
SUMS = """
import sys, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
for count, repeats in ((int(sys.argv[1]), 7), (1, 300)):
    values, times = torch.ones(count), []
    for _ in range(repeats):
        dist.barrier()
        began = time.perf_counter()
        dist.all_reduce(values)
        times.append(time.perf_counter() - began)
    if dist.get_rank() == 0:
        print(sorted(times)[len(times) // 2])
dist.destroy_process_group()
"""


def time_of_sums(proof: Proof, ranks: int, count: int) -> tuple[float, float]:
    """Seconds to sum this many floats, and one float, over ranks of this machine."""
    script = proof.folder / "sums.py"
    script.write_text(SUMS)
    command = words(*torchrun(ranks), script, count)
    answer = subprocess.run(command, env=environment(), check=True, capture_output=True, text=True)
    large, small = map(float, answer.stdout.split())
    return large, small


def estimate(proof: Proof) -> None:
    """What more ranks would give for CMT, on paper: one frame a rank, the sums after the backward pass, nothing hidden.

    A ring moves 2 (N - 1) / N of the gradient's bytes through each machine's link and takes 2 (N - 1) messages in turn.
    """
    run_folder = proof.folder / "cmt"
    run(
        CAMBER, "train", "--config", "configs/cmt_r50_bias.toml", "--out", run_folder, f"--data.root={cmt_world()}",
        "--data.version=v1.0-simulated", "--loop.steps=4", "--loop.accumulate=1", "--log_every=1",
        "--evaluation.limit=1", "--evaluation.faults=[]", "--threads", 1, "--quiet",
    )  # fmt: skip
    step = statistics.median(values_of(run_folder, "seconds_a_step")[1:])
    count = sum(len(values) for name, values in weights(run_folder).items() if "_encoder." not in name)
    proof.note("one step of configs/cmt_r50_bias.toml on one thread, one frame", f"{step:.2f} s")
    proof.note("its gradient (the encoders are frozen)", f"{4e-6 * count:.1f} MB")
    for ranks in (2, 4):
        large, small = time_of_sums(proof, ranks, count)
        proof.note(
            f"summed by Gloo over {ranks} ranks of this machine; one number",
            f"{1e3 * large:.0f} ms; {1e3 * small:.2f} ms",
        )
    for network, bandwidth, latency in (
        ("10 Gb/s, 50 us a message", 1.25e9, 50e-6),
        ("100 Gb/s, 10 us", 12.5e9, 10e-6),
    ):
        shares = []
        for ranks in (8, 64, 512):
            sums = 2 * (ranks - 1) / ranks * 4 * count / bandwidth + 2 * (ranks - 1) * latency
            shares.append(f"{ranks} ranks {ranks * step / (step + sums):.1f} times ({1e3 * sums:.0f} ms of sums)")
        proof.note(f"on paper, a rank a machine, {network}: frames a second beside one rank", ", ".join(shares))


PARTS = parts_of(equality, rounding, repetition, kills, numbers, hosts, speed, estimate)
