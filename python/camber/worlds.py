"""The simulated world and the report page, from Python."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import _doors

__all__ = ["report", "simulate"]


def simulate(
    out: str | os.PathLike[str],
    *,
    scenes: int = 40,
    seed: int = 0,
    config: str | os.PathLike[str] | None = None,
    reference_size: bool = False,
    threads: int = 0,
    settings: Mapping[str, object] | None = None,
) -> dict[str, Any]:
    """Writes a simulated data set in the nuScenes v1.0 schema, version v1.0-simulated; returns what it counted.

    settings: any option of `camber simulate --print-config` by its name, above those of the file config.

    >>> import tempfile, camber
    >>> made = camber.simulate(tempfile.mkdtemp(), scenes=5, seed=7, settings={"world.frames": 2})
    >>> made["scenes"], made["frames"]
    (5, 10)
    """
    words = [_doors.setting_of(name, value) for name, value in (settings or {}).items()]
    answer: dict[str, Any] = _doors.answer_of(
        "simulate", *words, out=Path(out), scenes=scenes, seed=seed, config=config, reference_size=reference_size,
        threads=threads,
    )  # fmt: skip
    return answer


def report(path: str | os.PathLike[str], out: str | os.PathLike[str] | None = None) -> Path:
    """Writes one self-contained HTML page of a run or a study, finished or not; without `out` into its folder.

    >>> import camber, tempfile
    >>> try:
    ...     camber.report(tempfile.mkdtemp())
    ... except ValueError as error:
    ...     print(str(error)[:53])
    [report] PATH must be the folder of a run with metric
    """
    answer = _doors.answer_of("report", path, out=None if out is None else Path(out))
    return Path(answer["out"])
