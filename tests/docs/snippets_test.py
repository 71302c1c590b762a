"""Code in the documentation is code that runs: excerpts of examples/, which are compiled and run, and doctests."""

from __future__ import annotations

import json
import re
import unittest

from documentation.markdown import ROOT, Block, blocks, pages
from tests.docs.commands import FILE

EXCERPT = re.compile(r"<!-- from (examples/\S+) -->")
LANGUAGES = {"", "cpp", "python", "json", "toml", "sh", "text"}


def stripped(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


def stands_in(excerpt: str, whole: str) -> bool:
    wanted, lines = stripped(excerpt), stripped(whole)
    return any(lines[i : i + len(wanted)] == wanted for i in range(len(lines) - len(wanted) + 1))


class SnippetsTest(unittest.TestCase):
    def test_an_excerpt_is_whole_lines_in_a_row(self) -> None:
        whole = "int main() {\n  first();\n  second();\n}\n"
        self.assertTrue(stands_in("first();\nsecond();\n", whole))
        self.assertFalse(stands_in("first();\n}\n", whole))
        self.assertFalse(stands_in("first(1);\n", whole))

    def test_every_block(self) -> None:
        count = 0
        for page in pages():
            for block in blocks(page.read_text()):
                with self.subTest(page=page.name, line=block.line):
                    self.assertIn(block.language, LANGUAGES)
                    self.check(page.name, block)
                    count += block.language in ("cpp", "python")
        self.assertGreater(count, 10)

    def check(self, page: str, block: Block) -> None:
        if block.language == "json":
            json.loads(block.text)
        elif block.language == "toml":
            self.assertTrue(FILE.search(block.before), "a comment must name the file that the page's commands read")
        elif block.language in ("cpp", "python"):
            found = EXCERPT.search(block.before)
            if found is None:
                self.assertEqual(block.language, "python", "C++ must be an excerpt of examples/")
                self.assertIn(">>>", block.text, "Python must be a doctest or an excerpt of examples/")
                self.assertIn(f'"../docs/{page}"', (ROOT / "python/pyproject.toml").read_text())
            else:
                self.assertTrue(stands_in(block.text, (ROOT / found[1]).read_text()), f"{found[1]} says otherwise")


if __name__ == "__main__":
    unittest.main()
