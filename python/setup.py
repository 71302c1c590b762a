"""Packs the shared libraries that `make build` made, and the configurations, into the package; nothing is compiled here.

CAMBER_LIBRARY=/path/to/libcamber_ops.so names a library that lies elsewhere; the others lie beside it.
"""

import json
import os
import shutil
import sys
from pathlib import Path

import setuptools

# An isolated build has what pyproject.toml asks for; without isolation it is the environment's own that is met.
if int(setuptools.__version__.split(".")[0]) < 77:
    sys.exit(
        f"[camber] setuptools must be at least 77, got {setuptools.__version__}: run `pip install ./python`, which fetches "
        "one for the build, or `pip install --upgrade setuptools` first"
    )
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
LIBRARY = Path(os.environ.get("CAMBER_LIBRARY", HERE.parent / "build" / "lib" / "libcamber_ops.so"))
DESCRIPTION, PROGRAM = LIBRARY.with_suffix(".json"), LIBRARY.with_name("libcamber_program.so")
LICENCES = LIBRARY.parent / "licenses"  # of a wheel, which scripts/wheel puts together
CONFIGURATIONS = HERE.parent / "configs"


class BuildWithLibraries(build_py):
    def run(self) -> None:
        super().run()
        target = Path(self.build_lib) / "camber"
        for source in (LIBRARY, DESCRIPTION, PROGRAM):
            shutil.copy2(source, target / source.name)
        if LICENCES.is_dir():
            shutil.copytree(LICENCES, target / "licenses", dirs_exist_ok=True)
        shutil.copytree(CONFIGURATIONS, target / "configs", dirs_exist_ok=True)


class WithLibraries(setuptools.Distribution):
    """What is packed depends on the platform, though nothing is compiled."""

    def has_ext_modules(self) -> bool:
        return True


class PlatformWheel(bdist_wheel):
    """No Python interface is compiled in: one wheel for every Python 3 of this platform."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


for needed in (LIBRARY, DESCRIPTION, PROGRAM):
    if not needed.is_file():
        sys.exit(f"[camber] {needed} must exist before the package is installed: run `make build` first")
(HERE.parent / "build" / "python").mkdir(parents=True, exist_ok=True)
description = json.loads(DESCRIPTION.read_text())
setuptools.setup(
    version=description["version"],
    # The libraries run on the torch minor that they were built with, and on no other.
    install_requires=[f"torch=={'.'.join(description['torch'].split('.')[:2])}.*"],
    distclass=WithLibraries,
    cmdclass={"build_py": BuildWithLibraries, "bdist_wheel": PlatformWheel},
)
