"""torch.compile of functions of the device's tensors: graphs of ATen operators, which are recorded as others are."""

import pytest
import torch
from torch.utils._pytree import tree_map

import xloom.torch as xt
from xloom.torch.metrics import METRICS


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


@pytest.mark.parametrize("backend", ["xloom", "aot_eager", "eager"])
def test_one_graph_with_gradients_and_changes_in_place(backend):
    normal = torch.nn.BatchNorm1d(4)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), normal, torch.nn.GELU()).double()  # rows may be nearly equal
    there = [p.detach().clone() for p in model.parameters()]
    x = torch.rand(5, 3, dtype=torch.float64)
    model(x).square().sum().backward()
    wanted = [p.grad for p in model.parameters()], [b.clone() for b in model.buffers()]
    normal.reset_running_stats()
    model.zero_grad()
    model = model.to("xla")
    torch.compile(model, backend=backend, fullgraph=True)(x.to("xla")).square().sum().backward()
    for p, before, gradient in zip(model.parameters(), there, wanted[0], strict=True):
        torch.testing.assert_close(p.detach().cpu(), before)
        assert p.grad is not None
        torch.testing.assert_close(p.grad.cpu(), gradient)
    for buffer, statistic in zip(model.buffers(), wanted[1], strict=True):
        torch.testing.assert_close(buffer.cpu(), statistic)


def test_it_is_part_of_the_program_that_is_being_recorded():
    function = torch.compile(lambda x: (x.sin() * 2, x.add_(1)[1:]), backend="xloom", fullgraph=True)
    x = torch.arange(4.0).to("xla")
    function(x)
    xt.sync()
    before = METRICS.programs
    y = x * 2
    z, view = function(y)
    (z + view.sum()).tolist()
    assert METRICS.programs == before + 1
    assert view.tolist() == [5, 7, 9]
    view.zero_()
    assert y.tolist() == [3, 0, 0, 0]


def test_sizes_that_change():
    function = torch.compile(lambda x: x.sum(0) * x.shape[0], backend="xloom", fullgraph=True)
    for n in (2, 3, 5, 7):
        assert function(torch.ones(n, 2, device="xla")).tolist() == [n * n, n * n]


@pytest.mark.parametrize("compiles", [False, True])
def test_operators_that_take_functions(compiles):
    def chosen(x):
        return torch.cond(x.sum() > 3, lambda x: x.sin() * x, lambda x: x.cos(), (x,))

    def repeated(n, x):
        return torch.while_loop(lambda n, x: n > 0, lambda n, x: (n - 1, x * 1.5), (n, x))

    for run in (chosen, repeated):
        function = torch.compile(run, backend="xloom", fullgraph=True) if compiles else run
        for start in (0.0, 5.0):
            x = torch.arange(start, start + 3)
            args = (x,) if run is chosen else (torch.tensor(4), x)
            expected = run(*args)
            found = function(*(each.to("xla") for each in args))
            torch.testing.assert_close(tree_map(lambda y: y.cpu(), found), expected)


def test_gradients_of_a_branch():
    function = torch.compile(
        lambda x: torch.cond(x.sum() > 3, lambda x: x.sin(), lambda x: x * x, (x,)), backend="xloom"
    )
    for start in (0.0, 5.0):
        there = torch.arange(start, start + 3).requires_grad_()
        x = there.detach().to("xla").requires_grad_()
        (there.sin() if start else there * there).sum().backward()
        function(x).sum().backward()
        assert x.grad is not None
        torch.testing.assert_close(x.grad.cpu(), there.grad)
