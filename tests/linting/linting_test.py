"""The checks of `make lint` on made-up files."""

from __future__ import annotations

import contextlib
import io
import os
import pathlib
import tempfile
import unittest
from unittest import mock

from linting import files, ladder, project, tidy, words

# train links nn PUBLIC and storage PRIVATE; nn links ops PUBLIC and random PRIVATE.
GRAPH = """
    "node0" [ label = "camber_train\\n(camber::train)", shape = octagon ];
    "node1" [ label = "camber_nn\\n(camber::nn)", shape = octagon ];
    "node0" -> "node1"  // camber_train -> camber_nn
    "node2" [ label = "camber_storage", shape = octagon ];
    "node0" -> "node2" [ style = dotted ] // camber_train -> camber_storage
    "node3" [ label = "camber_ops", shape = octagon ];
    "node1" -> "node3" [ style = solid ] // camber_nn -> camber_ops
    "node4" [ label = "camber_random", shape = octagon ];
    "node1" -> "node4" [ style = dotted ] // camber_nn -> camber_random
"""
ROOMS = ("train", "nn", "storage", "ops", "random")


class LintingTest(unittest.TestCase):
    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name)
        for module in (files, tidy):
            patch = mock.patch.object(module, "ROOT", self.root)
            patch.start()
            self.addCleanup(patch.stop)
        environment = mock.patch.dict(os.environ, {"XDG_CACHE_HOME": str(self.root / "cache")})
        environment.start()
        self.addCleanup(environment.stop)

    def write(self, path: str, text: str) -> str:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)
        files.includes.cache_clear()
        files.included.cache_clear()
        return path

    def breaches(self, header: str, source: str = "src/train/loop.cpp") -> list[str]:
        """What is wrong with a file of the room train that includes this header."""
        self.write(header, "")
        name = header.removeprefix("include/").removeprefix("src/")
        self.write(source, f'#include "{name}"\n')
        units = [
            project.Unit(f"{room}.cpp", f"camber_{room}", frozenset({f"src/{room}/loop.cpp"}), "") for room in ROOMS
        ]
        return list(ladder.breaches([source], ladder.Owners(units), project.links(GRAPH)))

    def test_an_old_word_is_found_in_prose_and_in_names(self) -> None:
        for line in ("a picture", "kPictureRows", "picture_width", "the Figures", "it leans to", "loadPicture()"):
            self.assertEqual(len(words.findings("a.cpp", [line])), 1, line)

    def test_other_words_that_hold_an_old_one_are_fine(self) -> None:
        for line in ("configure", "clean", "boolean", "emplace_back", "sitting_lying_down", 'stream.at("picture")'):
            self.assertEqual(words.findings("a.cpp", [line]), [], line)

    def test_a_room_may_include_what_its_target_links(self) -> None:
        self.assertEqual(self.breaches("include/camber/nn/loop.h"), [])
        self.assertEqual(self.breaches("include/camber/storage/file.h"), [])

    def test_public_links_are_handed_on(self) -> None:
        self.assertEqual(self.breaches("include/camber/ops/attention.h"), [])

    def test_private_links_are_not_handed_on(self) -> None:
        found = self.breaches("include/camber/random/stream.h")
        self.assertEqual(found, ["train -> include/camber/random/stream.h"])

    def test_a_private_header_of_another_room_is_refused(self) -> None:
        self.assertEqual(self.breaches("src/nn/parts.h"), ["train -> src/nn/parts.h"])
        self.assertEqual(self.breaches("src/train/parts.h"), [])

    def test_a_room_knows_no_test(self) -> None:
        self.assertEqual(self.breaches("tests/support/cases.h"), ["train -> tests/support/cases.h"])

    def test_a_breach_fails_with_its_sentence(self) -> None:
        self.write("src/nn/parts.h", "")
        self.write("src/train/loop.cpp", '#include "nn/parts.h"\n')
        with self.assertRaisesRegex(files.Failed, "src/nn/parts.h, a private header of the room nn"):
            ladder.check(["src/train/loop.cpp"], [], project.links(GRAPH))

    def analysed(self, minutes: str, status: int = 0) -> tuple[int, str]:
        """How often clang-tidy ran for one unit, and what was printed."""
        for rules in tidy.RULES:
            self.write(rules, "")
        unit = project.Unit("unit.cpp", "camber_train", frozenset({"src/train/loop.cpp"}), "g++ loop.cpp")
        answer = mock.Mock(returncode=status, stdout="warning: bad")
        out = io.StringIO()
        with (
            mock.patch.object(tidy, "run", return_value=answer) as program,
            mock.patch.object(tidy, "write_rules"),
            mock.patch.object(tidy, "copy_openmp_header"),
            mock.patch.object(tidy, "programs", return_value=pathlib.Path()),
            mock.patch.object(tidy, "changed_files", return_value={"src/train/loop.cpp"}),
            mock.patch.dict(os.environ, {"CAMBER_LINT_MINUTES": minutes}),
            contextlib.redirect_stdout(out),
        ):
            try:
                tidy.check([unit])
            finally:
                calls = sum(call.args[-1] == "unit.cpp" for call in program.call_args_list)
        return calls, out.getvalue()

    def test_what_passed_is_not_analysed_until_it_changes(self) -> None:
        self.write("src/train/loop.cpp", "int a;\n")
        self.assertEqual(self.analysed("1")[0], 1)
        self.assertEqual(self.analysed("1")[0], 0)
        self.write("src/train/loop.cpp", "int b;\n")
        self.assertEqual(self.analysed("1")[0], 1)

    def test_what_failed_is_analysed_again(self) -> None:
        self.write("src/train/loop.cpp", "int a;\n")
        for _ in range(2):
            with self.assertRaisesRegex(files.Failed, "1 of 1 units fail"):
                self.analysed("1", status=1)

    def test_says_what_was_not_analysed_in_time(self) -> None:
        self.write("src/train/loop.cpp", "int a;\n")
        calls, out = self.analysed("-1")
        self.assertEqual(calls, 0)
        self.assertIn("NOT ANALYSED for want of time: 1 units, 1 of them with changes", out)
        self.assertIn("changed and not analysed: src/train/loop.cpp", out)


if __name__ == "__main__":
    unittest.main()
