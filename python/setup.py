"""Packs the shared library that `make build` made into the package; nothing is compiled here.

CAMBER_LIBRARY=/path/to/libcamber_ops.so names a library that lies elsewhere.
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
LIBRARY = Path(os.environ.get("CAMBER_LIBRARY", HERE.parent / "build" / "src" / "ops" / "libcamber_ops.so"))
DESCRIPTION = LIBRARY.with_suffix(".json")


class BuildWithLibrary(build_py):
    def run(self) -> None:
        super().run()
        target = Path(self.build_lib) / "camber"
        for source in (LIBRARY, DESCRIPTION):
            shutil.copy2(source, target / source.name)


class PlatformWheel(bdist_wheel):
    """No Python interface is compiled in: one wheel for every Python 3 of this platform."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


for needed in (LIBRARY, DESCRIPTION):
    if not needed.is_file():
        sys.exit(f"[camber] {needed} must exist before the package is installed: run `make build` first")
(HERE.parent / "build" / "python").mkdir(parents=True, exist_ok=True)
setuptools.setup(
    version=json.loads(DESCRIPTION.read_text())["version"],
    cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": PlatformWheel},
)
