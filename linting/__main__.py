"""Runs the checks; scripts/lint says how."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from linting import ladder, project, python_checks, tidy, words
from linting.files import INCLUDE, ROOT, Failed, is_cpp, is_python, run, tracked


def check_cpp_format(files: Sequence[str]) -> None:
    answer = run("clang-format-14", "--dry-run", "--Werror", *files)
    if answer.returncode != 0:
        raise Failed(answer.stderr + "lint: run make format")
    for file in files:
        if any(name.endswith(".cpp") for name in INCLUDE.findall((ROOT / file).read_text())):
            raise Failed(f"lint: {file} includes a .cpp file")
    print(f"lint: {len(files)} C++ files are formatted", flush=True)


def check_cpp(files: Sequence[str]) -> None:
    project.configure()
    units = project.translation_units()
    links = project.links(project.GRAPH.read_text())
    every_file = [file for file in tracked([]) if is_cpp(file)]
    ladder.check(every_file, units, links)
    print("lint: every room includes what its target links", flush=True)
    wanted = [unit for unit in units if not unit.sources.isdisjoint(files)]
    sources = {source for unit in wanted for source in unit.sources}
    left_out = sum(file.endswith(".cpp") and file not in sources for file in files)
    if left_out:
        print(f"lint: {left_out} files belong to no target of this build and are not analysed")
    tidy.check(wanted)


def main(arguments: Sequence[str]) -> None:
    paths = [argument for argument in arguments if argument != "--fix"]
    files = tracked(paths)
    cpp, python = [file for file in files if is_cpp(file)], [file for file in files if is_python(file)]
    if not cpp and not python:
        raise Failed(f"lint: no C++ or Python file is tracked under {' '.join(paths)}")
    if "--fix" in arguments:
        if cpp and run("clang-format-14", "-i", *cpp).returncode != 0:
            raise Failed("lint: clang-format-14 failed")
        if python:
            python_checks.format_files(python)
        print(f"lint: {len(cpp)} C++ and {len(python)} Python files formatted")
        return
    words.check(files)
    if cpp:
        check_cpp_format(cpp)
    if python:
        python_checks.check(python, [file for file in tracked([]) if is_python(file)])
    if cpp:
        check_cpp(cpp)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Failed as failure:
        sys.exit(str(failure))
