"""Files outside of docs/ that pages link to, as pages or assets of the site under repository/."""

from __future__ import annotations

import pathlib
import posixpath

from documentation.markdown import ROOT, change_links, links

FOLDER = "repository"
LANGUAGES = {".cpp": "cpp", ".h": "cpp", ".py": "python", ".toml": "toml", ".json": "json", ".cmake": "cmake"}
ASSETS = (".svg", ".png", ".jpg")


def is_inside(path: str) -> bool:
    return path.startswith("docs/")


def address(path: str) -> str:
    """Where a file of the repository stands in the site's sources."""
    if is_inside(path):
        return path.removeprefix("docs/")
    if path.endswith((".md", *ASSETS)):
        return f"{FOLDER}/{path}"
    return f"{FOLDER}/{path}.md"


def target_of(page: str, link: str) -> tuple[str, str]:
    """The file in the repository that a link on a page means, and the anchor with its sign."""
    path, sign, anchor = link.partition("#")
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page, sign + anchor


def with_site_links(page: str, text: str) -> str:
    """The text of a page of the repository with links that hold on the site."""

    def change(link: str) -> str:
        path, anchor = target_of(page, link)
        return posixpath.relpath(address(path), posixpath.dirname(address(page)) or ".") + anchor

    return change_links(text, change)


def page_text(path: str) -> str:
    """A file of the repository as a page."""
    file = ROOT / path
    if file.suffix == ".md":
        return with_site_links(path, file.read_text())
    if file.is_dir():
        names = sorted(entry.name + ("/" if entry.is_dir() else "") for entry in file.iterdir())
        return f"# {path}\n\n" + "".join(f"- `{name}`\n" for name in names)
    language = LANGUAGES.get(file.suffix, "cmake" if file.name == "CMakeLists.txt" else "text")
    return f"# {path}\n\n````{language}\n{file.read_text()}````\n"


def linked_files() -> list[str]:
    """Every file outside of docs/ that a page of docs/, or such a file itself, links to."""
    waiting = [f"docs/{file.name}" for file in sorted((ROOT / "docs").glob("*.md"))]
    seen: set[str] = set()
    while waiting:
        page = waiting.pop()
        for link in links((ROOT / page).read_text()):
            path, _ = target_of(page, link)
            if path in seen or is_inside(path):
                continue
            if not (ROOT / path).exists():
                raise FileNotFoundError(f"{page} links to {link}, and there is no {path}")
            seen.add(path)
            if path.endswith(".md"):
                waiting.append(path)
    return sorted(seen)


def assets() -> list[tuple[str, pathlib.Path]]:
    return [(address(path), ROOT / path) for path in linked_files() if path.endswith(ASSETS)]


def pages() -> dict[str, str]:
    return {address(path): page_text(path) for path in linked_files() if not path.endswith(ASSETS)}
