"""What the programs that compare peers share: a peer as a process that waits for lines, the command line, the answer's file.

A peer's program runs itself again with `--serve NAME`, prints `ready` once its inputs are in memory, and answers each line
on standard input with one line.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any


class PeerProcess:
    """The parent's end of a peer's process; `available` is false where the peer could not start."""

    def __init__(self, program: str, name: str, folder: Path, threads: int, *options: str) -> None:
        self.name, self.folder = name, folder
        command = [sys.executable, program, "--serve", name, "--folder", str(folder), "--threads", str(threads)]
        # Threads that wait without spinning: an idle peer must not disturb the one that runs.
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "passive"}
        self.process = subprocess.Popen(
            [*command, *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.available = self.process.stdout.readline().strip() == "ready"

    def ask(self, line: str) -> str:
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"[bench peers] {self.name} ended before it answered")
        return answer

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def status_bytes(field: str) -> int:
    """A field of this process's memory, such as VmRSS: now, VmHWM: at most."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return 1024 * int(line.split()[1])
    raise RuntimeError(f"/proc/self/status has no {field}")


def parse_arguments(description: str | None, repeats: int, clocks: bool = True) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads of every peer")
    parser.add_argument("--repeats", type=int, default=repeats, help="runs of each peer, in turns; the best counts")
    if clocks:
        parser.add_argument(
            "--clock", choices=("wall", "processor"), default="wall", help="processor: on a busy machine"
        )
    parser.add_argument("--out", type=Path, help="JSON file to write beside the table")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def show(answer: dict[str, Any], head: str, lines: Callable[[dict[str, Any]], Iterable[str]], out: Path | None) -> None:
    """The answer's rows as a table, what is missing, and the whole in a file that appears at once."""
    print(head)
    for row in answer["rows"]:
        for line in lines(row):
            print(line)
    for name in answer["missing"]:
        print(f"{name:<20} not measured: the package is not installed or failed above")
    if out:
        part = out.with_suffix(".part")
        part.write_text(json.dumps(answer, indent=2) + "\n")
        part.replace(out)
