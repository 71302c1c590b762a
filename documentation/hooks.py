"""MkDocs calls these: they add the pages that are made by programs, and change links to files outside of docs/."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

from documentation import repository
from documentation.commands import command_pages
from documentation.cpp_api import api_pages
from documentation.markdown import ROOT
from documentation.python_api import python_page

# The entry of the navigation (mkdocs.yml) below which pages are added, and where they stand.
COMMANDS, CPP, PYTHON = "reference/commands", "reference/cpp", "reference/python_api.md"
made: dict[str, str] = {}
CELL, TAG = re.compile(r"<td( [^>]*)?>(.*?)</td>", re.DOTALL), re.compile(r"<[^>]+>")
SHORT, LONG = 15, 60  # characters of a cell that is not broken, and of one that gets more room
# What a search in pages that were opened from disk needs. The theme would fetch it from a server at every visit.
SHIM_ADDRESS, SHIM = "https://unpkg.com/iframe-worker/shim", "assets/javascripts/iframe-worker.js"


def section(folder: str, pages: dict[str, str]) -> list[Any]:
    names = sorted(name for name in pages if name != "index")
    return [f"{folder}/index.md", *({name: f"{folder}/{name}.md"} for name in names)]


def extend(nav: list[Any], title: str, entries: list[Any]) -> bool:
    """Puts entries where the navigation names an empty section."""
    for entry in nav:
        for name, content in entry.items() if isinstance(entry, dict) else ():
            if name == title:
                entry[name] = entries
                return True
            if isinstance(content, list) and extend(content, title, entries):
                return True
    return False


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    made.clear()
    for title, folder, pages in (("Commands and options", COMMANDS, command_pages()), ("C++ API", CPP, api_pages())):
        made.update({f"{folder}/{name}.md": text for name, text in pages.items()})
        if not extend(config.nav or [], title, section(folder, pages)):
            raise RuntimeError(f"mkdocs.yml: the navigation must have a section '{title}'")
    made[PYTHON] = python_page()
    made.update(repository.pages())
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for address, text in made.items():
        files.append(File.generated(config, address, content=text))
    for address, path in repository.assets():
        files.append(File.generated(config, address, abs_src_path=str(path)))
    shim = ROOT / "node_modules/iframe-worker/shim/index.js"
    files.append(File.generated(config, SHIM, abs_src_path=str(shim)))
    return files


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Cells of tables by the length of their text: a browser would break numbers and squeeze sentences."""

    def sized(match: re.Match[str]) -> str:
        length = len(unescape(TAG.sub("", match[2])))
        name = "short" if length <= SHORT else "long" if length > LONG else ""
        return f'<td class="{name}"{match[1] or ""}>{match[2]}</td>' if name else match[0]

    return CELL.sub(sized, html)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    return output.replace(SHIM_ADDRESS, get_relative_url(SHIM, page.url))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    source = page.file.src_uri
    return markdown if source in made else repository.with_site_links(f"docs/{source}", markdown)
