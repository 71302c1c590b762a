"""How a proof reports: one line for each value, and a count of those that miss their target."""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Callable, Mapping


class Proof:
    """One proof while it runs: a scratch folder, the options of the command line, the lines printed so far."""

    def __init__(self, folder: pathlib.Path, options: argparse.Namespace) -> None:
        self.folder = folder
        self.options = options
        self.missed = 0

    def line(self, what: str, value: object, target: object, holds: bool) -> None:
        """A value against its target; a target that is missed fails the proof."""
        self.missed += not holds
        print(f"{'reached' if holds else 'MISSED':8} {what}: {value} (target: {target})", flush=True)

    def skip(self, what: str, reason: str, target: object = None) -> None:
        """A value that this machine cannot show, and why."""
        aim = "" if target is None else f" (target: {target})"
        print(f"{'skipped':8} {what}: {reason}{aim}", flush=True)

    def note(self, what: str, value: object) -> None:
        """A value without a target."""
        print(f"{'value':8} {what}: {value}", flush=True)

    def text(self, words: str) -> None:
        """Further words below a line, indented to its text."""
        for row in words.splitlines():
            print(f"{'':8} {row}", flush=True)


Part = Callable[[Proof], None]


def parts_of(*parts: Part) -> Mapping[str, Part]:
    """The parts of a proof by their names, in the order in which they run."""
    return {part.__name__: part for part in parts}
