"""Weights that are kept as a direction and a size, on both doors."""

import pytest
import torch
from torch.nn.utils.parametrizations import weight_norm

import xloom.torch


def gradients(module):
    return [p.grad.cpu().clone() for p in module.parameters() if p.grad is not None]


@pytest.mark.parametrize("door", ["compile", "device"])
@pytest.mark.parametrize("dim", [0, 2, -2])
def test_gradients(door, dim):
    torch._dynamo.reset()
    torch.manual_seed(0)
    module = weight_norm(torch.nn.Conv1d(4, 6, 3, groups=2), dim=dim)
    x = torch.randn(2, 4, 9)
    module(x).pow(2).sum().backward()
    want = gradients(module)
    module.zero_grad()
    if door == "compile":
        torch.compile(module, backend="xloom")(x).pow(2).sum().backward()
    else:
        device = xloom.torch.device()
        module.to(device)(x.to(device)).pow(2).sum().backward()
    for found, expected in zip(gradients(module), want, strict=True):
        torch.testing.assert_close(found, expected)
