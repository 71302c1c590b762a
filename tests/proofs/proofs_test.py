"""How the package proofs reports and ends."""

from __future__ import annotations

import argparse
import contextlib
import io
import pathlib
import types
import unittest
from collections.abc import Callable
from unittest import mock

import proofs.__main__ as program
from proofs import programs
from proofs.report import Part, Proof, parts_of

MODULES_THAT_ARE_NO_PROOF = {
    "__init__",
    "__main__",
    "crash_scenarios",
    "hostile_case",
    "hostile_changes",
    "hostile_list",
    "hostile_trial",
    "programs",
    "report",
}


def printed(call: Callable[[], object]) -> tuple[object, str, str]:
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        answer = call()
    return answer, out.getvalue(), errors.getvalue()


def prove(*parts: Part) -> tuple[object, str, str]:
    """The program on a proof that has these parts."""
    module = types.SimpleNamespace(PARTS=parts_of(*parts), __doc__="made up")
    with mock.patch.object(program, "module_of", lambda name: module):
        return printed(lambda: program.main(["training"]))


def reaches(proof: Proof) -> None:
    proof.line("speed", "3 x", "at least 2", True)


def misses(proof: Proof) -> None:
    proof.line("speed", "1 x", "at least 2", False)


def breaks(proof: Proof) -> None:
    raise programs.ProgramFailed("camber train failed: no world")


class ProofsTest(unittest.TestCase):
    def test_every_module_is_listed_and_has_parts(self) -> None:
        files = {path.stem for path in pathlib.Path(program.__file__).parent.glob("*.py")}
        self.assertEqual(files - MODULES_THAT_ARE_NO_PROOF, set(program.NAMES))
        for name in program.NAMES:
            self.assertTrue(program.module_of(name).PARTS, name)

    def test_says_when_a_value_reaches_its_target(self) -> None:
        status, out, _ = prove(reaches)
        self.assertEqual(status, 0)
        self.assertIn("reached  speed: 3 x (target: at least 2)\n", out)

    def test_fails_when_a_value_misses_its_target(self) -> None:
        status, out, _ = prove(reaches, misses)
        self.assertEqual(status, 1)
        self.assertIn("MISSED   speed: 1 x (target: at least 2)\n", out)
        self.assertIn("prove: short of its target: training\n", out)

    def test_fails_when_a_program_fails(self) -> None:
        status, _, errors = prove(breaks)
        self.assertEqual(status, 1)
        self.assertIn("camber train failed: no world", errors)

    def test_a_skipped_value_does_not_fail(self) -> None:
        proof = Proof(pathlib.Path("."), argparse.Namespace())
        _, out, _ = printed(lambda: proof.skip("omniglot", "no data"))
        self.assertEqual((proof.missed, out), (0, "skipped  omniglot: no data\n"))

    def test_refuses_an_unknown_name_and_an_unknown_part(self) -> None:
        status, _, errors = printed(lambda: program.main(["nothing"]))
        self.assertEqual(status, 2)
        self.assertIn("got 'nothing'", errors)
        with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()) as stream:
            program.main(["training", "nothing"])
        self.assertIn("got 'nothing'", stream.getvalue())


if __name__ == "__main__":
    unittest.main()
