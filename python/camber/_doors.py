"""The program's library in this process: classes and functions of torch's registry, loaded when first needed."""

from __future__ import annotations

import functools
import json
import os
from typing import Any

import torch

from ._library import find_library


@functools.cache
def load() -> None:
    """Registers torch.ops.camber_program and torch.classes.camber_program."""
    torch.ops.load_library(str(find_library("libcamber_program.so")))


def make(name: str, *arguments: object) -> Any:
    """An object of a registered class."""
    load()
    return getattr(torch.classes.camber_program, name)(*arguments)


def answer_of(command: str, *words: str | os.PathLike[str], **options: object) -> Any:
    """What a sub-command answers as JSON. Options None are left out, True is a flag; `_` stands for `-` in their names."""
    load()
    line = [command, *(os.fspath(word) for word in words)]
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is True:
            line.append(flag)
        elif value is not None and value is not False:
            line += [flag, os.fspath(value) if isinstance(value, os.PathLike) else str(value)]
    return json.loads(torch.ops.camber_program.answer_of([*line, "--format", "json", "--quiet"]))


def setting_of(name: str, value: object) -> str:
    """`--a.b=value` of a configuration, in TOML's writing."""
    return f"--{name}={json.dumps(value)}"
