"""The tables of docs/fewshot.md are those that its records give."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class FewshotPageTest(unittest.TestCase):
    def test_the_tables_are_those_of_the_records(self) -> None:
        page = ROOT / "docs/fewshot.md"
        with tempfile.TemporaryDirectory(prefix="camber_docs_") as folder:
            copy = pathlib.Path(folder) / "fewshot.md"
            shutil.copy(page, copy)
            command = [sys.executable, str(ROOT / "scripts/fewshot_study"), "--tables", "--into", str(copy)]
            subprocess.run(command, check=True)
            self.assertEqual(copy.read_text(), page.read_text())


if __name__ == "__main__":
    unittest.main()
