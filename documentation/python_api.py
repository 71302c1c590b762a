"""The page about the Python package: what it exports, each by its docstring, which mkdocstrings reads without importing it."""

from __future__ import annotations

import ast

from documentation.markdown import ROOT


def exported() -> list[str]:
    tree = ast.parse((ROOT / "python/camber/__init__.py").read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return list(ast.literal_eval(node.value))
    raise RuntimeError("python/camber/__init__.py must have __all__")


def python_page() -> str:
    text = "# Python API\n\n[Camber from Python](../python.md) shows how the parts go together.\n\n"
    return text + "".join(f"::: camber.{name}\n\n" for name in exported())
