"""Writes a file of weights with the names and shapes of torchvision's ResNet-50 and random values.

python resnet50_state.py FILE
"""

import pathlib
import sys

import torch

NAMES = pathlib.Path(__file__).with_name("torchvision_resnet50.txt")


def main() -> None:
    state = {}
    for text in NAMES.read_text().splitlines():
        name, *shape = text.split()
        drawn = torch.rand([int(size) for size in shape]) * 0.02 + 0.01
        state[name] = torch.tensor(0) if name.endswith("tracked") else drawn
    torch.save(state, sys.argv[1])


if __name__ == "__main__":
    main()
