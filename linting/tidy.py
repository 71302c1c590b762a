"""clang-tidy on the translation units whose content it has not yet found right."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import os
import pathlib
import shutil
import sys
import time
from collections.abc import Iterable, Sequence

from linting.files import BUILD, ROOT, Failed, fingerprint, included, passed, programs, run
from linting.project import Unit

RULES = (".clang-tidy", "src/kernels/.clang-tidy", "tests/kernels/.clang-tidy")
# GCC's options that clang does not know are none of its business, nor is what GCC's own library uses although deprecated.
# OpenMP's header lies in BUILD, from where CMake compiles.
OPTIONS = (
    "--quiet",
    "--extra-arg=-Wno-unknown-warning-option",
    "--extra-arg=-Wno-ignored-optimization-argument",
    "--extra-arg=-Wno-deprecated-declarations",
    "--extra-arg=-isystemopenmp",
)
# What a continuous integration spends on the analysis before it leaves the rest for the next run.
CI_MINUTES = 4.0


@dataclasses.dataclass(frozen=True)
class Work:
    unit: Unit
    stamp: pathlib.Path
    changed: bool


def minutes_allowed() -> float | None:
    """How long new units are begun: without a limit, but in a continuous integration (CI=true) a few minutes."""
    text = os.environ.get("CAMBER_LINT_MINUTES")
    if text is not None:
        try:
            return float(text)
        except ValueError:
            raise Failed(f"lint: CAMBER_LINT_MINUTES must be a number, got '{text}'") from None
    return CI_MINUTES if os.environ.get("CI", "").lower() in ("1", "true") else None


def changed_files() -> set[str]:
    """What differs from origin/main; everything counts as unchanged where there is none."""
    base = run("git", "merge-base", "HEAD", "origin/main").stdout.strip()
    return set(run("git", "diff", "--name-only", base).stdout.splitlines()) if base else set()


def write_rules() -> None:
    """Rules are looked up from where a unit lies: the project's, without the one that joined units break on purpose."""
    (BUILD / ".clang-tidy").write_text("InheritParentConfig: true\nChecks: '-bugprone-suspicious-include'\n")
    for rules in RULES:
        if "/" in rules:
            (BUILD / rules).write_text((ROOT / rules).read_text())


def copy_openmp_header() -> None:
    """The compiler's omp.h alone, which LibTorch includes and clang-tidy's wheel lacks: GCC's intrinsics would clash."""
    compiler = os.environ.get("CXX", "c++")
    header = pathlib.Path(run(compiler, "-print-file-name=include/omp.h").stdout.strip())
    if not header.is_absolute():
        raise Failed(f"lint: {compiler} has no omp.h, which the headers of LibTorch include")
    (BUILD / "openmp").mkdir(exist_ok=True)
    shutil.copy(header, BUILD / "openmp")


def work_left(clang_tidy: pathlib.Path, units: Iterable[Unit]) -> list[Work]:
    """The units that have not passed with this content, those that changed against origin/main first."""
    version = run(clang_tidy, "--version").stdout
    changes = changed_files()
    left = []
    for unit in units:
        own = [included(file) for file in unit.sources if (ROOT / file).exists()]
        files = frozenset().union(*own)
        stamp = passed(fingerprint([*sorted(files), *RULES], version, *OPTIONS, unit.command))
        if not stamp.exists():
            left.append(Work(unit, stamp, not changes.isdisjoint(files)))
    return sorted(left, key=lambda work: not work.changed)


def analyse(clang_tidy: pathlib.Path, work: Work, deadline: float | None) -> str | None:
    """What clang-tidy says of a unit, nothing when it is content; None when its turn came too late."""
    if deadline is not None and time.monotonic() > deadline:
        return None
    result = run(clang_tidy, "-p", BUILD, *OPTIONS, work.unit.file)
    if result.returncode == 0:
        work.stamp.touch()
        return ""
    return result.stdout.strip() or result.stderr.strip()


def show_progress(done: int, count: int, began: float) -> None:
    if sys.stderr.isatty():
        left = (time.monotonic() - began) / done * (count - done)
        print(f"\rlint: {done} of {count} units, about {left:.0f} s left ", end="", file=sys.stderr, flush=True)


def check(units: Sequence[Unit]) -> None:
    write_rules()
    copy_openmp_header()
    clang_tidy = programs() / "clang-tidy"
    left = work_left(clang_tidy, units)
    minutes = minutes_allowed()
    bound = "" if minutes is None else f", for {minutes:g} minutes at most"
    print(
        f"lint: {len(units) - len(left)} of {len(units)} units passed before, {len(left)} to analyse{bound}", flush=True
    )
    began = time.monotonic()
    deadline = None if minutes is None else began + 60 * minutes
    failures, late = 0, []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = {pool.submit(analyse, clang_tidy, work, deadline): work for work in left}
        for done, job in enumerate(concurrent.futures.as_completed(jobs), 1):
            answer = job.result()
            if answer is None:
                late.append(jobs[job])
            elif answer:
                failures += 1
                print(answer, flush=True)
            show_progress(done, len(left), began)
    if failures:
        raise Failed(f"lint: {failures} of {len(units)} units fail the static analysis")
    print(f"lint: {len(left) - len(late)} units analysed in {time.monotonic() - began:.0f} s", flush=True)
    if late:
        say_what_is_left(late)


def say_what_is_left(late: Sequence[Work]) -> None:
    changed = sorted(file for work in late if work.changed for file in work.unit.sources)
    print(
        f"lint: NOT ANALYSED for want of time: {len(late)} units, {sum(work.changed for work in late)} of them with changes "
        "against origin/main. `make lint` without a limit analyses them; the next run goes on where this one stopped."
    )
    for file in changed:
        print(f"lint: changed and not analysed: {file}")
