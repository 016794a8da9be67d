"""Layouts of outlined calls: row-major, those that a kernel or an option asks for, or the program's."""

import numpy as np
import pytest

import xloom as xl
from tests.passes.pattern.roundtrip import expanded, same
from xloom.calls import remove
from xloom.hlo.module import Module
from xloom.passes import outline_pattern
from xloom.passes.pattern import pattern_of

PATTERN = """ENTRY p {
  x = f32[2,3] parameter(0)
  y = f32[2,3] parameter(1)
  s = f32[2,3] sine(x)
  ROOT r = f32[2,3] add(s, y)
}"""
PROGRAM = """ENTRY main {
  x = f32[3,4,5]{0,2,1} parameter(0)
  y = f32[3,4,5] parameter(1)
  s = f32[3,4,5]{0,1,2} sine(x)
  r = f32[3,4,5]{0,1,2} add(s, y)
  ROOT n = (f32[3,4,5]{0,1,2}, f32[3,4,5]{2,1,0}) tuple(r, s)
}"""
X, Y = np.random.default_rng(0).standard_normal((2, 3, 4, 5), np.float32)


@pytest.fixture(autouse=True)
def forget():
    yield
    for platform in ("Host", "sim"):
        remove("test.K", platform)


def outlined(**options: str) -> Module:
    module = xl.parse(PROGRAM)
    assert outline_pattern(module, pattern_of(PATTERN, "p"), "test.K", escaping=True, **options).found
    xl.verify(module)
    assert same(expanded(module), xl.parse(PROGRAM))
    return module


def orders(module: Module) -> list[tuple[int, ...]]:
    call = next(i for i in module.entry if i.opcode == "custom-call")
    return [
        s.layout.minor_to_major if s.layout else () for s in (*(o.shape for o in call.operands), *call.shape.elements)
    ]


def test_row_major_unless_asked_otherwise() -> None:
    row = (2, 1, 0)
    for text in ("", "row-major"):
        assert orders(outlined(layouts=text)) == [row, row, row, row]
    assert orders(outlined(layouts="as-is")) == [(0, 2, 1), row, (0, 1, 2), (0, 1, 2)]
    assert orders(outlined(layouts="y={0,1,2},result.1={1,2,0}")) == [row, (0, 1, 2), row, (1, 2, 0)]


def test_the_kernel_may_ask() -> None:
    xl.custom_call("test.K", layouts="x={0,1,2}")(lambda out, x, y: None)
    assert orders(outlined())[:2] == [(0, 1, 2), (2, 1, 0)]
    assert orders(outlined(layouts="row-major"))[0] == (2, 1, 0)


@pytest.mark.parametrize("layouts", ["", "as-is", "x={1,0,2},result.0={0,2,1}"])
def test_a_kernel_sees_its_buffers_so(layouts: str) -> None:
    seen = []

    @xl.custom_call("test.K")
    @xl.custom_call("test.K", platform="sim")
    def kernel(out, x, y):
        seen.append([np.argsort(a.strides, kind="stable").tolist() for a in (x, y, *out)])
        out[0][...] = np.sin(x) + y
        out[1][...] = np.sin(x)

    module = outlined(layouts=layouts)
    for result in (xl.evaluate(module, X, Y), xl.compile(module)(X, Y), xl.sim.Simulator().run(module, X, Y)):
        np.testing.assert_allclose(result[0], np.sin(X) + Y, rtol=1e-5)
        np.testing.assert_allclose(result[1], np.sin(X), rtol=1e-5)
    assert seen == [[list(order) for order in orders(module)]] * 3


@pytest.mark.parametrize(
    ("layouts", "what"),
    [
        ("column-major", "means nothing.*\n.*write row-major, as-is, or"),
        ("z={2,1,0}", "no operand 'z' to lay out.*\n.*it has: x, y, result.0, result.1"),
        ("x={1,0}", r"the layout \{1,0\} for x is none of f32\[3,4,5\]"),
    ],
)
def test_layouts_that_mean_nothing_are_errors(layouts: str, what: str) -> None:
    with pytest.raises(xl.PassError, match=what):
        outlined(layouts=layouts)


def test_a_layout_for_an_operand_that_only_some_matches_have() -> None:
    masked = """HloModule p
    ENTRY p {
      x = f32[2,3] parameter(0)
      y = f32[2,3] parameter(1)
      mask = f32[2,3] parameter(2)
      a = f32[2,3] add(y, mask)
      either = f32[2,3] custom-call(a, y), custom_call_target="xloom.either"
      s = f32[2,3] sine(x)
      ROOT r = f32[2,3] subtract(s, either)
    }"""
    plain = xl.parse("""ENTRY e { x = f32[2,3] parameter(0) y = f32[2,3] parameter(1) s = f32[2,3] sine(x)
      ROOT r = f32[2,3] subtract(s, y) }""")
    done = outline_pattern(plain, pattern_of(masked, "p"), "test.K", layouts="x={0,1},mask={0,1}")
    assert [found.description.operands for found in done.found] == [("x", "y")]
    (call,) = (i for i in plain.entry if i.opcode == "custom-call")
    assert [o.shape.layout.minor_to_major for o in call.operands if o.shape.layout] == [(0, 1), (1, 0)]
