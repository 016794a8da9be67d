"""Programs as deep as their authors like: no stage needs Python's stack for it."""

import inspect
import sys
from collections.abc import Iterator

import numpy as np
import pytest

import xloom as xl

FRAMES = 120
"""Of Python's stack, which callers may have used up nearly: JAX alone takes hundreds."""


@pytest.fixture(scope="module", autouse=True)
def imported() -> None:
    """What stages import when they first run takes more of the stack than all else."""
    for program in (chain(1), moves(1)):
        module = xl.parse(program)
        xl.compile(module)
        xl.evaluate(module, np.zeros(4, module.entry.parameters[0].shape.dtype.numpy))


@pytest.fixture(autouse=True)
def little_stack(imported: None) -> Iterator[None]:
    """A program that is deeper than this, and a stage that calls itself for it, do not go together."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + FRAMES)
    yield
    sys.setrecursionlimit(before)


def chain(count: int) -> str:
    """x = x * 1.5 + c, as unrolled integrators have it."""
    lines = [
        f"k{i} = f32[] constant({i / count}) w{i} = f32[4] broadcast(k{i}), dimensions={{}} "
        f"m{i} = f32[4] multiply(x{i}, h) x{i + 1} = f32[4] add(m{i}, w{i})"
        for i in range(count)
    ]
    return f"""ENTRY e {{ x0 = f32[4] parameter(0) half = f32[] constant(0.5) h = f32[4] broadcast(half), dimensions={{}}
      {" ".join(lines)} ROOT r = f32[4] negate(x{count}) }}"""


def moves(count: int) -> str:
    """Operators that choose between places, and places that are data, one in the other."""
    lines = [
        f"p{i} = s32[6] pad(x{i}, z), padding=1_1 v{i} = s32[4] slice(p{i}), slice={{[1:5]}} "
        f"c{i}_ = s32[8] concatenate(v{i}, x0), dimensions={{0}} o{i} = s32[1] slice(c{i}_), slice={{[3:4]}} "
        f"at{i} = s32[] reshape(o{i}) x{i + 1} = s32[4] dynamic-slice(c{i}_, at{i}), dynamic_slice_sizes={{4}}"
        for i in range(count)
    ]
    return f"""ENTRY e {{ x0 = s32[4] parameter(0) z = s32[] constant(3)
      {" ".join(lines)} ROOT r = s32[4] negate(x{count}) }}"""


@pytest.mark.parametrize("count", [10, 100, 1000])
@pytest.mark.parametrize("program", [chain, moves])
def test_long_chains(program, count):
    module = xl.parse(program(count))
    given = np.array([1, 3, 0, 2], module.entry.parameters[0].shape.dtype.numpy)
    assert np.allclose(xl.compile(module)(given), xl.evaluate(module, given), rtol=1e-5)
