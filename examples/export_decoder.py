"""Compiles a decoder with the bias ahead of time, and runs the package that comes of it.

python examples/export_decoder.py PACKAGE.pt2
"""

import sys
from pathlib import Path

import torch
from cmt_decoder_with_bias import Decoder

import camber  # registers the operators that the package calls


def main(path: Path) -> None:
    torch.manual_seed(0)
    decoder = Decoder().eval()
    memory, key_position = torch.randn(256, 1, 64), torch.randn(256, 1, 64)
    inputs = (torch.rand(1, 12, 3), memory, key_position, torch.rand(1, 12, 1))
    exported = torch.export.export(decoder, inputs)
    package = torch._inductor.aoti_compile_and_package(exported, package_path=str(path))
    run = torch._inductor.aoti_load_package(package)
    others = (torch.rand(1, 12, 3), memory, key_position, torch.rand(1, 12, 1))
    difference = max((a - b).abs().max().item() for a, b in zip(run(*others), decoder(*others)))
    print(f"camber {camber.__version__}: the package differs by {difference:.1e}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
