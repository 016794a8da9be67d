"""Trains a multilayer perceptron: `python train_mlp.py [--door compile|device|eager] [--steps 200]`."""

import argparse
import time

import torch
from torch import nn


def problem() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """The model, its inputs and the classes that it should learn: the nearest of ten random points."""
    torch.manual_seed(0)
    points, inputs = torch.randn(10, 256), torch.randn(128, 256)
    model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 10))
    return model, inputs, torch.cdist(inputs, points).argmin(1)


def loss_of(model: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(model(inputs), targets)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--door", choices=["compile", "device", "eager"], default="compile")
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    model, inputs, targets = problem()
    if options.door == "device":
        import xloom.torch

        device = xloom.torch.device()
        model, inputs, targets = model.to(device), inputs.to(device), targets.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loss_now = torch.compile(loss_of, backend="xloom") if options.door == "compile" else loss_of
    start = time.perf_counter()
    for step in range(options.steps):
        optimizer.zero_grad()
        loss = loss_now(model, inputs, targets)
        loss.backward()
        optimizer.step()
        if step % 50 == 0 or step == options.steps - 1:
            print(f"step {step:4d}: loss {loss.item():.4f}, {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
