"""Packs the wheel, looks into it, installs it beside a torch where the source tree is not to be seen, and uses it.

Run by the Python whose torch the library was built with. The whole list, in a new environment with a torch of its own and
under every Python that is there, is `scripts/prove wheel`.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import tempfile
import unittest
import zipfile

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
MINOR = ".".join(torch.__version__.split(".")[:2])
TINY = ("--scenes", "5", "--world.frames=1", "--seed", "7")


def run(*command: object, cwd: pathlib.Path | None = None) -> str:
    """What a program prints; without variables that would lead it to the source tree."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    words = [str(word) for word in command]
    answer = subprocess.run(
        words, cwd=cwd, env={**kept, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False
    )
    if answer.returncode != 0:
        raise AssertionError(f"{' '.join(words)} answered {answer.returncode}: {answer.stderr}")
    return answer.stdout


class WheelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory(prefix="camber_wheel_test_")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.wheel = pathlib.Path(run(ROOT / "scripts/wheel", cls.folder / "dist").strip())

    def test_name_requirement_and_contents(self) -> None:
        self.assertRegex(self.wheel.name, r"^camber-[\d.]+-py3-none-manylinux_2_\d+_x86_64\.whl$")
        with zipfile.ZipFile(self.wheel) as wheel:
            names = wheel.namelist()
            metadata = wheel.read(next(name for name in names if name.endswith("/METADATA"))).decode()
        self.assertIn(f"Requires-Dist: torch=={MINOR}.*\n", metadata)
        for wanted in ("py.typed", "libcamber_program.so", "configs/demo.toml", "configs/evaluation/world.json",
                       "licenses/LICENSE", "licenses/libpng16.txt"):  # fmt: skip
            self.assertIn(f"camber/{wanted}", names)
        brought = {
            re.sub(r"-[0-9a-f]{8}\.so.*", "", pathlib.PurePath(name).name) for name in names if ".libs/lib" in name
        }
        self.assertEqual(brought & {"libtorch", "libtorch_cpu", "libc10", "libgomp"}, set())
        self.assertEqual(brought, {"libfmt", "libpng16", "libsimdjson", "libtomlplusplus", "libturbojpeg"})

    def test_bill_of_materials_names_every_library_that_is_packed(self) -> None:
        with zipfile.ZipFile(self.wheel) as wheel:
            bill = json.loads(wheel.read("camber/licenses/sbom.cdx.json"))
            packed = [pathlib.PurePath(name).name for name in wheel.namelist() if ".libs/lib" in name]
        self.assertEqual((bill["bomFormat"], bill["specVersion"]), ("CycloneDX", "1.6"))
        names = [part["purl"].removeprefix("pkg:deb/debian/") for part in bill["components"]]
        for library in packed:
            stem = re.sub(r"-[0-9a-f]{8}\.so.*", "", library)
            self.assertTrue(any(name.startswith(stem) for name in names), library)
        self.assertTrue(all(part["version"] and part["licenses"] for part in bill["components"]))

    def test_no_library_knows_the_builder(self) -> None:
        with zipfile.ZipFile(self.wheel) as wheel:
            wheel.extractall(self.folder / "unpacked")
        libraries = list((self.folder / "unpacked").rglob("*.so*"))
        self.assertEqual(len(libraries), 7)
        for library in libraries:
            found = re.findall(r"(?:RUNPATH|RPATH).*\[(.*)\]", run("readelf", "-d", library))
            paths = [path for entry in found for path in entry.split(":") if path]
            self.assertTrue(all(path.startswith("$ORIGIN") for path in paths), (library.name, paths))
            self.assertNotIn(str(ROOT).encode(), library.read_bytes(), library.name)

    def test_runs_without_the_source_tree(self) -> None:
        environment, work = self.folder / "environment", self.folder / "work"
        run(sys.executable, "-m", "venv", "--without-pip", environment)
        python = environment / "bin/python"
        run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index",
            "--disable-pip-version-check", self.wheel)  # fmt: skip
        packages = pathlib.Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
        (packages / "torch_of_the_build.pth").write_text(sysconfig.get_path("purelib") + "\n")
        work.mkdir()
        made = json.loads(
            run(environment / "bin/camber", "simulate", "--out", "world", *TINY, "--format", "json", cwd=work)
        )
        self.assertEqual(made["scenes"], 5)
        code = (
            "import camber, torch; print(camber.__file__); q = torch.rand(1, 1, 4, 8); camber.biased_attention(q, q, q)"
        )
        self.assertTrue(run(python, "-c", code, cwd=work).startswith(str(packages)))


if __name__ == "__main__":
    unittest.main()
