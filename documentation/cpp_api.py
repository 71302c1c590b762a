"""Pages about the C++ headers: Doxygen reads them, its XML becomes one page a room of include/camber."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import tempfile
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from documentation.headers import prepare
from documentation.markdown import ROOT

SETTINGS = """
PROJECT_NAME = Camber
INPUT = {headers}
RECURSIVE = YES
FILE_PATTERNS = *.h
STRIP_FROM_PATH = {headers}
OUTPUT_DIRECTORY = {out}
GENERATE_HTML = NO
GENERATE_LATEX = NO
GENERATE_XML = YES
XML_PROGRAMLISTING = NO
QUIET = YES
WARN_IF_UNDOCUMENTED = NO
WARN_IF_DOC_ERROR = YES
WARN_FORMAT = "docs: $file:$line: $text"
EXTRACT_ALL = YES
AUTOLINK_SUPPORT = NO
EXCLUDE_SYMBOLS = *::detail *::detail::*
"""
SPECIAL = re.compile(r"([\\`*_\[\]<>|])")
# Macros and the visitor that lists options: of no use to a reader.
LEFT_OUT = re.compile(r"^(TORCH_MODULE(_IMPL)?|visit)$")


class Entity(NamedTuple):
    """Something that a header declares."""

    header: str
    line: int
    element: ET.Element
    members: tuple[ET.Element, ...] = ()


def room_of(header: str) -> str:
    return header.split("/")[1]


def escape(text: str) -> str:
    return SPECIAL.sub(r"\\\1", text)


def code(text: str) -> str:
    """C++ as it is written here: Doxygen sets spaces round brackets and before signs."""
    brackets = re.sub(r"< (?=\S)", "<", re.sub(r"(?<=\S) >", ">", text))
    return re.sub(r" ([&*]+) ?(?=[,)>])", r"\1", re.sub(r" ([&*]+) ?(?=\w)", r"\1 ", brackets)).strip()


def plain(element: ET.Element | None) -> str:
    return " ".join("".join(element.itertext()).split()) if element is not None else ""


def code_of(listing: ET.Element) -> str:
    """The text of a block of code; Doxygen writes its spaces as elements."""
    for space in listing.iter("sp"):
        space.text = " "
    lines = ["".join(line.itertext()) for line in listing.iter("codeline")]
    if not lines:
        lines = "".join(listing.itertext()).strip("\n").splitlines()
    depth = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return "\n```cpp\n" + "\n".join(line[depth:] for line in lines).rstrip() + "\n```\n"


def inline(element: ET.Element) -> str:
    """Text with its code spans; blocks inside of it stand on lines of their own."""
    text = escape(element.text or "")
    for child in element:
        if child.tag in ("programlisting", "verbatim", "preformatted"):
            text += "\n" + code_of(child) + "\n"
        elif child.tag == "computeroutput":
            text += f"`{plain(child)}`"
        elif child.tag in ("itemizedlist", "orderedlist"):
            text += "\n\n" + "".join(f"- {plain_text(item)}\n" for item in child.iter("listitem")) + "\n"
        elif child.tag == "emphasis":
            text += f"*{inline(child)}*"
        elif child.tag == "bold":
            text += f"**{inline(child)}**"
        elif child.tag in ("linebreak", "sp"):
            text += " "
        else:
            text += inline(child)
        text += escape(child.tail or "")
    return text


def plain_text(element: ET.Element) -> str:
    return " ".join(inline(element).split())


def description(element: ET.Element) -> str:
    """What the comment says, in Markdown."""
    parts: list[str] = []
    for name in ("briefdescription", "detaileddescription"):
        found = element.find(name)
        if found is not None:
            parts += [inline(paragraph).strip() for paragraph in found.iter("para") if not is_nested(found, paragraph)]
    return "\n\n".join(part for part in parts if part)


def is_nested(root: ET.Element, paragraph: ET.Element) -> bool:
    """Whether the paragraph stands in another one, with which it is written."""
    return any(paragraph is not other and paragraph in other.iter("para") for other in root.iter("para"))


def declaration(member: ET.Element) -> str:
    kind, name = member.get("kind"), plain(member.find("name"))
    template = member.find("templateparamlist")
    text = ""
    if template is not None:
        parameters = [f"{plain(p.find('type'))} {plain(p.find('declname'))}".strip() for p in template]
        text = f"template <{', '.join(parameters)}>\n"
    if kind == "enum":
        values = [plain(value.find("name")) for value in member.iter("enumvalue")]
        return f"enum class {name} {{ {', '.join(values)} }};"
    if kind == "typedef":
        definition = plain(member.find("definition"))
        return definition if definition.startswith("using") else f"{definition};"
    arguments, initial = plain(member.find("argsstring")), plain(member.find("initializer"))
    explicit = "explicit " if member.get("explicit") == "yes" else ""
    static = "static " if member.get("static") == "yes" else ""
    value = f" {initial}" if kind == "variable" and initial not in ("", "{}") and len(initial) < 60 else ""
    return text + code(f"{explicit}{static}{plain(member.find('type'))} {name}{arguments}{value};".replace("  ", " "))


def meaning(member: ET.Element) -> str:
    """What is said of a member: by its comment, else by the visitor that lists the options."""
    said = description(member)
    at = member.find("location")
    if said or at is None:
        return said
    after = (ROOT / "include" / at.get("file", "")).read_text().splitlines()[line_of(member) :]
    found = re.search(rf'visitor\("{plain(member.find("name"))}", \w+,\s*((?:"[^"]*"\s*)+)', "\n".join(after))
    return escape("".join(re.findall(r'"([^"]*)"', found[1]))) if found else ""


def variables_text(variables: list[ET.Element]) -> str:
    """A table, or only code where nothing more is said."""
    rows = [(declaration(member).rstrip(";"), " ".join(meaning(member).split())) for member in variables]
    if not any(said for _, said in rows):
        return code_block([f"{declared};" for declared, _ in rows])
    text = "| member | meaning |\n|---|---|\n"
    for declared, said in rows:
        text += f"| `{declared.replace('|', '&#124;')}` | {said} |\n"
    return text + "\n"


def code_block(lines: list[str]) -> str:
    return "```cpp\n" + "\n".join(lines) + "\n```\n\n" if lines else ""


def declarations_text(members: list[ET.Element]) -> str:
    """Every declaration in code, what is said of it below; neighbours of which nothing is said share a block."""
    text, waiting = "", list[str]()
    for member in members:
        waiting.append(declaration(member))
        said = description(member)
        if said:
            text += code_block(waiting) + f"{said}\n\n"
            waiting = []
    return text + code_block(waiting)


def members_text(members: tuple[ET.Element, ...]) -> str:
    variables = [member for member in members if member.get("kind") == "variable"]
    others = [member for member in members if member.get("kind") != "variable"]
    return (variables_text(variables) if variables else "") + declarations_text(others)


def entities(folder: pathlib.Path) -> Iterator[Entity]:
    """Everything that the headers declare outside of functions; what is private stays out."""
    for file in sorted(folder.glob("*.xml")):
        if file.name == "index.xml":
            continue
        for compound in ET.parse(file).getroot().iter("compounddef"):
            members = tuple(
                member
                for member in compound.iter("memberdef")
                if member.get("prot") == "public" and not LEFT_OUT.match(plain(member.find("name")))
            )
            place = compound.find("location")
            if compound.get("kind") in ("class", "struct") and place is not None:
                if compound.get("prot") == "public":
                    ordered = sorted(members, key=line_of)
                    yield Entity(place.get("file", ""), int(place.get("line", "0")), compound, tuple(ordered))
            elif compound.get("kind") == "namespace":
                for member in members:
                    at = member.find("location")
                    if at is not None:
                        yield Entity(at.get("declfile") or at.get("file") or "", line_of(member), member)


def line_of(member: ET.Element) -> int:
    at = member.find("location")
    return int((at.get("declline") or at.get("line") or "0") if at is not None else 0)


def class_text(entity: Entity) -> str:
    element = entity.element
    short = plain(element.find("compoundname")).removeprefix("camber::")
    bases = [code(plain(base)) for base in element.iter("basecompoundref")]
    after = f"\n\nDerives from `{bases[0]}`." if bases else ""
    head = f"### {element.get('kind')} {escape(short)}"
    return f"{head}\n\n{description(element)}{after}\n\n{members_text(entity.members)}"


def header_text(found: list[Entity]) -> str:
    """What one header declares, in its order."""
    text, waiting = "", list[ET.Element]()
    for entity in sorted(found, key=lambda entity: entity.line):
        if entity.element.tag == "compounddef":
            text += declarations_text(waiting) + class_text(entity)
            waiting = []
        else:
            waiting.append(entity.element)
    return text + declarations_text(waiting)


def room_text(room: str, found: list[Entity]) -> str:
    by_header: dict[str, list[Entity]] = defaultdict(list)
    for entity in found:
        by_header[entity.header].append(entity)
    return f"# C++: {room}\n\n" + "".join(
        f"## {header}\n\n{header_text(by_header[header])}" for header in sorted(by_header)
    )


def run_doxygen(folder: pathlib.Path) -> pathlib.Path:
    headers = folder / "include"
    prepare(ROOT / "include", headers)
    if shutil.which("doxygen") is None:
        raise RuntimeError("no doxygen on PATH: run scripts/setup")
    settings = SETTINGS.format(headers=headers, out=folder)
    subprocess.run(["doxygen", "-"], input=settings, check=True, text=True)
    return folder / "xml"


def api_pages() -> dict[str, str]:
    """The text of each page by the name of its room, and an index."""
    rooms: dict[str, list[Entity]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="camber_docs_") as name:
        for entity in entities(run_doxygen(pathlib.Path(name))):
            if entity.header.startswith("camber/"):
                rooms[room_of(entity.header)].append(entity)
    pages = {room: room_text(room, rooms[room]) for room in sorted(rooms)}
    return pages | {"index": index_text(rooms)}


def index_text(rooms: dict[str, list[Entity]]) -> str:
    public = re.search(r"set\(camber_public_rooms ([a-z_ ]+)\)", (ROOT / "cmake/camber_room.cmake").read_text())
    installed = public[1].split() if public else []
    text = (
        "# C++ API\n\nOne page a room, from the headers by Doxygen. `find_package(camber)` offers the installed rooms as "
        "`camber::ROOM`; the others are parts of the program.\n\n| room | headers | installed |\n|---|---|---|\n"
    )
    for room in sorted(rooms, key=lambda room: (room not in installed, room)):
        names = sorted({pathlib.Path(entity.header).name for entity in rooms[room]})
        text += f"| [{room}]({room}.md) | {', '.join(f'`{name}`' for name in names)} | "
        text += f"{'yes' if room in installed else 'no'} |\n"
    return text
