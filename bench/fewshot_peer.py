#!/usr/bin/env python3
"""Conv4 prototype training as one writes it in PyTorch's Python: the peer of `camber fewshot` on Omniglot's settings.

  bench/fewshot_peer.py --episodes 100 --threads 2            channels first, as tutorials have it
  bench/fewshot_peer.py --episodes 100 --channels-last        the faster memory format

Prints one JSON object with the episodes trained a second; 20 classes, 1 shot, 5 queries, 28x28, 32 channels, Adam.
"""

import argparse
import json
import time

import torch
from torch import nn


def block(inputs, channels):
    return nn.Sequential(
        nn.Conv2d(inputs, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(), nn.MaxPool2d(2)
    )


def sample(images, ways, queries):
    classes = torch.randperm(images.shape[0])[:ways]
    chosen = torch.stack([images[c][torch.randperm(images.shape[1])[: 1 + queries]] for c in classes])
    return torch.cat([chosen[:, 0], chosen[:, 1:].flatten(0, 1)])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--channels-last", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    ways, queries = 20, 5
    images = (torch.rand(544, 20, 1, 28, 28) < 0.08).float()
    model = nn.Sequential(block(1, 32), block(32, 32), block(32, 32), block(32, 32), nn.Flatten())
    if arguments.channels_last:
        model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    targets = torch.arange(ways).repeat_interleave(queries)
    for episode in range(-5, arguments.episodes):
        if episode == 0:
            began = time.perf_counter()
        batch = sample(images, ways, queries)
        if arguments.channels_last:
            batch = batch.to(memory_format=torch.channels_last)
        features = model(batch)
        logits = -(torch.cdist(features[ways:], features[:ways]) ** 2)
        loss = nn.functional.cross_entropy(logits, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    seconds = time.perf_counter() - began
    print(
        json.dumps(
            {
                "torch": torch.__version__,
                "threads": arguments.threads,
                "channels_last": arguments.channels_last,
                "episodes_per_second": arguments.episodes / seconds,
            }
        )
    )


if __name__ == "__main__":
    main()
