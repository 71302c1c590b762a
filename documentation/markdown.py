"""Links, headings and code blocks of Markdown text, as GitHub and the site read them."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})\s*(\S*)")
LINK = re.compile(r"(?P<before>!?\[(?:[^\[\]]|\[[^\]]*\])*\]\()(?P<target>[^()\s]+)(?P<after>(?:\s+\"[^\"]*\")?\))")
CODE_SPAN = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*$")
ELSEWHERE = re.compile(r"^[a-z][a-z0-9+.-]*:")


class Block(NamedTuple):
    """A fenced block of code."""

    language: str
    text: str
    line: int
    before: str  # the line that stands before it: a comment there may say where it is from


def pages() -> list[pathlib.Path]:
    """Every page that is written by hand: those of docs/ and those of the repository's root."""
    names = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
    return [*(ROOT / name for name in names), ROOT / "study/README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(text: str) -> Iterator[Block]:
    fence, language, start, before, lines = "", "", 0, "", list[str]()
    last = ""
    for number, line in enumerate(text.splitlines(), 1):
        found = FENCE.match(line)
        if not fence and found:
            fence, language, start, before, lines = found[1], found[2], number, last, []
        elif fence and found and found[1].startswith(fence) and not found[2]:
            yield Block(language, "\n".join(lines) + "\n", start, before)
            fence = ""
        elif fence:
            lines.append(line)
        if line.strip():
            last = line


def change_prose(text: str, change: Callable[[str], str]) -> str:
    """The text with `change` made to every line that is no code."""
    fence, lines = "", []
    for line in text.splitlines():
        found = FENCE.match(line)
        prose = not found and not fence and not line.startswith("    ")
        if found and not fence:
            fence = found[1]
        elif found and found[1].startswith(fence) and not found[2]:
            fence = ""
        lines.append(change(line) if prose else line)
    return "\n".join(lines) + "\n"


def change_links(text: str, change: Callable[[str], str]) -> str:
    """The text with another target in every link that points into the repository."""

    def change_match(match: re.Match[str]) -> str:
        if ELSEWHERE.match(match["target"]):
            return match[0]
        return match["before"] + change(match["target"]) + match["after"]

    def change_line(line: str) -> str:
        # A link inside of a code span is text.
        spans = [match.span() for match in CODE_SPAN.finditer(line)]

        def outside(match: re.Match[str]) -> str:
            at = match.start("target")
            return match[0] if any(begin <= at < end for begin, end in spans) else change_match(match)

        return LINK.sub(outside, line)

    return change_prose(text, change_line)


def links(text: str) -> list[str]:
    """The targets of every link that points into the repository."""
    found: list[str] = []

    def keep(target: str) -> str:
        found.append(target)
        return target

    change_links(text, keep)
    return found


def anchors(text: str) -> set[str]:
    """The names by which a page's headings are linked."""
    found: set[str] = set()

    def keep(line: str) -> str:
        if match := HEADING.match(line):
            title = LINK.sub(lambda link: link["before"].lstrip("!").strip("[](") or "", match[2])
            word = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
            name, number = word, 0
            while name in found:
                number += 1
                name = f"{word}-{number}"
            found.add(name)
        return line

    change_prose(text, keep)
    return found
