"""How a proof runs programs: ours, the tests, the Python environments that it compares with."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from proofs.report import Proof

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("CAMBER_BUILD") or "build")
CAMBER = BUILD / "camber"
DATA = pathlib.Path(os.environ.get("CAMBER_DATA") or ROOT / "../shared/data")
WORLD = BUILD / "world"
# Threads that wait without spinning, for runs side by side that nobody times.
PASSIVE = {"OMP_WAIT_POLICY": "passive"}

Result = subprocess.CompletedProcess[str]


class ProgramFailed(RuntimeError):
    """A program that a proof needs ended with an error: nothing further can be shown."""


def words(*command: object) -> list[str]:
    return [str(word) for word in command]


def environment_with(extra: Mapping[str, str] | None) -> dict[str, str]:
    return {**os.environ, "CAMBER_DATA": str(DATA), **(extra or {})}


def run(*command: object, check: bool = True, environment: Mapping[str, str] | None = None) -> Result:
    """Runs a program from the root of the project and returns what it printed."""
    answer = subprocess.run(
        words(*command),
        check=False,
        cwd=ROOT,
        env=environment_with(environment),
        capture_output=True,
        text=True,
        errors="replace",  # a sentence about a damaged file may hold its bytes
    )
    if check and answer.returncode != 0:
        raise ProgramFailed(f"{' '.join(words(*command))} failed: {answer.stdout}{answer.stderr}")
    return answer


def run_json(*command: object, environment: Mapping[str, str] | None = None) -> Any:
    return json.loads(run(*command, environment=environment).stdout)


def camber(*arguments: object, check: bool = True, environment: Mapping[str, str] | None = None) -> Result:
    return run(CAMBER, *arguments, "--quiet", check=check, environment=environment)


def camber_json(*arguments: object, environment: Mapping[str, str] | None = None) -> Any:
    return run_json(CAMBER, *arguments, "--quiet", "--format", "json", environment=environment)


def start(*arguments: object, environment: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """Our program in the background, for proofs that kill it."""
    return subprocess.Popen(
        words(CAMBER, *arguments, "--quiet"),
        cwd=ROOT,
        env=environment_with(environment),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> None:
    """Waits for a started program and demands that it ended well."""
    _, errors = process.communicate()
    if process.returncode != 0:
        raise ProgramFailed(f"{' '.join(words(*process.args))} failed: {errors}")  # type: ignore[misc]


def read_json(path: pathlib.Path) -> Any:
    return json.loads(path.read_text())


def build_target(name: str) -> None:
    run("cmake", "--build", BUILD, "--target", name)


def run_tests(proof: Proof, what: str, pattern: str) -> None:
    """A line that says how many of the tests with these names pass."""
    answer = run("ctest", "--preset", "release", "-R", pattern, check=False)
    summary = [text for text in answer.stdout.splitlines() if "tests passed" in text]
    proof.line(what, summary[0] if summary else "none ran", "all pass", answer.returncode == 0 and bool(summary))


def need_world(folder: pathlib.Path, *options: object) -> pathlib.Path:
    """A simulated world that is made once and kept; a folder that is not whole is made again."""
    folder = ROOT / folder
    if not (folder / "complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        camber("simulate", *options, "--out", folder)
        (folder / "complete").touch()
    return folder


def need_demo_world() -> pathlib.Path:
    return need_world(WORLD, "--config", "configs/simulate.toml", "--scenes", 280, "--seed", 1)


def python_with(*packages: str) -> str:
    """The Python that holds torch, with these packages installed into it when they are missing."""
    python = os.environ.get("CAMBER_PYTHON", str(ROOT / ".venv/bin/python"))
    if run(python, "-c", f"import {', '.join(packages)}", check=False).returncode != 0:
        run(python, "-m", "pip", "install", "--quiet", *packages)
    return python


def devkit_python() -> str:
    return run("scripts/devkit_venv").stdout.strip()


def tensorboard_python() -> str:
    return run("scripts/tensorboard_venv").stdout.strip()


def python_of_versions(folder: str, *packages: str) -> str:
    """The Python of an environment with these versions and nothing else, made when it is missing."""
    python, stamp = ROOT / folder / "bin/python", ROOT / folder / "installed"
    if not stamp.exists() or stamp.read_text() != " ".join(packages):
        run(sys.executable, "-m", "venv", ROOT / folder)
        run(python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", *packages)
        stamp.write_text(" ".join(packages))
    return str(python)
