"""The words of the field: those that the project no longer uses, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from linting.files import ROOT, Failed

# A word in an identifier or in prose. Upper and lower case count as equal.
WORDS = {
    r"pictures?": "image",
    r"figures?": "metric or value",
    r"lean(s|ed|ing|t)?": "bias",
    r"contenders?": "peer or baseline",
    r"place(?= in (the|a)\b)": "index or position",
    r"judg(e|es|ed|ing|ement)": "evaluate",
    r"(?<!sitting_)lying": "false timestamps",
    r"carry_out|take_over": "run or import",
    r"delivery": "SensorFrame",
}
# Files that quote old names: what was stored, what is translated, the history.
QUOTING = (
    "CHANGELOG.md",
    "LICENSE",
    "linting/words.py",
    "include/camber/config/renamed.h",
    "package-lock.json",
    "src/config/renamed.cpp",
    "study/records/",
    "study/earlier_plans/",
    "tests/apps/earlier_version_test.cpp",
    "tests/config/renamed_test.cpp",
    "tests/earlier_version/",
    "tests/linting/linting_test.py",
)
# Lines whose word is another's: names of random streams (the numbers depend on them), HTML's element, old folders.
OTHERS = (
    re.compile(r'\.at\("(picture|place)"\)'),
    re.compile(r'element\("figure"|^figure \{|, figure, tr'),
    re.compile(r'"pictures"\}\)  // the second|\? "value" : "figure"'),
)
TEXT = (".cpp", ".css", ".h", ".js", ".md", ".mjs", ".py", ".sh", ".toml", ".txt", ".cmake", "Makefile")
BOUNDARY = r"(?:(?<![A-Za-z])|(?<=[a-z])(?=[A-Z]))"
PATTERNS = [(re.compile(rf"{BOUNDARY}(?i:{word})(?![a-z])"), instead) for word, instead in WORDS.items()]


def findings(file: str, lines: Iterable[str]) -> list[str]:
    """One sentence for each old word."""
    found = []
    for number, line in enumerate(lines, 1):
        if any(pattern.search(line) for pattern in OTHERS):
            continue
        for pattern, instead in PATTERNS:
            if match := pattern.search(line):
                found.append(f"{file}:{number}: '{match[0]}' is called {instead} here")
    return found


def check(files: Sequence[str]) -> None:
    found = []
    for file in files:
        if file.endswith(TEXT) and not file.startswith(QUOTING):
            found += findings(file, (ROOT / file).read_text().splitlines())
    if found:
        raise Failed("\n".join(found))
    print(f"lint: {len(files)} files use the words of the field", flush=True)
