"""Trains a small ResNet to tell patterns: `python train_resnet.py [--door compile|device|eager] [--steps 200]`."""

import argparse
import time

import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        plain = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if plain else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


def resnet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, 1, 1, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        Residual(16, 16, 1),
        Residual(16, 32, 2),
        Residual(32, 64, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


def problem() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    """The model, images, and which of ten patterns each has under its noise."""
    torch.manual_seed(0)
    patterns, classes = torch.randn(10, 3, 32, 32), torch.randint(0, 10, (16,))
    return resnet(), patterns[classes] + torch.randn(16, 3, 32, 32), classes


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
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
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
