"""Pages about the program's sub-commands, from what it says of itself: --help and --print-options."""

from __future__ import annotations

import concurrent.futures
import functools
import os
import re
import subprocess

from documentation.markdown import ROOT

SUB_COMMANDS = re.compile(r"^sub-commands:\n((?:  .*\n)+)", re.MULTILINE)
NAME = re.compile(r"^  ([a-z]\S*)", re.MULTILINE)
LONGEST_DEFAULT = 28
CONFIGURATION = re.compile(r"^configuration, .*?(?=^common options:)", re.MULTILINE | re.DOTALL)


def program() -> str:
    return os.environ.get("CAMBER_PROGRAM") or str(ROOT / "build/camber")


@functools.cache
def ask(*words: str) -> str:
    answer = subprocess.run([program(), *words], check=False, capture_output=True, text=True)
    if answer.returncode != 0:
        raise RuntimeError(f"camber {' '.join(words)}: {answer.stderr}")
    return answer.stdout


def sub_commands(help_text: str) -> list[str]:
    found = SUB_COMMANDS.search(help_text)
    return NAME.findall(found[1]) if found else []


def summary(help_text: str) -> str:
    return " ".join(help_text.split("\n\n", 2)[1].split())


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]


def option_tables(table: str, level: int) -> str:
    """The program's one table as one a section of the TOML file, with what is allowed beside the meaning."""
    sections: dict[str, list[str]] = {}
    for row in table.splitlines()[2:]:
        option, kind, standard, limits, meaning = cells(row)
        section, _, name = option.strip("`").rpartition(".")
        words = kind.replace("\\|", ", ") if "\\|" in kind else kind
        allowed = f"{words}, {limits}" if limits else words
        short = len(standard) <= LONGEST_DEFAULT
        said = meaning if short else f"{meaning}; default {standard}"
        shown = "" if standard in ("``", "") or not short else standard
        sections.setdefault(section, []).append(f"| `{name}` | {shown} | {said} | {allowed} |\n")
    text = ""
    for section, rows in sections.items():
        head = f"`[{section}]`" if section else "At the top"
        text += (
            f"{'#' * level} {head}\n\n| option | default | meaning | allowed |\n|---|---|---|---|\n{''.join(rows)}\n"
        )
    return text


def command_text(path: tuple[str, ...], help_text: str, level: int) -> str:
    """One sub-command and those below it, under headings."""
    text = f"{'#' * level} camber {' '.join(path)}\n\n"
    below = sub_commands(help_text)
    options = "--print-options" in help_text
    shown = CONFIGURATION.sub("", help_text) if options else help_text
    text += f"```text\n{shown.strip()}\n```\n\n"
    if options:
        text += (
            f"{'#' * (level + 1)} Configuration of camber {' '.join(path)}\n\n"
            "In the TOML file of `--config`, or on the command line as `--a.b=value`, which wins.\n\n"
            f"{option_tables(ask(*path, '--print-options'), level + 2)}\n"
        )
    for name in below:
        text += command_text((*path, name), ask(*path, name, "--help"), level + 1)
    return text


def command_pages() -> dict[str, str]:
    """The text of each page by its name: one a sub-command, and an index of them."""
    names = sub_commands(ask("--help"))
    with concurrent.futures.ThreadPoolExecutor() as pool:
        helps = dict(zip(names, pool.map(lambda name: ask(name, "--help"), names)))
    pages = {name: command_text((name,), helps[name], 1) for name in sorted(names)}
    rows = "".join(f"| [{name}]({name}.md) | {summary(helps[name])} |\n" for name in sorted(names))
    pages["index"] = (
        "# Every sub-command\n\nMade from the program's own `--help`.\n\n"
        f"| sub-command | what it does |\n|---|---|\n{rows}\n"
        "Exit codes: 0 done, 1 something failed, 2 the command line or the configuration is wrong, 130 after Ctrl-C. "
        "JSON goes to standard output alone, notes and the progress line to standard error.\n"
    )
    return pages
