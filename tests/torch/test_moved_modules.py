"""What a module's parameters keep when it moves to the device or back: hooks, and the optimiser that has them."""

import pytest
import torch
from torch import nn

import xloom.torch  # noqa: F401 - it registers the device


def test_hooks_of_parameters_are_called_and_can_be_removed():
    model = nn.Linear(3, 3)
    called = []
    handle = model.weight.register_hook(lambda grad: called.append("gradient"))
    model.bias.register_post_accumulate_grad_hook(lambda parameter: called.append(parameter.device.type))
    model.to("xla")
    model(torch.ones(2, 3, device="xla")).sum().backward()
    assert sorted(called) == ["gradient", "xla"]
    handle.remove()
    model(torch.ones(2, 3, device="xla")).sum().backward()
    assert sorted(called) == ["gradient", "xla", "xla"]


@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.AdamW])
def test_an_optimizer_made_before_goes_on_with_what_moved(make):
    weights = []
    for places in (["cpu", "cpu"], ["xla", "xla"], ["xla", "cpu"], ["cpu", "xla"]):
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        optimizer = make(model.parameters(), lr=0.1)
        for place in places:
            model.to(place)
            for _ in range(2):
                optimizer.zero_grad()
                model(torch.ones(2, 3, device=place)).square().sum().backward()
                optimizer.step()
        weights.append(model.weight.detach().cpu())
    for other in weights[1:]:
        torch.testing.assert_close(other, weights[0])
