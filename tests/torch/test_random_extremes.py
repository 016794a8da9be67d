"""Random numbers of the least bits that a generator gives, which come once in 2**24 draws."""

import pytest
import torch

import xloom.torch  # noqa: F401  the device
from xloom.torch.lowering.graph import Graph

SIZE = 37  # of no other test, as what is compiled here has no random bits


@pytest.fixture(autouse=True)
def no_bits(monkeypatch):
    monkeypatch.setattr(Graph, "random_bits", lambda g, dims, dtype: g.full(dims, 0, dtype))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_exponential_numbers_are_above_0(dtype):
    assert torch.empty(SIZE, dtype=dtype, device="xla").exponential_().min() > 0
    assert torch.empty(SIZE, dtype=dtype, device="xla").geometric_(0.5).min() == 1


@pytest.mark.parametrize("replacement", [True, False])
def test_what_has_no_weight_is_not_drawn(replacement):
    weights = torch.zeros(SIZE, device="xla")
    weights[5] = 0.25
    assert torch.multinomial(weights, 1, replacement=replacement).tolist() == [5]
