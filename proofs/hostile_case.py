"""A bad input as a case: what it changes, the command, and what the program must answer."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence

from proofs.programs import CAMBER, ROOT, ProgramFailed

TABLES = "v1.0-simulated"
REFUSED = (1, 2)  # by a sentence; whether it is the command or a file that is wrong is a matter of taste
SECONDS = 40.0
MEGABYTES = 3000

Change = Callable[["Scene"], None]


@dataclasses.dataclass(frozen=True)
class Scene:
    """The folder that the cases run in: a small world `w`, a finished run `run`, a configuration `tiny.toml`."""

    folder: pathlib.Path

    @property
    def data(self) -> pathlib.Path:
        """The copy of the world that a case may spoil."""
        return self.folder / "wx"

    def table(self, name: str) -> pathlib.Path:
        return self.data / TABLES / f"{name}.json"

    def rewrite(self, name: str, change: Callable[[list[dict[str, object]]], None]) -> None:
        rows = json.loads(self.table(name).read_text())
        change(rows)
        self.table(name).write_text(json.dumps(rows))

    def lidar_files(self) -> list[pathlib.Path]:
        """The key frames' clouds."""
        return sorted((self.data / "samples/LIDAR_TOP").iterdir())


@dataclasses.dataclass(frozen=True)
class Case:
    """`code` 2: refused before work; 1: a failure with a sentence; 0: accepted. `says` is found in what it prints."""

    name: str
    command: str
    code: int | tuple[int, ...]
    says: str = ""
    change: Change | None = None
    file_kilobytes: int = 0
    leaves: Sequence[str] = ()  # paths that must not be there afterwards
    beside: str = ""  # another command that goes on meanwhile, once `begun` is there
    begun: str = ""


def prepare(scene: Scene) -> None:
    """Throws away what earlier cases left, and lays out a world that may be spoiled."""
    for left in scene.folder.iterdir():
        if left.name in ("w", "run", "tiny.toml", "gt.json", "ok.json"):
            continue
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)
        else:
            left.unlink()
    (scene.folder / "a").mkdir()


def lay_out_data(scene: Scene) -> None:
    shutil.copytree(scene.folder / "w", scene.data, symlinks=True)


def limits_of(case: Case) -> list[str]:
    """The words before the program's own that bound it."""
    size = f"--fsize={case.file_kilobytes * 1024}" if case.file_kilobytes else ""
    return [word for word in ("prlimit", "--core=0", size) if word]


def peak_megabytes(process: int) -> float:
    try:
        text = pathlib.Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0.0
    found = re.search(r"VmHWM:\s+(\d+) kB", text)
    return int(found[1]) / 1024 if found else 0.0


def answer_of(case: Case, scene: Scene) -> str:
    """What is wrong with the program's answer, nothing when it is good."""
    prepare(scene)
    if case.change is not None:
        lay_out_data(scene)
        case.change(scene)
    with contextlib.ExitStack() as ended:
        if case.beside:
            ended.enter_context(running(case, scene))
        return answer_to_command(case, scene)


@contextlib.contextmanager
def running(case: Case, scene: Scene) -> Iterator[None]:
    """The command beside a case, from the moment at which it has begun; killed in the end."""
    process = subprocess.Popen(
        [str(ROOT / CAMBER), *shlex.split(case.beside)],
        cwd=scene.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        began = time.monotonic()
        while not (scene.folder / case.begun).exists():
            if process.poll() is not None or time.monotonic() - began > SECONDS:
                raise ProgramFailed(f"{case.beside} does not make {case.begun}")
            time.sleep(0.05)
        yield
    finally:
        process.kill()
        process.wait()


def answer_to_command(case: Case, scene: Scene) -> str:
    words = [*limits_of(case), str(ROOT / CAMBER), *shlex.split(case.command)]
    with open(scene.folder / "answer", "w+") as out, open(scene.folder / "errors", "w+") as errors:
        process = subprocess.Popen(
            words, cwd=scene.folder, stdin=subprocess.DEVNULL, stdout=out, stderr=errors, start_new_session=True
        )
        began, peak = time.monotonic(), 0.0
        while process.poll() is None and time.monotonic() - began < SECONDS and peak < MEGABYTES:
            peak = max(peak, peak_megabytes(process.pid))
            time.sleep(0.05)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return f"hangs ({SECONDS:.0f} s)" if peak < MEGABYTES else f"takes {peak:.0f} MB"
    printed = (scene.folder / "answer").read_text(errors="replace")
    said = (scene.folder / "errors").read_text(errors="replace")
    return wrong_with(case, process.returncode, printed, said, scene)


def wrong_with(case: Case, code: int, printed: str, said: str, scene: Scene) -> str:
    if code < 0 or code >= 128:
        return f"dies by signal {-code if code < 0 else code - 128}"
    last = said.strip().splitlines()[-1] if said.strip() else ""
    allowed = case.code if isinstance(case.code, tuple) else (case.code,)
    if code not in allowed:
        return f"exit {code} for {' or '.join(map(str, allowed))}: {last[:200]}"
    listed = case.command.startswith("inspect") and code == 1  # what is wrong with the data is its answer
    if code != 0 and not listed and not last.startswith("camber: "):
        return f"no sentence: {last[:200]}"
    if case.says and not re.search(case.says, said + printed):
        return f"does not say /{case.says}/: {last[:240]}"
    left = [path for path in case.leaves if (scene.folder / path).exists()]
    return f"leaves {left}" if left else ""
