"""Few-shot learning. Real data are found by CAMBER_DATA; without them their lines are skipped and say so."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from proofs.programs import CAMBER, DATA, camber, camber_json, python_with, run, run_json, run_tests
from proofs.report import Proof, parts_of


def skip_without_data(proof: Proof, what: str) -> bool:
    if DATA.exists():
        return False
    proof.skip(what, f"no data in {DATA} (set CAMBER_DATA)")
    return True


def fewshot(*arguments: object) -> Any:
    return camber_json("fewshot", *arguments)


def accuracy(result: Any, name: str) -> tuple[float, float]:
    setting = next(setting for setting in result["settings"] if setting["name"] == name)
    return 100 * setting["accuracy"], 100 * setting["interval"]


def promises(proof: Proof) -> None:
    run_tests(
        proof,
        "SAP against its float64 definition, gradients, host model, readers, runs",
        "^(fewshot|episodes|data|apps.FewshotProgram)$",
    )
    answer = run(CAMBER, "verify", "--format", "json", check=False)
    for check in json.loads(answer.stdout)["checks"]:
        if check["section"] == "few-shot":
            proof.line(check["promise"], check["measured"], "holds", check["passed"])


def glyphs(proof: Proof) -> None:
    began = time.time()
    result = fewshot("--config", "configs/fewshot_glyphs.toml", "--threads", 2)
    seconds = time.time() - began
    proof.line("the glyph default from start to report", f"{seconds:.1f} s", "under 60 s", seconds < 60)
    mean, half = accuracy(result, "5-way 5-shot")
    proof.line(
        "glyphs, 5-way 5-shot across styles on new classes",
        f"{mean:.1f} +- {half:.1f} %",
        "above chance (20 %) by 30",
        mean > 50,
    )
    proof.line(
        "glyphs report the scale and the leaks",
        f"{len(result['scale'])} scale, {len(result['leak'])} features",
        "1 and 3",
        len(result["scale"]) == 1 and len(result["leak"]) == 3,
    )


def refusals(proof: Proof) -> None:
    folder = proof.folder
    (folder / "corrupt" / "a").mkdir(parents=True)
    (folder / "corrupt" / "a" / "1.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing")
    (folder / "empty" / "a").mkdir(parents=True)
    folders = "--source.kind=image_folders"
    omniglot_file, pacs_file = "configs/fewshot_omniglot.toml", "configs/fewshot_pacs.toml"
    cases = [
        ("a corrupt image", [folders, f"--source.path={folder / 'corrupt'}"], "damaged PNG"),
        ("an empty folder", [folders, f"--source.path={folder / 'empty'}"], "empty folder"),
        (
            "classes in training and test",
            ["--config", omniglot_file, "--source.drop_shared_classes=false"],
            "no class in common",
        ),
        ("a class too small", ["--episode.k_shot=40", "--episode.queries=40"], "examples"),
        ("an unknown target domain", ["--config", pacs_file, "--source.target_domain=moon"], "got 'moon'"),
    ]
    for what, arguments, wanted in cases:
        line = f"{what} gets a sentence"
        if "--config" in arguments and skip_without_data(proof, line):
            continue
        answer = camber("fewshot", *arguments, check=False)
        sentence = answer.stderr.strip()
        proof.line(
            line,
            sentence[-110:],
            f"exit 1 or 2, one line with '{wanted}'",
            answer.returncode in (1, 2) and wanted in sentence and len(sentence.splitlines()) == 1,
        )


def omniglot(proof: Proof) -> None:
    if skip_without_data(proof, "omniglot"):
        return
    result = fewshot("--config", "configs/fewshot_omniglot.toml", "--threads", 2, "--seed", 1)
    for name, target in (("5-way 1-shot", 91), ("5-way 5-shot", 97), ("official runs", 79)):
        mean, half = accuracy(result, name)
        extra = ", 400 trials" if name == "official runs" else f" on {result['test_classes']} new classes"
        proof.line(f"Omniglot {name}{extra}", f"{mean:.2f} +- {half:.2f} %", f"at least {target} %", mean >= target)
    seconds = result["seconds"]
    proof.line(
        "Omniglot training on two cores",
        f"{seconds:.1f} s (load {os.getloadavg()[0]:.1f})",
        "at most 90 s",
        seconds <= 90,
    )


def speed(proof: Proof) -> None:
    """In turns, so that both see the same machine; the best of each counts."""
    if skip_without_data(proof, "speed"):
        return
    python = python_with("torch")
    peers: dict[str, list[str]] = {"python": [], "python, channels last": ["--channels-last"]}
    best = dict.fromkeys(("ours", *peers), 0.0)
    for _ in range(3):
        ours = fewshot(
            "--config", "configs/fewshot_omniglot.toml", "--threads", 2, "--training.episodes=120",
            "--tests.0.episodes=1", "--tests.1.episodes=1", "--tests.2.episodes=1",
        )  # fmt: skip
        best["ours"] = max(best["ours"], ours["episodes_per_second"])
        for name, options in peers.items():
            answer = run_json(python, "bench/fewshot_peer.py", "--episodes", 115, "--threads", 2, *options)
            best[name] = max(best[name], answer["episodes_per_second"])
    for name in peers:
        proof.line(
            f"training episodes a second beside PyTorch's {name}",
            f"{best['ours']:.1f} against {best[name]:.1f}",
            "not below",
            best["ours"] >= best[name],
        )


def pacs(proof: Proof) -> None:
    if skip_without_data(proof, "pacs"):
        return
    for target in ("photo", "art_painting", "cartoon", "sketch"):
        result = fewshot(
            "--config", "configs/fewshot_pacs.toml", "--threads", 2, f"--source.target_domain={target}",
            "--training.episodes=60", "--tests.0.episodes=200", "--tests.1.episodes=200",
        )  # fmt: skip
        mean, half = accuracy(result, "5-way 5-shot")
        proof.line(
            f"PACS without {target}, end to end",
            f"{mean:.1f} +- {half:.1f} % after {result['episodes']} episodes, {result['setting']}",
            "runs; says domain generalisation",
            "domain generalisation" in result["setting"] and mean > 20,
        )


PARTS = parts_of(promises, glyphs, refusals, omniglot, speed, pacs)
