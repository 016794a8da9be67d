"""Loops cut where conditions on them change: each piece has code of its own, without them."""

import itertools
import re

import numpy as np
import pytest

import xloom as xl
from tests.cpu.optimised import optimised
from xloom.cpu.lower import lowered
from xloom.cpu.prepare import prepared
from xloom.llvm.target import process_target

REFLECT = """ENTRY e {{ x = s8[{n},{m}] parameter(0)
  a = s8[3,{m}] slice(x), slice={{[1:4], [0:{m}]}} b = s8[3,{m}] reverse(a), dimensions={{0}}
  c = s8[3,{m}] slice(x), slice={{[{p}:{q}], [0:{m}]}} d = s8[3,{m}] reverse(c), dimensions={{0}}
  y = s8[{h},{m}] concatenate(b, x, d), dimensions={{0}}
  f = s8[{h},3] slice(y), slice={{[0:{h}], [1:4]}} g = s8[{h},3] reverse(f), dimensions={{1}}
  ROOT z = s8[{h},{w}] concatenate(g, y), dimensions={{1}} }}"""


def reflect(n, m):
    return xl.parse(REFLECT.format(n=n, m=m, p=n - 4, q=n - 1, h=n + 6, w=m + 3))


@pytest.mark.parametrize("n, m", [(5, 5), (70, 300), (300, 70)])
def test_edges_that_are_mirrored(n, m):
    x = np.random.default_rng(n).integers(-99, 99, (n, m)).astype(np.int8)
    expected = np.pad(np.pad(x, ((3, 3), (0, 0)), mode="reflect"), ((0, 0), (3, 0)), mode="reflect")
    np.testing.assert_array_equal(xl.compile(reflect(n, m))(x), expected)


def test_rows_are_not_chosen_element_by_element():
    program = lowered(prepared(reflect(300, 400)), process_target())[-1]
    (kernel_module,) = program.modules.values()
    assert re.search(r"extractelement <\d+ x i64>", str(optimised(kernel_module.text))) is None  # none of addresses


@pytest.mark.parametrize("low, high, interior", [*itertools.product((-1, 0, 2), (-2, 0, 1), (0, 1))])
def test_padding_of_both_dimensions(low, high, interior):
    n, m = (k + (k - 1) * interior + low + high for k in (40, 50))
    module = xl.parse(
        f"ENTRY e {{ x = f32[40,50] parameter(0) v = f32[] parameter(1) a = f32[40,50] negate(x) "
        f"ROOT y = f32[{n},{m}] pad(a, v), padding={low}_{high}_{interior}x{low}_{high}_{interior} }}"
    )
    x = np.arange(2000, dtype=np.float32).reshape(40, 50)
    np.testing.assert_array_equal(xl.compile(module)(x, np.float32(7)), xl.evaluate(module, x, np.float32(7)))


STENCIL = """ENTRY e {{ x = f32[{n},{n},{n}] parameter(0) v = f32[] constant(7)
  a = f32[{m},{m},{m}] slice(x), slice={{[2:{n}], [1:{p}], [1:{p}]}}
  b = f32[{m},{m},{m}] slice(x), slice={{[1:{p}], [1:{p}], [0:{m}]}}
  c = f32[{m},{m},{m}] add(a, b) d = f32[{m},{m},{m}] tanh(c) e = f32[{m},{n},{n}] pad(d, v), padding=0_0x1_1x1_1
  f = f32[1,{n},{n}] slice(x), slice={{[0:1], [0:{n}], [0:{n}]}}
  g = f32[1,{n},{n}] slice(x), slice={{[{p}:{n}], [0:{n}], [0:{n}]}}
  ROOT y = f32[{n},{n},{n}] concatenate(f, e, g), dimensions={{0}} }}"""


def stencil(n):
    return xl.parse(STENCIL.format(n=n, m=n - 2, p=n - 1))


@pytest.mark.parametrize("n", [3, 9, 40])
def test_edges_of_three_dimensions(n):
    x = np.random.default_rng(n).standard_normal((n, n, n)).astype(np.float32)
    np.testing.assert_allclose(xl.compile(stencil(n))(x), xl.evaluate(stencil(n), x), rtol=1e-6)


def test_conditions_on_the_outermost_loop_are_outside_the_others():
    program = lowered(prepared(stencil(40)), process_target())[-1]
    (kernel_module,) = program.modules.values()
    inner = re.findall(r"^i\.done[.\d]*:", kernel_module.text, re.M)
    # the first and the last are copies; in between the first and last rows, and the ends of all others
    assert len(inner) == 1 + (1 + 3 + 1) + 1
    assert re.search(r"fdiv.* <\d+ x float>", str(optimised(kernel_module.text)))  # the tangent's


@pytest.mark.parametrize("n", [16, 1000, 1237])
def test_elements_that_lie_between_those_of_the_innermost_loop(n):
    """So many at a time that the lines that they share stay in the first cache."""
    module = xl.parse(
        f"ENTRY e {{ x = f32[{n},5] parameter(0) a = f32[{n},1,5] reshape(x) b = f32[{n},1,5] negate(a) "
        f"c = f32[{n},2,5] concatenate(a, b), dimensions={{1}} y = f32[{n},2,5,3] broadcast(c), dimensions={{0,1,2}} "
        f"i = f32[{n},2,5,3] iota(), iota_dimension=3 ROOT p = pred[{n},2,5,3] compare(y, i), direction=EQ }}"
    )
    x = np.random.default_rng(n).integers(-3, 4, (n, 5)).astype(np.float32)
    np.testing.assert_array_equal(xl.compile(module)(x), np.stack([x, -x], 1)[..., None] == np.arange(3))
