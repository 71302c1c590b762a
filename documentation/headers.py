"""Headers as Doxygen should read them.

Lines of a comment that are indented by two or more are code, tables or formulas, which Doxygen would join to a paragraph;
words in angle brackets are names, which it would take for HTML.
"""

from __future__ import annotations

import pathlib
import re

COMMENT = re.compile(r"^(\s*)///(?!<|/) ?(.*)$")
LIST_ITEM = re.compile(r"[-*] |\d+\. ")
TAG = re.compile(r"(?<!\\)<(?=[a-z/])")
CODE_SPAN = re.compile(r"(`[^`]*`)")


def escaped(line: str) -> str:
    """A line of code with the angle brackets of its comment escaped, outside of `code`."""
    before, sign, comment = line.partition("///")
    if not sign:
        return line
    mark, text = ("<", comment[1:]) if comment.startswith("<") else ("", comment)
    parts = CODE_SPAN.split(text)
    return before + sign + mark + "".join(part if part.startswith("`") else TAG.sub(r"\\<", part) for part in parts)


def prepared(text: str) -> str:
    out: list[str] = []
    in_code, in_list, indent = False, False, ""
    for line in text.splitlines():
        found = COMMENT.match(line)
        words = found[2] if found else ""
        if found and words:
            in_list = bool(LIST_ITEM.match(words)) or (in_list and words.startswith(" "))
        elif not found:
            in_list = False
        indent = found[1] if found else indent
        is_code = words.startswith("  ") and not in_list
        if is_code and not in_code:
            out.append(f"{indent}/// @code{{.unparsed}}")
        if in_code and not is_code:
            out.append(f"{indent}/// @endcode")
        in_code = is_code
        out.append(line if is_code else escaped(line))
    return "\n".join(out) + "\n"


def prepare(source: pathlib.Path, target: pathlib.Path) -> None:
    """Writes every header below `source` to the same path below `target`."""
    for header in sorted(source.rglob("*.h")):
        copy = target / header.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(prepared(header.read_text()))
