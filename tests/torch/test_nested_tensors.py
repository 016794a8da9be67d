"""Nested tensors with a ragged dimension, through both doors."""

import pytest
import torch
from torch import nn

import xloom.torch  # noqa: F401 - it registers the device
from xloom.torch import compile_backend

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
LENGTHS = [[3, 5], [2, 2], [7, 1], [4, 4, 4]]


def parts(lengths, width=16):
    torch.manual_seed(0)
    return torch.nested.nested_tensor([torch.randn(n, width) for n in lengths], layout=torch.jagged)


def attention(x):
    heads = x.unflatten(-1, (2, 8)).transpose(1, 2)
    return nn.functional.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).flatten(-2)


FUNCTIONS = [
    lambda x: (x * 2).sin(),
    lambda x: x.softmax(-1),
    lambda x: x.sum(1),
    lambda x: torch.nested.to_padded_tensor(x, -1.0),
    lambda x: nn.functional.layer_norm(x, (16,)),
    attention,
]


def dense(x):
    return x.values() if x.is_nested else x


@pytest.mark.parametrize("function", FUNCTIONS)
def test_values_are_those_of_the_cpu(function):
    compiled = torch.compile(function, backend="xloom")
    for lengths in LENGTHS:
        x = parts(lengths)
        torch.testing.assert_close(dense(compiled(x)), dense(function(x)))
        torch.testing.assert_close(dense(function(x.to("xla"))).cpu(), dense(function(x)))


def test_gradients():
    layer = nn.Linear(16, 4)

    def loss_of(x):
        return torch.nested.to_padded_tensor(layer(x).relu(), 0.0).square().sum()

    compiled = torch.compile(loss_of, backend="xloom")
    for lengths in LENGTHS:
        gradients = []
        for loss in (compiled, loss_of):
            x = parts(lengths).requires_grad_()
            layer.zero_grad()
            loss(x).backward()
            assert x.grad is not None
            gradients.append((x.grad.values(), layer.weight.grad))
        torch.testing.assert_close(gradients[0], gradients[1])


def test_gradients_of_attention_on_the_device():
    found = []
    for device in ("cpu", "xla"):
        x = parts([3, 5]).to(device).detach().requires_grad_()
        attention(x).values().square().sum().backward()
        assert x.grad is not None
        found.append(x.grad.values().cpu())
    torch.testing.assert_close(found[1], found[0])


def test_attention_on_the_device_looks_back_where_it_is_to():
    heads = parts([3, 5]).to("xla").unflatten(-1, (2, 8)).transpose(1, 2)
    found = nn.functional.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
    for part, whole in zip(found.unbind(), heads.unbind(), strict=True):
        same = whole.cpu()
        wanted = nn.functional.scaled_dot_product_attention(same, same, same, is_causal=True)
        torch.testing.assert_close(part.cpu(), wanted)


def test_parts_of_other_places_need_no_other_program(monkeypatch):
    made = []
    own = compile_backend.translate

    def translate(*args, **options):
        made.append(args)
        return own(*args, **options)

    monkeypatch.setattr("xloom.torch.dynamic_graph.translate", translate)
    compiled = torch.compile(lambda x: x * 2, backend="xloom")
    for lengths in ([3, 5], [5, 3], [3, 5]):
        assert compiled(parts(lengths)).offsets().diff().tolist() == lengths
    assert len(made) == 1
