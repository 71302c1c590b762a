"""docs/study.md is a page to read, and its rows are those that were made from the records."""

from __future__ import annotations

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COPIED = re.compile(r"<!-- from study/tables\.md -->\n(.*?)<!-- end -->", re.DOTALL)
LONGEST = 150


class StudyPageTest(unittest.TestCase):
    def setUp(self) -> None:
        self.page = (ROOT / "docs/study.md").read_text()

    def test_can_be_read_in_one_go(self) -> None:
        self.assertLessEqual(len(self.page.splitlines()), LONGEST)

    def test_every_copied_line_stands_in_the_tables(self) -> None:
        made = set((ROOT / "study/tables.md").read_text().splitlines())
        copied = [line for block in COPIED.findall(self.page) for line in block.splitlines()]
        self.assertGreater(len(copied), 20)
        self.assertEqual([line for line in copied if line not in made], [])

    def test_no_table_was_typed(self) -> None:
        rest = COPIED.sub("", self.page)
        self.assertEqual([line for line in rest.splitlines() if line.startswith("|")], [])


if __name__ == "__main__":
    unittest.main()
