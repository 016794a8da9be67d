"""Sorting, the first of an order, places in it, and writing every so many elements: beside torch's CPU."""

import pytest
import torch

import xloom.torch as xt
from xloom.cpu.printers.kernel_choices import kernel_choices_text
from xloom.llvm.target import target_named
from xloom.passes import run_passes
from xloom.torch.compiled_graph import CpuCompiler

NAN, INF = float("nan"), float("inf")


def compiled(f):
    torch.compiler.reset()
    return torch.compile(f, backend="xloom", dynamic=False)


@pytest.mark.parametrize("size", [63, 64, 100, 128, 1000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_places_in_long_lines(size, dtype):
    def places(line, x):
        return torch.searchsorted(line, x), torch.searchsorted(line, x, right=True, out_int32=True)

    line = torch.arange(size).div(3, rounding_mode="floor").to(dtype)
    x = torch.arange(-3, size // 3 + 5).to(dtype)
    if dtype.is_floating_point:
        line[-3:], x[:3] = NAN, torch.tensor([NAN, INF, -INF])
    for a, b in ((line, x), (line.expand(2, -1).contiguous(), x.expand(2, -1).contiguous())):
        for given, expected in zip(compiled(places)(a, b), places(a, b), strict=True):
            torch.testing.assert_close(given, expected, rtol=0, atol=0)


def test_places_in_no_lines():
    line, x = torch.zeros(0, 4, 3), torch.zeros(0, 4, 5)
    assert compiled(torch.searchsorted)(line, x).shape == x.shape


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dim", [0, 1])
def test_the_first_of_an_order(largest, dim):
    x = torch.arange(90.0).mul(7).remainder(90).reshape(9, 10)
    x[2, 3], x[4, 3], x[5, 5], x[6, 5] = NAN, -NAN, INF, -INF
    given, expected = (f(x) for f in (lambda x: torch.topk(x, 3, dim, largest),) for f in (compiled(f), f))
    torch.testing.assert_close(given.values, expected.values, equal_nan=True)
    torch.testing.assert_close(x.gather(dim, given.indices), given.values, equal_nan=True)


def test_the_first_of_an_order_keeps_the_signs_of_zeros():
    x = torch.tensor([-1.0, -0.0, -2.0, -3.0])
    values, places = compiled(lambda x: torch.topk(x, 2))(x)
    assert places.tolist() == [1, 0] and values.signbit().all()


def test_orders_are_those_of_keys():
    """No comparator is called, though NaN is the greatest and both zeros are one number."""
    module = xt.hlo(lambda x: torch.sort(x, stable=True), torch.tensor([0.0, NAN, -0.0, 1.0] * 100))
    name = next(i.name for i in module.entry if i.opcode == "sort")
    assert "quicksort" in kernel_choices_text(module, [name], target_named("x86-64-v4"))


@pytest.mark.parametrize("step", [2, 3, 5])
@pytest.mark.parametrize("first", [0, 1, 7])
@pytest.mark.parametrize("last", [None, -1, 9])
def test_every_so_many(first, last, step):
    def f(x):
        y = x.clone()
        y[first:last:step] = -1.0
        y[:, first:last:step] += 100
        y[first::step, :last:step] = x[first::step, :last:step] * 2
        return y

    x = torch.arange(12.0 * 15).reshape(12, 15)
    torch.testing.assert_close(compiled(f)(x), f(x), rtol=0, atol=0)


def test_a_written_view_of_views_is_one_update(monkeypatch):
    def f(x, y):
        x = x * 2
        x[1:, 2:-1][:, 3][2:] += y
        return x

    modules = []
    compile_program = CpuCompiler.compile

    def noted(self, module):
        modules.append(module.clone())
        return compile_program(self, module)

    monkeypatch.setattr(CpuCompiler, "compile", noted)
    torch.testing.assert_close(*(g(torch.ones(9, 9, 4), torch.ones(6, 4)) for g in (f, compiled(f))))
    [module] = modules
    run_passes(module, "layout-simplification,dce")
    assert [i.opcode for i in module.entry].count("dynamic-update-slice") == 1
