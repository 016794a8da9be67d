"""What compiled programs of numbers leave out: results that none reads, places that are the same in each line."""

import json

import pytest
import torch
from torch.nn import functional as F

from xloom.torch import lapack


def compiled(f):
    torch.compiler.reset()
    return torch.compile(f, backend="xloom", dynamic=False)


@pytest.mark.parametrize("values", [torch.linalg.eigvalsh, torch.linalg.svdvals, torch.linalg.eigvals])
def test_vectors_that_none_reads_are_not_found(values, monkeypatch):
    calls = []
    options = lapack._options
    monkeypatch.setattr(lapack, "_options", lambda opaque: calls.append(json.loads(opaque)) or options(opaque))
    x = torch.randn(3, 5, 5, generator=torch.Generator().manual_seed(0))
    x = x + x.mT
    given = compiled(values)(x)
    torch.testing.assert_close(given.abs().sort().values, values(x).abs().sort().values, rtol=1e-4, atol=1e-4)
    assert calls and not any(call.get("compute_v") or call.get("compute_uv") for call in calls)


@pytest.mark.parametrize("how", ["sum", "mean", "prod", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
def test_places_of_whole_lines(how, include_self):
    def reduced(x, places, v):
        return x.scatter_reduce(0, places[:, None].expand(-1, x.shape[1]), v, how, include_self=include_self)

    g = torch.Generator().manual_seed(0)
    x, v = torch.randn(6, 5, generator=g), torch.randn(9, 5, generator=g)
    places = torch.randint(0, 6, (9,), generator=g)
    torch.testing.assert_close(compiled(reduced)(x, places, v), reduced(x, places, v))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_some_of_which_are_empty(mode):
    starts = torch.tensor([0, 0, 3, 7, 7, 9, 9])
    places, table = torch.tensor([1, 4, 2, 2, 0, 3, 3, 1, 4]), torch.arange(15.0).sin().reshape(5, 3)

    def bags(places, table, starts):
        return F.embedding_bag(places, table, starts, mode=mode)

    torch.testing.assert_close(compiled(bags)(places, table, starts), bags(places, table, starts))


def test_the_nearest_does_not_change_with_the_grid():
    def gradients(x, grid):
        found = F.grid_sample(x, grid, mode="nearest", align_corners=True)
        return torch.autograd.grad(found.square().sum(), (x, grid))

    g = torch.Generator().manual_seed(0)
    x, grid = torch.randn(2, 3, 5, 6, generator=g), torch.rand(2, 4, 4, 2, generator=g) * 2.4 - 1.2
    x, grid = x.requires_grad_(), grid.requires_grad_()
    expected = gradients(x, grid)
    sampled = compiled(lambda x, grid: F.grid_sample(x, grid, mode="nearest", align_corners=True))
    given = torch.autograd.grad(sampled(x, grid).square().sum(), (x, grid))
    for a, b in zip(given, expected, strict=True):
        torch.testing.assert_close(a, b)
