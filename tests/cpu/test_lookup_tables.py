"""What numbers of 16 bits become by long expressions, looked up in tables of all that there are."""

import numpy as np
import pytest

import xloom as xl
from xloom.cpu.prepare import prepared
from xloom.hlo.dtype import bf16, dtype
from xloom.hlo.module import Module

ALL = 1 << 16
MANY = 9
"""Times that each number must be in an array for a table of them to be worth it."""


def silu(kind: str, rows: int, result: str) -> Module:
    wide = f"f32[{rows},{ALL}]"
    return xl.parse(f"""HloModule m
    ENTRY e {{
      x = {kind}[{rows},{ALL}] parameter(0)
      f = {wide} convert(x)
      g = {wide} logistic(f)
      h = {wide} multiply(f, g)
      t = {wide} tanh(h)
      ROOT r = {result}[{rows},{ALL}] convert(t)
    }}""")


def gathers(module: Module) -> int:
    return sum(i.opcode == "gather" for i in prepared(module).instructions)


@pytest.mark.parametrize("result", ["bf16", "f16", "f32", "s8", "s32", "f8e4m3fn"])
@pytest.mark.parametrize("kind", ["bf16", "f16"])
def test_every_number_gives_the_same_bits(kind: str, result: str) -> None:
    few, many = silu(kind, 1, result), silu(kind, MANY, result)
    assert gathers(few) == 0
    assert gathers(many) == 1
    numbers = np.arange(ALL, dtype=np.uint16).view(dtype(kind).numpy)[None]
    orders = np.stack([np.roll(numbers[0], 777 * k) for k in range(MANY)])
    expected, got = xl.compile(few)(numbers), xl.compile(many)(orders)
    for k in range(MANY):
        np.testing.assert_array_equal(bits(np.roll(np.asarray(got)[k], -777 * k)), bits(np.asarray(expected)[0]))


def bits(array: np.ndarray) -> np.ndarray:
    """Those of each element; a NaN has no sign that means anything."""
    bits = array.view(f"u{array.itemsize}")
    return np.where(np.isnan(array.astype(np.float64)), 0, bits)


def test_short_expressions_and_few_numbers_are_computed() -> None:
    short = f"""HloModule m
    ENTRY e {{
      x = bf16[{MANY},{ALL}] parameter(0)
      y = bf16[{MANY},{ALL}] multiply(x, x)
      ROOT r = bf16[{MANY},{ALL}] add(y, x)
    }}"""
    assert gathers(xl.parse(short)) == 0


def looped(trips: int) -> Module:
    return xl.parse(f"""HloModule m
    body {{
      s = (s32[], bf16[{ALL}]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      one = s32[] constant(1)
      next = s32[] add(i, one)
      x = bf16[{ALL}] get-tuple-element(s), index=1
      t = bf16[{ALL}] sine(x)
      y = bf16[{ALL}] add(t, x)
      ROOT r = (s32[], bf16[{ALL}]) tuple(next, y)
    }}
    condition {{
      s = (s32[], bf16[{ALL}]) parameter(0)
      i = s32[] get-tuple-element(s), index=0
      n = s32[] constant({trips})
      ROOT less = pred[] compare(i, n), direction=LT
    }}
    ENTRY e {{
      x = bf16[{ALL}] parameter(0)
      zero = s32[] constant(0)
      begin = (s32[], bf16[{ALL}]) tuple(zero, x)
      loop = (s32[], bf16[{ALL}]) while(begin), condition=condition, body=body
      ROOT y = bf16[{ALL}] get-tuple-element(loop), index=1
    }}""")


def test_a_table_is_made_once_before_a_loop() -> None:
    module = prepared(looped(20))
    (loop,) = (i for i in module.instructions if i.opcode == "while")
    opcodes = [i.opcode for i in loop["body"]]
    assert opcodes.count("gather") == 1
    assert "sine" not in opcodes
    x = np.random.default_rng(0).standard_normal(ALL).astype(bf16.numpy)
    got, expected, once = xl.compile(looped(20))(x), x, xl.compile(looped(1))
    for _ in range(20):
        expected = np.asarray(once(expected))
    np.testing.assert_array_equal(np.asarray(got).view(np.uint16), expected.view(np.uint16))


def activated(rows: int) -> Module:
    wide = f"f32[{rows},512]"
    return xl.parse(f"""HloModule m
    ENTRY e {{
      x = bf16[{rows},64] parameter(0)
      w = bf16[64,512] parameter(1)
      d = {wide} dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
      c = bf16[{rows},512] convert(d)
      f = {wide} convert(c)
      e = {wide} erf(f)
      g = {wide} multiply(e, f)
      ROOT r = bf16[{rows},512] convert(g)
    }}""")


def test_sums_of_a_product_are_looked_up_as_they_are_made() -> None:
    rng = np.random.default_rng(1)
    x, w = (rng.integers(-3, 4, shape).astype(bf16.numpy) for shape in ((1500, 64), (64, 512)))
    assert gathers(activated(1500)) == 1
    assert gathers(activated(300)) == 0
    got = np.asarray(xl.compile(activated(1500))(x, w))
    for k in range(0, 1500, 300):
        part = np.asarray(xl.compile(activated(300))(x[k : k + 300], w))
        np.testing.assert_array_equal(got[k : k + 300].view(np.uint16), part.view(np.uint16))


def test_what_is_made_of_a_number_that_is_looked_up_has_no_table_of_its_own() -> None:
    text = f"""HloModule m
    ENTRY e {{
      x = bf16[{MANY},{ALL}] parameter(0)
      y = bf16[{MANY},{ALL}] sine(x)
      z = f32[{MANY},{ALL}] convert(y)
      ROOT r = (bf16[{MANY},{ALL}], f32[{MANY},{ALL}]) tuple(y, z)
    }}"""
    assert gathers(xl.parse(text)) == 1


def test_rounding_a_sum_to_look_it_up_counts() -> None:
    text = f"""HloModule m
    ENTRY e {{
      x = bf16[{MANY},{ALL}] parameter(0)
      y = bf16[{MANY},{ALL}] parameter(1)
      s = bf16[{MANY},{ALL}] add(x, y)
      ROOT r = bf16[{MANY},{ALL}] exponential(s)
    }}"""
    assert gathers(xl.parse(text)) == 0


@pytest.mark.parametrize(("opcode", "tables"), [("exponential", 0), ("tanh", 0), ("sine", 1)])
def test_what_takes_less_for_results_of_16_bits_is_computed(opcode: str, tables: int) -> None:
    x = f"f16[{MANY},{ALL}]"
    assert gathers(xl.parse(f"HloModule m\nENTRY e {{ x = {x} parameter(0) ROOT r = {x} {opcode}(x) }}")) == tables
