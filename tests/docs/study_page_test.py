"""The studies' pages are pages to read, and their rows are those that were made from the records."""

from __future__ import annotations

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COPIED = re.compile(r"<!-- from (\S+tables\.md) -->\n(.*?)<!-- end -->", re.DOTALL)
PAGES = ("docs/study.md", "docs/study_alarms.md")
LONGEST = 150


class StudyPageTest(unittest.TestCase):
    def setUp(self) -> None:
        self.pages = {page: (ROOT / page).read_text() for page in PAGES}

    def test_can_be_read_in_one_go(self) -> None:
        for page, text in self.pages.items():
            self.assertLessEqual(len(text.splitlines()), LONGEST, page)

    def test_every_copied_line_stands_in_the_tables(self) -> None:
        for page, text in self.pages.items():
            blocks = COPIED.findall(text)
            self.assertGreater(sum(len(block.splitlines()) for _, block in blocks), 20, page)
            for tables, block in blocks:
                made = set((ROOT / tables).read_text().splitlines())
                self.assertEqual([line for line in block.splitlines() if line not in made], [], page)

    def test_no_result_was_typed(self) -> None:
        for page, text in self.pages.items():
            typed = [
                line for line in COPIED.sub("", text).splitlines() if line.startswith("|") and re.search(r"\d", line)
            ]
            self.assertEqual(typed, [], page)


if __name__ == "__main__":
    unittest.main()
