"""What CMake knows of the project: its translation units, and which target links which."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re

from linting.files import BUILD, INCLUDE, ROOT, Failed, run

GRAPH = BUILD / "graph" / "targets.dot"
NODE = re.compile(r'^\s*"(node\d+)" \[ label = "([^"\\]+)')
EDGE = re.compile(r'^\s*"(node\d+)" -> "(node\d+)"\s*(?:\[ style = (\w+) \])?')
TARGET = re.compile(r"CMakeFiles/(\w+)\.dir/")


@dataclasses.dataclass(frozen=True)
class Unit:
    """What the compiler gets at once: the build joins several of our sources, so that LibTorch's headers are read once."""

    file: str
    target: str
    sources: frozenset[str]
    command: str


def configure() -> None:
    """Without a precompiled header, which clang-tidy cannot read and which would hide a missing include."""
    GRAPH.parent.mkdir(parents=True, exist_ok=True)
    answer = run(
        "cmake", "--preset", "release", "-B", BUILD, "-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON", "--log-level=ERROR",
        f"--graphviz={GRAPH}",
    )  # fmt: skip
    if answer.returncode != 0:
        raise Failed(answer.stderr + "lint: cmake cannot configure the project")
    answer = run("cmake", "--build", BUILD, "--target", "camber_commit")
    if answer.returncode != 0:
        raise Failed(answer.stdout + answer.stderr)


def translation_units() -> list[Unit]:
    units = []
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        file = pathlib.Path(entry["file"])
        joined = INCLUDE.findall(file.read_text()) if "/Unity/" in entry["file"] else [entry["file"]]
        target = TARGET.search(entry["output"] if "output" in entry else entry["command"])
        if target is None:
            raise Failed(f"lint: {entry['file']} belongs to no target of the build")
        units.append(
            Unit(
                entry["file"],
                target[1],
                frozenset(os.path.relpath(name, ROOT) for name in joined),
                entry["command"].replace(str(ROOT), "."),
            )
        )
    return units


@dataclasses.dataclass(frozen=True)
class Links:
    """Which target links which; what is linked PUBLIC is handed on."""

    public: dict[str, set[str]]
    private: dict[str, set[str]]

    def handed_on(self, target: str) -> set[str]:
        """The target and all that comes with linking it."""
        found: set[str] = set()
        left = [target]
        while left:
            name = left.pop()
            if name not in found:
                found.add(name)
                left += self.public.get(name, set())
        return found

    def known_to(self, target: str) -> set[str]:
        """Whatever the target may include: what it links, and what that hands on."""
        return self.handed_on(target).union(*(self.handed_on(name) for name in self.private.get(target, set())))


def links(text: str) -> Links:
    """Reads the graph that CMake writes: solid edges are PUBLIC, dashed INTERFACE, dotted PRIVATE."""
    names: dict[str, str] = {}
    found = Links({}, {})
    for line in text.splitlines():
        if node := NODE.match(line):
            names[node[1]] = node[2]
        elif edge := EDGE.match(line):
            kind = found.private if edge[3] == "dotted" else found.public
            kind.setdefault(names[edge[1]], set()).add(names[edge[2]])
    return found
