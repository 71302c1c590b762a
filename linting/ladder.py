"""Who may include whom: a room includes only what its target links, and no private header of another room."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable

from linting.files import Failed, includes
from linting.project import Links, Unit


def room_of(path: str) -> str | None:
    """The room that a file belongs to: src/<room>, include/camber/<room>, apps."""
    parts = pathlib.PurePath(path).parts
    if parts[0] == "src" and len(parts) > 2:
        return parts[1]
    if parts[:2] == ("include", "camber") and len(parts) > 3:
        return parts[2]
    return "apps" if parts[0] == "apps" else None


class Owners:
    """Which targets hold a file. A header belongs to the target that compiles the source of its name; without one, to every
    target of its room."""

    def __init__(self, units: Iterable[Unit]) -> None:
        self.by_source: dict[str, set[str]] = {}
        self.by_room: dict[str, set[str]] = {}
        for unit in units:
            for source in unit.sources:
                self.by_source.setdefault(source, set()).add(unit.target)
                room = room_of(source)
                if room is not None:
                    self.by_room.setdefault(room, set()).add(unit.target)

    def of(self, path: str) -> set[str]:
        room = room_of(path)
        folder = str(pathlib.PurePath(path).parent) if room == "apps" else f"src/{room}"
        source = f"{folder}/{pathlib.PurePath(path).stem}.cpp"
        return self.by_source.get(source) or self.by_room.get(room or "", set())


def breaches(files: Iterable[str], owners: Owners, links: Links) -> dict[str, str]:
    """Every "room -> header" that is not allowed, with the sentence that says why."""
    found: dict[str, str] = {}
    for file in files:
        room = room_of(file)
        if room is None:
            continue
        for header in includes(file):
            other = room_of(header)
            entry = f"{room} -> {header}"
            if other is None:
                if header.startswith(("tests/", "bench/", "examples/")):
                    found[entry] = f"{file} includes {header}: no room may know tests, benchmarks or examples"
                continue
            if other == room:
                continue
            if header.startswith(("src/", "apps/")):
                found[entry] = f"{file} includes {header}, a private header of the room {other}"
                continue
            wanted = owners.of(header)
            for target in owners.of(file):
                if wanted and wanted.isdisjoint(links.known_to(target)):
                    found[entry] = f"{file} includes {header}, but {target} does not link {' or '.join(sorted(wanted))}"
    return found


def check(files: Iterable[str], units: Iterable[Unit], links: Links) -> None:
    found = breaches(files, Owners(units), links)
    if found:
        raise Failed(
            "\n".join(found[entry] for entry in sorted(found)) + "\nlint: include only what the room's target links"
        )
