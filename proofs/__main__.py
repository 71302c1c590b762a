"""Runs the proofs.

scripts/prove                          all tests, `camber verify`, every proof
scripts/prove NAME [PART ...]          one proof, or only these parts of it
scripts/prove WORD                     the proofs whose name contains the word
scripts/prove NAME --help              the parts and options of one proof
"""

from __future__ import annotations

import argparse
import importlib
import os
import pathlib
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from types import ModuleType

from proofs.programs import CAMBER, ROOT, ProgramFailed, words
from proofs.report import Proof

NAMES = (
    "attention",
    "cluster",
    "cmt",
    "cmt_finetune",
    "crashes",
    "detector",
    "fewshot",
    "fuzz",
    "health",
    "hostile",
    "nuscenes",
    "nuscenes_speed",
    "own_data",
    "python",
    "random_comparison",
    "soak",
    "study",
    "training",
    "wheel",
    "world",
)


def module_of(name: str) -> ModuleType:
    return importlib.import_module(f"proofs.{name}")


def options_of(name: str, arguments: Sequence[str]) -> argparse.Namespace:
    module = module_of(name)
    parser = argparse.ArgumentParser(
        prog=f"scripts/prove {name}", description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", help=f"only these parts: {', '.join(module.PARTS)}")
    if hasattr(module, "add_options"):
        module.add_options(parser)
    options = parser.parse_args(arguments)
    for part in options.parts:
        if part not in module.PARTS:
            parser.error(f"parts must be among {', '.join(module.PARTS)}, got '{part}'")
    return options


def prove(name: str, options: argparse.Namespace) -> bool:
    """Runs a proof; whether each of its values reached its target."""
    print(f"\n=== {name}", flush=True)
    parts = module_of(name).PARTS
    with tempfile.TemporaryDirectory(prefix="camber_prove_") as folder:
        proof = Proof(pathlib.Path(folder), options)
        try:
            for part in options.parts or list(parts):
                if len(parts) > 1:
                    print(f"--- {part}", flush=True)
                parts[part](proof)
        except ProgramFailed as failure:
            print(failure, file=sys.stderr, flush=True)
            return False
        except Exception:  # one broken proof must not hide the others
            traceback.print_exc()
            return False
    return proof.missed == 0


def prove_basics() -> list[str]:
    """All tests and the promises that the program itself can check."""
    failed = []
    for name, command in (("tests", ["scripts/test"]), ("verify", words(CAMBER, "verify"))):
        if subprocess.run(command, check=False).returncode != 0:
            failed.append(name)
    return failed


def main(arguments: Sequence[str]) -> int:
    os.chdir(ROOT)
    wanted = arguments[0] if arguments else ""
    if wanted in ("-h", "--help"):
        print(f"{__doc__}\nproofs: {', '.join(NAMES)}")
        return 0
    names = [wanted] if wanted in NAMES else [name for name in NAMES if wanted in name]
    if not names:
        print(f"prove: the name must be among {', '.join(NAMES)} or a part of one, got '{wanted}'", file=sys.stderr)
        return 2
    if len(names) > 1 and arguments[1:]:
        print(f"prove: parts and options belong to one proof, got '{wanted}' for {', '.join(names)}", file=sys.stderr)
        return 2
    options = {name: options_of(name, arguments[1:]) for name in names}
    failed = prove_basics() if not wanted else []
    failed += [name for name in names if not prove(name, options[name])]
    if failed:
        print(f"\nprove: short of its target: {' '.join(failed)}", flush=True)
        return 1
    print("\nprove: every value reached its target", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
