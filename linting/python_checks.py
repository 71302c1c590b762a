"""ruff and mypy for the Python files, with the versions that scripts/lint_venv pins."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence

from linting.files import BUILD, ROOT, Failed, fingerprint, passed, programs, run

CONFIGURATION = ("ruff.toml", "mypy.ini", "scripts/lint_venv", "linting/python_checks.py")
# They pass wrong arguments on purpose (mypy.ini).
UNTYPED = ("python/tests/", "examples/")


def python_with_torch() -> pathlib.Path:
    """The Python whose torch the library is built with: its types are those that the package is checked against."""
    library = os.environ.get("Torch_DIR")
    folder = pathlib.Path(library).resolve().parents[6] if library else ROOT / ".venv"
    python = folder / "bin" / "python"
    if not python.exists():
        raise Failed(f"lint: mypy needs the Python that holds torch, and there is no {python}: run scripts/setup")
    return python


def format_files(files: Sequence[str]) -> None:
    ruff = programs() / "ruff"
    run(ruff, "check", "--fix-only", "--quiet", *files)
    answer = run(ruff, "format", "--quiet", *files)
    if answer.returncode != 0:
        raise Failed(answer.stdout + answer.stderr)


def check_types(mypy: pathlib.Path, files: Sequence[str], everything: Sequence[str]) -> None:
    typed = [file for file in files if not file.startswith(UNTYPED)]
    stamp = passed("mypy-" + fingerprint([*sorted(everything), *CONFIGURATION], *typed))
    if not typed or stamp.exists():
        return
    python = python_with_torch()
    answer = run(
        mypy, "--config-file", "mypy.ini", "--cache-dir", BUILD / "mypy", "--python-executable", python, *typed
    )
    if answer.returncode != 0:
        raise Failed(answer.stdout + answer.stderr + "lint: mend the types")
    stamp.touch()


def check(files: Sequence[str], everything: Sequence[str]) -> None:
    """Checks `files`; what mypy has found right before counts only while `everything` is unchanged."""
    folder = programs()
    for command in (["check", "--quiet"], ["format", "--check", "--quiet"]):
        answer = run(folder / "ruff", *command, *files)
        if answer.returncode != 0:
            raise Failed(answer.stdout + answer.stderr + "lint: run make format, and mend by hand what is left")
    check_types(folder / "mypy", files, everything)
    print(f"lint: {len(files)} Python files are formatted, linted and typed", flush=True)
