"""Every command that README.md and docs/*.md show runs, or is listed with the reason why it does not."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from tests.docs.commands import NEEDS_DATA, NOT_RUN, ROOT, Command, commands_of, documented, files_of, pages, small_cmt

PROGRAM = os.environ.get("CAMBER_PROGRAM") or str(ROOT / "build/camber")
# `make` names the folder from the project's root; the commands run elsewhere.
DATA = (ROOT / (os.environ.get("CAMBER_DATA") or "../shared/data")).resolve()


class DocumentedCommandsTest(unittest.TestCase):
    def test_finds_blocks_continued_lines_and_prose(self) -> None:
        text = (
            "```sh\ncamber verify   # all\nmake test\n```\n\n    A=1 build/camber bench head \\\n      --threads 2\n\n"
            "`camber train` says much,\n`camber faults\n--list` prints.\n"
        )
        found = [command.arguments for command in commands_of("page.md", text)]
        self.assertEqual(found, ["verify", "bench head --threads 2", "faults --list"])

    def test_every_exception_is_documented_and_has_a_reason(self) -> None:
        known = {command.arguments for command in documented(pages())}
        self.assertEqual(sorted(set(NOT_RUN) - known), [])
        self.assertTrue(all(NOT_RUN.values()))

    def test_every_command_runs(self) -> None:
        commands = documented(pages())
        self.assertGreater(len(commands), 30)
        with tempfile.TemporaryDirectory(prefix="camber_docs_") as name:
            folder = pathlib.Path(name)
            shutil.copytree(ROOT / "configs", folder / "configs")
            for file, text in files_of(pages()).items():
                (folder / file).write_text(text)
            (folder / "study").mkdir()
            shutil.copy(ROOT / "study/tables.md", folder / "study")
            shutil.copytree(ROOT / "study/fewshot", folder / "study/fewshot")
            (folder / "docs").mkdir()
            shutil.copy(ROOT / "docs/fewshot.md", folder / "docs")
            run, skipped = 0, 0
            known: set[str] = set()  # two commands may be the same when they are made short
            for command in commands:
                if command.arguments in NOT_RUN:
                    continue
                if NEEDS_DATA.search(command.arguments) and not DATA.is_dir():
                    print(f"skipped without CAMBER_DATA: {command.page}: camber {command.arguments}")
                    skipped += 1
                    continue
                run += 1
                if command.shortened() in known:
                    continue
                known.add(command.shortened())
                with self.subTest(page=command.page, command=command.arguments):
                    self.check(command, folder)
        print(f"{run} of {len(commands)} documented commands ran, {len(NOT_RUN)} are listed, {skipped} need data")

    def check(self, command: Command, folder: pathlib.Path) -> None:
        if command.page == "metrics.md" and not (folder / "truth.json").exists():
            self.call("predict --run runs/demo --split test --out results_nusc.json", folder)
            shutil.copy(folder / "results_nusc.json", folder / "truth.json")
        if command.page == "cmt.md" and not (folder / "epoch_20.pth").exists():
            self.make_checkpoint(folder)
        self.call(command.shortened(), folder)

    def make_checkpoint(self, folder: pathlib.Path) -> None:
        """What somebody brings to docs/cmt.md, at small widths: a file of torch.save with CMT's names."""
        for name in ("cmt_r50.toml", "cmt_r50_bias.toml"):
            (folder / name).write_text(small_cmt(name))
        self.call("train --config cmt_r50.toml --evaluation.limit=1 --out runs/cmt_made", folder)
        self.call("export cmt runs/cmt_made/model.safetensors --out epoch_20.pth", folder)

    def call(self, arguments: str, folder: pathlib.Path) -> None:
        environment = {**os.environ, "CAMBER_DATA": str(DATA)}
        line = f"'{PROGRAM}' {arguments}"
        answer = subprocess.run(
            line, shell=True, check=False, cwd=folder, env=environment, capture_output=True, text=True
        )
        self.assertEqual(answer.returncode, 0, f"camber {arguments}\n{answer.stderr}")


if __name__ == "__main__":
    unittest.main()
