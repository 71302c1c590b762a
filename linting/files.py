"""Which files are ours, what they include, what has passed before, and the programs that check them."""

from __future__ import annotations

import functools
import hashlib
import os
import pathlib
import re
import subprocess
from collections.abc import Iterable, Sequence

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "lint"
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
INCLUDE_FOLDERS = ("include", "src", "tests", ".")
PYTHON_SCRIPT = b"#!/usr/bin/env python3"

Result = subprocess.CompletedProcess[str]


class Failed(Exception):
    """A check that found something; the text is what to tell."""


def run(*command: object) -> Result:
    words = [str(word) for word in command]
    return subprocess.run(words, check=False, cwd=ROOT, capture_output=True, text=True)


def programs() -> pathlib.Path:
    """The folder of ruff, mypy and clang-tidy, in the versions that scripts/lint_venv pins."""
    answer = run("scripts/lint_venv")
    if answer.returncode != 0:
        raise Failed(answer.stderr + "lint: scripts/lint_venv failed")
    return pathlib.Path(answer.stdout.strip())


def tracked(paths: Sequence[str]) -> list[str]:
    names = run("git", "ls-files", "--", *(paths or ["."])).stdout.splitlines()
    return [name for name in names if (ROOT / name).is_file()]


def is_cpp(name: str) -> bool:
    return name.endswith((".h", ".cpp"))


def is_python(name: str) -> bool:
    if name.endswith(".py"):
        return True
    if "." in os.path.basename(name):
        return False
    with open(ROOT / name, "rb") as file:
        return file.readline().startswith(PYTHON_SCRIPT)


def resolve(file: str, name: str) -> str | None:
    """The path of our own file that `file` includes by this name."""
    for folder in (os.path.dirname(file), *INCLUDE_FOLDERS):
        path = os.path.normpath(os.path.join(folder, name))
        if not path.startswith("..") and (ROOT / path).is_file():
            return path
    return None


@functools.cache
def includes(file: str) -> tuple[str, ...]:
    """Our own files that this one includes by itself."""
    found = (resolve(file, name) for name in INCLUDE.findall((ROOT / file).read_text()))
    return tuple(path for path in found if path is not None and path != file)


@functools.cache
def included(file: str) -> frozenset[str]:
    """This file, what it includes, and what these include."""
    return frozenset({file}).union(*(included(path) for path in includes(file)))


def fingerprint(paths: Iterable[str], *words: str) -> str:
    """A name for the content of these files, and for these words."""
    digest = hashlib.sha256()
    for word in words:
        digest.update(word.encode() + b"\0")
    for path in paths:
        digest.update(path.encode() + b"\0" + (ROOT / path).read_bytes() + b"\0")
    return digest.hexdigest()[:32]


def passed(name: str) -> pathlib.Path:
    """The file that says that this content has passed. It lies with the user, so that a fresh clone knows it too."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = pathlib.Path(cache) / "camber" / "lint"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / name
