"""Fine-tuning CMT at its published size with configs/cmt_r50_bias.toml, on a simulated world of the same sensors.

The weights are random (a function of names and a seed), so what is learned means nothing; what is shown is that the loss falls,
that frozen weights stay as they are, what a step takes, and that a resumed run is the unbroken one. 33 steps, some ten minutes on
two cores.
"""

from __future__ import annotations

import json
import pathlib
import shutil
import statistics

from proofs.cmt import RULES, measured, recipe
from proofs.programs import BUILD, CAMBER, DATA, camber, camber_json, need_world, read_json
from proofs.report import Proof, parts_of

STEPS, KEPT = 30, 27
MEMORY = 6.0  # GB
WORLD = BUILD / "world_cmt"


def world() -> pathlib.Path:
    """Four scenes to learn from and one to look at, five key frames each."""
    return need_world(
        WORLD, "--reference-size", "--scenes", 5, "--seed", 1, "--world.frames=5", "--val_share=0.2", "--test_share=0",
    )  # fmt: skip


def losses(run: pathlib.Path) -> list[float]:
    records = [json.loads(text) for text in (run / "metrics.jsonl").read_text().splitlines()]
    return [record["loss/total"] for record in records if "loss/total" in record]


def tensors(file: pathlib.Path) -> dict[str, bytes]:
    """The bytes of each tensor of a safetensors file: their types and shapes are those of one model."""
    content = file.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    return {
        name: content[8 + length + entry["data_offsets"][0] : 8 + length + entry["data_offsets"][1]]
        for name, entry in header.items()
        if name != "__metadata__"
    }


def frozen(proof: Proof, before: pathlib.Path, after: pathlib.Path) -> None:
    old, new = tensors(before), tensors(after)
    held = [name for name in old if "_encoder." in name]
    same = sum(old[name] == new[name] for name in held)
    proof.line(
        "tensors of the frozen encoders, statistics of their norms included, equal to the bit",
        f"{same} of {len(held)}", "all", same == len(held) > 0,
    )  # fmt: skip
    moved = sum(old[name] != new[name] for name in old if name not in held)
    proof.note("tensors of the head that moved", f"{moved} of {len(old) - len(held)}")


def untrained(proof: Proof, model: pathlib.Path, folder: pathlib.Path) -> None:
    """The imported model with a router that has learned nothing: the same bytes of every detection."""
    trained = folder / "trained.pth"
    camber("import", "cmt", trained, "--config", "configs/cmt_r50_bias.toml", "--out", folder / "biased.safetensors")
    for name, checkpoint in (("plain", model), ("biased", folder / "biased.safetensors")):
        camber(
            "predict", "--checkpoint", checkpoint, "--data", world(), "--version", "v1.0-simulated", "--split", "val",
            "--limit", 1, "--raw", folder / f"{name}.json",
        )  # fmt: skip
    plain, biased = (read_json(folder / f"{name}.json")["results"] for name in ("plain", "biased"))
    count = sum(len(rows) for rows in plain.values())
    proof.line(
        "detections with an untrained router and bias", "the same bits" if plain == biased else "others",
        f"the {count} of the imported model, to the bit", plain == biased and count > 0,
    )  # fmt: skip


def steps(proof: Proof) -> None:
    if not RULES.exists():
        proof.skip("fine-tuning at the published size", f"no rules of the weights in {DATA} (set CAMBER_DATA)")
        return
    folder = proof.folder
    model = recipe(proof, folder)
    untrained(proof, model, folder)
    run = folder / "run"
    seconds, memory = measured(
        CAMBER, "train", "--config", "configs/cmt_r50_bias.toml", "--from", model, "--out", run,
        f"--data.root={world()}", "--data.version=v1.0-simulated", f"--loop.steps={STEPS}", "--loop.accumulate=1",
        f"--loop.keep_every={KEPT}", "--loop.checkpoint_every=1000", "--log_every=1", "--evaluation.limit=1",
        "--evaluation.faults=[]", "--quiet",
    )  # fmt: skip
    found = losses(run)
    first, last = statistics.mean(found[:10]), statistics.mean(found[-10:])
    proof.note(f"{len(found)} steps of one frame, with the start and one evaluation", f"{seconds:.0f} s")
    proof.line("loss, mean of the first and of the last ten steps", f"{first:.1f}, {last:.1f}", "falls", last < first)
    proof.line("peak memory of the training", f"{memory:.2f} GB", f"at most {MEMORY:.0f} GB", memory <= MEMORY)
    frozen(proof, model, run / "model.safetensors")
    again = folder / "again"
    shutil.copytree(run, again)
    for name in ("last", "previous"):
        (again / f"checkpoints/{name}.safetensors").unlink(missing_ok=True)
    (again / "model.safetensors").unlink()
    answer = camber_json("train", "--resume", again)
    same = (run / "model.safetensors").read_bytes() == (again / "model.safetensors").read_bytes()
    proof.line(
        f"resumed at step {answer['first_step']}: bytes of the weights",
        "the same" if same else "others",
        "those of the unbroken run",
        same and answer["first_step"] == KEPT,
    )


PARTS = parts_of(steps)
