"""The wheel: its size and tag, its import, and the whole program and package in new environments that never saw the source.

One environment for every Python from 3.10 on that is there, each with the torch that pip finds for the wheel's requirement.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess

from proofs.programs import ROOT, Result, run, words
from proofs.report import Proof, parts_of

PYTHONS = ("3.10", "3.11", "3.12", "3.13")
FROM_TORCH = {"libtorch.so", "libtorch_cpu.so", "libc10.so", "libgomp.so.1"}
# Tests that look at the source tree or at the build.
NEED_SOURCE = ("test_package.py", "test_same_as_cpp.py", "test_import_resnet50.py")
TINY = ("--data.batch_size=1", "--loop.steps=2", "--evaluation.limit=2", "--evaluation.faults=[]")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--environments", help="keep the environments there, and use those that are there already")


def packed(proof: Proof) -> pathlib.Path:
    return pathlib.Path(run("scripts/wheel", proof.folder / "dist").stdout.strip())


def contents(proof: Proof) -> None:
    wheel = packed(proof)
    size = wheel.stat().st_size / 1e6
    proof.line("size of the wheel", f"{size:.1f} MB", "at most 20 MB", size <= 20)
    named = re.fullmatch(r"camber-[\d.]+-py3-none-(manylinux_2_\d+_x86_64)\.whl", wheel.name)
    proof.line("its name", wheel.name, "camber-<version>-py3-none-manylinux_2_*_x86_64.whl", named is not None)
    audit = json.loads(run(ROOT / ".venv-wheel/bin/auditwheel", "show", "--json", wheel).stdout)
    proof.line(
        "auditwheel: tag that the symbols allow", audit["sym_tag"], "that of the name",
        named is not None and audit["sym_tag"] == named[1],
    )  # fmt: skip
    outside = set(audit["external_libs"]) if "external_libs" in audit else external(wheel)
    proof.line(
        "libraries from outside that no manylinux has", sorted(outside), "those of torch alone", outside <= FROM_TORCH
    )


def external(wheel: pathlib.Path) -> set[str]:
    """What the libraries of the wheel need and neither the wheel nor every manylinux brings."""
    folder = wheel.parent / "unpacked"
    shutil.unpack_archive(wheel, folder, "zip")
    needed, own = set(), set()
    for library in folder.rglob("*.so*"):
        own.add(library.name)
        needed |= set(re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", library).stdout))
    system = {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "libz.so.1"}
    return needed - own - system


def interpreter(version: str) -> str | None:
    """A Python of this version: on the path, or of pyenv."""
    folders = sorted(pathlib.Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    found = shutil.which(f"python{version}")
    candidates = [*map(str, folders), *([found] if found else [])]
    for candidate in candidates:
        if subprocess.run([candidate, "--version"], check=False, capture_output=True).returncode == 0:
            return candidate
    return None


class Environment:
    """A new environment with the wheel and what pip fetches for it, used from a folder that is not the source tree."""

    def __init__(self, proof: Proof, version: str, python: str, wheel: pathlib.Path) -> None:
        kept = proof.options.environments
        self.folder = pathlib.Path(kept or proof.folder).resolve() / f"python{version}"
        if not self.folder.exists():
            run(python, "-m", "venv", self.folder)
        self.work = proof.folder / f"work{version}"
        self.work.mkdir()
        self("python", "-m", "pip", "install", "-q", "--disable-pip-version-check", "numpy", "pytest")
        self(
            "python",
            "-m",
            "pip",
            "install",
            "-q",
            "--disable-pip-version-check",
            "--force-reinstall",
            "--no-deps",
            wheel,
        )
        self("python", "-m", "pip", "install", "-q", "--disable-pip-version-check", wheel)

    def __call__(self, program: str, *arguments: object, check: bool = True) -> Result:
        kept = ("PATH", "HOME", "TMPDIR", "PIP_FIND_LINKS", "PIP_CONFIG_FILE", "LANG")
        environment = {name: value for name, value in os.environ.items() if name in kept or name.startswith("PIP_")}
        environment |= {"OMP_WAIT_POLICY": "passive"}
        command = words(self.folder / "bin" / program, *arguments)
        answer = subprocess.run(command, check=False, cwd=self.work, env=environment, capture_output=True, text=True)
        if check and answer.returncode != 0:
            raise RuntimeError(
                f"{' '.join(command)} answered {answer.returncode}: {answer.stdout[-2000:]}{answer.stderr[-2000:]}"
            )
        return answer


def steps(environment: Environment) -> dict[str, bool]:
    """The list: each command, and whether it did its work."""
    configs = environment("python", "-c", "import camber; print(camber.configs)").stdout.strip()
    made = environment("camber", "simulate", "--out", "world", "--scenes", 8, "--world.frames=3", "--seed", 7)
    train = environment(
        "camber", "train", "--config", f"{configs}/demo.toml", "--out", "run", "--data.root=world", *TINY, check=False
    )
    evaluated = environment("camber", "eval", "--run", "run", "--faults", "none", "--limit", 2, check=False)
    predicted = environment("camber", "predict", "--run", "run", "--split", "val", "--out", "results.json", check=False)
    metrics = environment(
        "camber", "metrics", "--results", "results.json", "--data", "world", "--version", "v1.0-simulated", "--split", "val",
        "--format", "json", check=False,
    )  # fmt: skip
    report = environment("camber", "report", "run", "--out", "report.html", check=False)
    verify = environment("camber", "verify", check=False)
    resumed = environment("python", "-m", "camber", "train", "--resume", "run", check=False)
    page = environment.work / "report.html"
    return {
        "verify": verify.returncode == 0 and ", 0 failed" in verify.stdout,
        "simulate": "wrote 8 scenes" in made.stdout,
        "train": train.returncode == 0,
        "eval": evaluated.returncode == 0 and "NDS" in evaluated.stdout,
        "predict": predicted.returncode == 0,
        "metrics": metrics.returncode == 0 and "nd_score" in json.loads(metrics.stdout),
        "report": report.returncode == 0 and page.stat().st_size > 50_000,
        "python -m camber train --resume": resumed.returncode == 0,
    }


def installed(proof: Proof) -> None:
    wheel = packed(proof)
    for version in PYTHONS:
        python = interpreter(version)
        if python is None:
            proof.skip(f"Python {version}", "there is none on this machine")
            continue
        environment = Environment(proof, version, python, wheel)
        torch = environment("python", "-c", "import torch; print(torch.__version__)").stdout.strip()
        done = steps(environment)
        failed = [name for name, held in done.items() if not held]
        proof.line(
            f"Python {version}, torch {torch}: commands that did their work",
            f"{len(done) - len(failed)} of {len(done)}{' not: ' + ', '.join(failed) if failed else ''}",
            "verify, simulate, train, eval, predict, metrics, report, resume", not failed,
        )  # fmt: skip
        python_tests(proof, environment, version)
        import_time(proof, environment, version)


def python_tests(proof: Proof, environment: Environment, version: str) -> None:
    shutil.copytree(ROOT / "python/tests", environment.work / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    left_out = [f"--ignore=tests/{name}" for name in NEED_SOURCE]
    answer = environment("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", *left_out, check=False)
    last = answer.stdout.strip().splitlines()[-1] if answer.stdout.strip() else answer.stderr[-200:]
    proof.line(f"Python {version}: the package's tests", last, "all pass", answer.returncode == 0)
    if answer.returncode != 0:
        proof.text(answer.stdout[-3000:])


def import_time(proof: Proof, environment: Environment, version: str) -> None:
    code = "import time, torch; t = time.perf_counter(); import camber; print(time.perf_counter() - t)"
    seconds = [float(environment("python", "-c", code).stdout) for _ in range(7)]
    best = 1000 * min(seconds)
    proof.line(
        f"Python {version}: import after torch", f"{best:.0f} ms (median {1000 * statistics.median(seconds):.0f})",
        "at most 50 ms", best <= 50,
    )  # fmt: skip


PARTS = parts_of(contents, installed)
