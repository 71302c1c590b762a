"""The tables of docs/fewshot.md are those that its records give."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EMPTIED = re.compile(r"(<!-- table: \w+ -->\n).*?(<!-- end: \w+ -->)", re.DOTALL)


class FewshotPageTest(unittest.TestCase):
    def test_the_tables_are_those_of_the_records(self) -> None:
        page = ROOT / "docs/fewshot.md"
        with tempfile.TemporaryDirectory(prefix="camber_docs_") as folder:
            copy = pathlib.Path(folder) / "fewshot.md"
            shutil.copy(page, copy)
            program = os.environ.get("CAMBER_PROGRAM", str(ROOT / "build/camber"))
            records = str(ROOT / "study/fewshot")
            command = [program, "study", "fewshot", "tables", "--from", records, "--into", str(copy)]
            copy.write_text(EMPTIED.sub(r"\1\2", copy.read_text()))
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            self.assertEqual(copy.read_text(), page.read_text())


if __name__ == "__main__":
    unittest.main()
