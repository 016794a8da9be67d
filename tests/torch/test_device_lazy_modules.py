"""Modules whose parameters get their shapes from the first input."""

from copy import deepcopy

import pytest
import torch
from torch import nn

import xloom as xl
import xloom.torch


@pytest.mark.parametrize("where", ["moved", "made there"])
def test_the_first_input_gives_the_shapes(where):
    if where == "moved":
        model = nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d()).to("xla")
    else:
        model = nn.Sequential(nn.LazyLinear(3, device="xla"), nn.LazyBatchNorm1d(device="xla"))
    assert repr(model[0].weight) == "<UninitializedXlaParameter>"
    model(torch.ones(2, 4, device="xla")).sum().backward()
    assert isinstance(model[0].weight, nn.Parameter)
    gradient = model[0].weight.grad
    assert gradient is not None and gradient.shape == (3, 4)
    assert model[1].running_mean.device.type == "xla"
    assert sum(p.numel() for p in model.parameters()) == 3 * 4 + 3 + 3 + 3


def test_dtypes_and_copies_before_the_first_input():
    layer = deepcopy(nn.LazyConv1d(3, 2).to("xla")).to(torch.float64)
    assert layer(torch.ones(2, 4, 5, dtype=torch.float64, device="xla")).shape == (2, 3, 4)
    assert layer.weight.dtype is torch.float64


def test_the_way_back_is_an_error():
    with pytest.raises(xl.UnsupportedError, match="lazy module"):
        nn.LazyLinear(3).to("xla").to("cpu")


def test_statistics_that_are_not_kept():
    norm = nn.BatchNorm1d(3, track_running_stats=False).to("xla")
    assert norm(torch.ones(2, 3, device="xla")).abs().max().item() < 1e-6
