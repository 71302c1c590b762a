"""Links of README.md, docs/*.md and the like lead to files and headings that are there; the navigation has every page."""

from __future__ import annotations

import pathlib
import re
import unittest

from documentation.markdown import ROOT, anchors, links, pages
from documentation.repository import target_of

NAVIGATION = re.compile(r"^\s+- .*?([a-z_]+\.md)$", re.MULTILINE)
MADE = {"python_api.md"}  # by documentation/


class LinksTest(unittest.TestCase):
    def test_finds_links_outside_of_code(self) -> None:
        text = "[a](b.md#c) ![d](e.svg) `[f](g.md)` [h](https://i.org)\n\n```\n[j](k.md)\n```\n\n    [l](m.md)\n"
        self.assertEqual(links(text), ["b.md#c", "e.svg"])

    def test_names_headings_as_github_does(self) -> None:
        text = "# The `bias`: what, why?\n## One\n### One\n```\n# no heading\n```\n## A [link](x.md) here\n"
        self.assertEqual(anchors(text), {"the-bias-what-why", "one", "one-1", "a-link-here"})

    def test_every_link_leads_somewhere(self) -> None:
        count = 0
        for page in pages():
            name = str(page.relative_to(ROOT))
            for link in links(page.read_text()):
                count += 1
                with self.subTest(page=name, link=link):
                    self.check(name, link)
        self.assertGreater(count, 100)

    def check(self, page: str, link: str) -> None:
        path, anchor = target_of(page, link)
        self.assertFalse(path.startswith(".."), "the link leaves the repository")
        self.assertTrue((ROOT / path).exists(), f"there is no {path}")
        if anchor and path.endswith(".md"):
            self.assertIn(anchor.removeprefix("#"), anchors((ROOT / path).read_text()))

    def test_every_page_is_in_the_navigation(self) -> None:
        named = NAVIGATION.findall((ROOT / "mkdocs.yml").read_text())
        self.assertEqual(sorted(set(named)), sorted(named))
        there = {page.name for page in (ROOT / "docs").glob("*.md")}
        self.assertEqual(set(named) - MADE, there)

    def test_every_image_is_shown(self) -> None:
        shown = {
            pathlib.Path(target_of(str(page.relative_to(ROOT)), link)[0])
            for page in pages()
            for link in links(page.read_text())
        }
        there = {image.relative_to(ROOT) for image in (ROOT / "docs/images").iterdir()}
        self.assertEqual(there - shown, set())


if __name__ == "__main__":
    unittest.main()
