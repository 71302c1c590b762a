"""Examples of docstrings as blocks of code: Markdown would take `>>>` for quotations."""

from __future__ import annotations

from typing import Any

import griffe


def with_code_blocks(text: str) -> str:
    out: list[str] = []
    inside = False
    for line in text.splitlines():
        if not inside and line.lstrip().startswith(">>>"):
            out.append("```pycon")
            inside = True
        elif inside and not line.strip():
            out.append("```")
            inside = False
        out.append(line)
    return "\n".join([*out, "```"] if inside else out)


class Examples(griffe.Extension):  # type: ignore[misc]
    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = with_code_blocks(obj.docstring.value)
