"""Recurrent networks on the device: values and gradients are those of the CPU."""

import copy

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

import xloom.torch  # noqa: F401
from xloom.pjrt import Client
from xloom.torch.lazy.runtime import device_client


@pytest.fixture(autouse=True)
def _interpreted(monkeypatch):
    """What is compiled is tested elsewhere."""
    interpreter = Client.interpreter()
    monkeypatch.setattr(device_client, "client", lambda: interpreter)


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.LSTM(3, 4, 2, bidirectional=True),
        lambda: nn.LSTM(3, 4, bias=False),
        lambda: nn.GRU(3, 4),
        lambda: nn.RNN(3, 4),
        lambda: nn.Upsample(scale_factor=1.5, mode="linear"),
    ],
    ids=["lstm", "lstm without bias", "gru", "rnn", "upsample"],
)
def test_values_and_gradients(make):
    torch.manual_seed(0)
    model = make()
    there = copy.deepcopy(model).to("xla")
    x = torch.randn(3, 2, 3)
    found = []
    for each, given in ((model, x.clone()), (there, x.to("xla"))):
        given.requires_grad_()
        results = tree_leaves(each(given))
        torch.stack([(r**2).sum() for r in results]).sum().backward()
        parameters = [given, *each.parameters()]
        found.append([t.detach().cpu() for t in results] + [p.grad.cpu() for p in parameters if p.grad is not None])
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-5)
