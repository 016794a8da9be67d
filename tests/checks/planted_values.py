"""Programs with one planted fault each: the check that finds it, and where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import xloom as xl


@dataclass(frozen=True)
class Planted:
    """A program, arguments with which it does what `check` looks for, and the instruction that does so first."""

    name: str
    check: str
    text: str
    arguments: tuple[Any, ...]
    instruction: str
    index: tuple[int, ...]
    says: str = ""
    """A part of the message."""


_REGIONS = """
max { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] maximum(a, b) }
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
sum64 { a = f64[] parameter(0)
  b = f64[] parameter(1)
  ROOT r = f64[] add(a, b) }
product { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] multiply(a, b) }
keep { a = f32[] parameter(0)
  ROOT b = f32[] parameter(1) }
"""


def _f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def _at(
    dims: tuple[int, ...], index: tuple[int | slice, ...], value: float, fill: float = 1, dtype: Any = np.float32
) -> np.ndarray:
    array = np.full(dims, fill, dtype)
    array[index] = value
    return array


def _entry(body: str, regions: str = "") -> str:
    return f"HloModule planted\n{_REGIONS}{regions}\nENTRY main {{\n{body}\n}}\n"


def _loop(body: str, count: int = 5, condition: str = "") -> str:
    """Regions of a loop over (s32[] k, f32[4] x) whose body makes `y` of `x` and `k`."""
    return f"""
body {{ t = (s32[], f32[4]) parameter(0)
  k = s32[] get-tuple-element(t), index=0
  x = f32[4] get-tuple-element(t), index=1
  one = s32[] constant(1)
  next = s32[] add(k, one)
{body}
  ROOT r = (s32[], f32[4]) tuple(next, y) }}
condition {{ t = (s32[], f32[4]) parameter(0)
  k = s32[] get-tuple-element(t), index=0
  x = f32[4] get-tuple-element(t), index=1
  n = s32[] constant({count})
{condition or "  ROOT r = pred[] compare(k, n), direction=LT"} }}
"""


_RUN_LOOP = """  x = f32[4] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[4]) tuple(zero, x)
  w = (s32[], f32[4]) while(t), condition=condition, body=body
  ROOT r = f32[4] get-tuple-element(w), index=1"""

_NORMALISED = """  x = f32[3,4] parameter(0)
  zero = f32[] constant(0)
  squares = f32[3,4] multiply(x, x)
  total = f32[3] reduce(squares, zero), dimensions={1}, to_apply=sum
  scale = f32[3] rsqrt(total)
  wide = f32[3,4] broadcast(scale), dimensions={0}
  ROOT bad = f32[3,4] multiply(x, wide)"""

_ATTENTION = """  q = f32[2,3,4] parameter(0)
  k = f32[2,3,4] parameter(1)
  mask = pred[2,3,3] parameter(2)
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  lows = f32[2,3,3] broadcast(low), dimensions={}
  scores = f32[2,3,3] dot(q, k), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2}
  masked = f32[2,3,3] select(mask, scores, lows)
  most = f32[2,3] reduce(masked, low), dimensions={2}, to_apply=max
  wide = f32[2,3,3] broadcast(most), dimensions={0,1}
  shifted = f32[2,3,3] subtract(masked, wide)
  powers = f32[2,3,3] exponential(shifted)
  total = f32[2,3] reduce(powers, zero), dimensions={2}, to_apply=sum
  all = f32[2,3,3] broadcast(total), dimensions={0,1}
  shares = f32[2,3,3] divide(powers, all)
  ROOT r = f32[2,3,4] dot(shares, k), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}"""

_MASK = np.ones((2, 3, 3), bool)
_MASK[1, 2] = False
_QK = np.random.default_rng(0).standard_normal((2, 2, 3, 4), np.float32)


def _unary(opcode: str, dtype: str = "f32", n: int = 8) -> str:
    return _entry(f"  x = {dtype}[{n}] parameter(0)\n  two = {dtype}[{n}] add(x, x)\n  bad = {dtype}[{n}] {opcode}(two)\n"
                  f"  ROOT r = {dtype}[{n}] negate(bad)")  # fmt: skip


def _binary(opcode: str, dtype: str = "f32") -> str:
    shape = f"{dtype}[3,5]"
    return _entry(f"  x = {shape} parameter(0)\n  y = {shape} parameter(1)\n  ROOT bad = {shape} {opcode}(x, y)")


PLANTED = [
    Planted(
        "log that is not chosen",
        "nan",
        _entry("""  x = f32[8] parameter(0)
  zero = f32[] constant(0)
  zeros = f32[8] broadcast(zero), dimensions={}
  bad = f32[8] log(x)
  ok = pred[8] compare(x, zeros), direction=GT
  ROOT r = f32[8] select(ok, bad, zeros)"""),
        (_at((8,), (3,), -1),),
        "bad",
        (3,),
        "log makes NaN of operands that have none: element [3] of 8; %x[3] = -1.0",
    ),
    Planted("0/0", "nan", _binary("divide"), (_at((3, 5), (2, 1), 0), _at((3, 5), (2, 1), 0)), "bad", (2, 1)),
    Planted("1/0", "inf", _binary("divide"), (_at((3, 5), (2, 1), 1), _at((3, 5), (2, 1), 0)), "bad", (2, 1)),
    Planted(
        "inf - inf", "nan", _binary("subtract"), (_at((3, 5), (0, 4), np.inf), _at((3, 5), (0, 4), np.inf)), "bad", (0, 4)
    ),
    Planted("remainder by 0", "nan", _binary("remainder"), (_at((3, 5), (1, 1), 1), _at((3, 5), (1, 1), 0)), "bad", (1, 1)),
    Planted(
        "root of a negative", "nan", _binary("power", "f64"),
        (_at((3, 5), (1, 1), -2, 1, np.float64), _at((3, 5), (1, 1), 0.5, 1, np.float64)), "bad", (1, 1),
    ),
    Planted("overflow in bf16", "inf", _binary("multiply", "bf16"),
            tuple(_at((3, 5), (1, 2), 1e30, 1, xl.bf16.numpy) for _ in range(2)), "bad", (1, 2)),
    Planted("sqrt", "nan", _unary("sqrt"), (_at((8,), (7,), -4),), "bad", (7,), "%two[7] = -8.0"),
    Planted("acos", "nan", _unary("acos"), (_at((8,), (0,), 2, 0),), "bad", (0,)),
    Planted("sine of infinity", "nan", _unary("sine"), (_at((8,), (5,), np.inf),), "bad", (5,)),
    Planted("exp in f16", "inf", _unary("exponential", "f16"), (_at((8,), (5,), 6, 1, np.float16),), "bad", (5,)),
    Planted("log in c64", "inf", _unary("log", "c64"), (_at((8,), (5,), 0, 1, np.complex64),), "bad", (5,)),
    Planted("rsqrt in f64", "inf", _unary("rsqrt", "f64"), (_at((8,), (5,), 0, 1, np.float64),), "bad", (5,)),
    Planted(
        "f32 to f16", "inf", _entry("  x = f32[8] parameter(0)\n  y = f16[8] convert(x)\n  ROOT r = f32[8] convert(y)"),
        (_at((8,), (6,), 1e5),), "y", (6,),
    ),
    Planted(
        "f32 to f8", "nan", _entry("  x = f32[8] parameter(0)\n  ROOT y = f8e4m3fn[8] convert(x)"),
        (_at((8,), (6,), 1e5),), "y", (6,),
    ),
    Planted("norm at 0", "nan", _entry(_NORMALISED), (_at((3, 4), (1,), 0),), "bad", (1, 0), "%wide[1, 0] = inf"),
    Planted("norm at 0, earlier", "inf", _entry(_NORMALISED), (_at((3, 4), (1,), 0),), "scale", (1,), "%total[1] = 0.0"),
    Planted("all of a row masked", "nan", _entry(_ATTENTION), (*_QK, _MASK), "shifted", (1, 2, 0), "-inf"),
    Planted(
        "variance 0",
        "nan",
        _entry("""  x = f32[3,4] parameter(0)
  zero = f32[] constant(0)
  n = f32[] constant(4)
  ns = f32[3] broadcast(n), dimensions={}
  total = f32[3] reduce(x, zero), dimensions={1}, to_apply=sum
  mean = f32[3] divide(total, ns)
  means = f32[3,4] broadcast(mean), dimensions={0}
  centred = f32[3,4] subtract(x, means)
  squares = f32[3,4] multiply(centred, centred)
  variance = f32[3] reduce(squares, zero), dimensions={1}, to_apply=sum
  deviation = f32[3] sqrt(variance)
  deviations = f32[3,4] broadcast(deviation), dimensions={0}
  ROOT bad = f32[3,4] divide(centred, deviations)"""),
        (np.array([[1, 2, 3, 4], [5, 5, 5, 5], [1, 0, 0, 0]], np.float32),),
        "bad",
        (1, 0),
    ),
    Planted(
        "a loop's body", "nan",
        _entry(_RUN_LOOP, _loop("  ones = f32[4] constant({1, 1, 1, 1})\n  less = f32[4] subtract(x, ones)\n"
                                "  bad = f32[4] log(less)\n  nought = f32[4] subtract(bad, bad)\n"
                                "  y = f32[4] subtract(less, nought)")),
        (_f32(9, 3.5, 9, 9),), "bad", (1,), "in iteration 3, from 0, of %w",
    ),
    Planted(
        "a value that a loop drops", "nan",
        _entry(_RUN_LOOP, _loop("  bad = f32[4] sqrt(x)\n  f = f32[4] constant({0, 0, 0, 0})\n"
                                "  c = pred[4] compare(bad, f), direction=GT\n  h = f32[4] constant({3, 3, 3, 3})\n"
                                "  s = f32[4] subtract(x, h)\n  y = f32[4] select(c, s, f)")),
        (_f32(9, 1, 9, 9),), "bad", (1,), "in iteration 1, from 0, of %w",
    ),
    Planted(
        "a loop's condition", "nan",
        _entry(_RUN_LOOP, _loop("  h = f32[4] constant({2, 2, 2, 2})\n  y = f32[4] subtract(x, h)", 5,
                                "  o = f32[1] slice(x), slice={[0:1]}\n  v = f32[] reshape(o)\n  bad = f32[] sqrt(v)\n"
                                "  f = f32[] constant(-1)\n  ROOT r = pred[] compare(bad, f), direction=GT")),
        (_f32(7, 1, 1, 1),), "bad", (), "in iteration 4, from 0, of %w",
    ),
    Planted(
        "a branch", "nan",
        _entry("""  x = f32[4] parameter(0)
  p = pred[] parameter(1)
  ROOT r = f32[4] conditional(p, x, x), true_computation=yes, false_computation=no""",
               "yes { a = f32[4] parameter(0)\n  ROOT bad = f32[4] log(a) }\n"
               "no { a = f32[4] parameter(0)\n  ROOT r = f32[4] negate(a) }"),
        (_f32(1, 1, -1, 1), np.True_), "bad", (2,),
    ),
    Planted(
        "a call", "nan",
        _entry("  x = f32[4] parameter(0)\n  y = f32[4] call(x), to_apply=f\n  ROOT r = f32[4] negate(y)",
               "f { a = f32[4] parameter(0)\n  ROOT bad = f32[4] log(a) }"),
        (_f32(1, 1, -1, 1),), "bad", (2,),
    ),
    Planted(
        "a fusion", "inf",
        _entry("  x = f32[4] parameter(0)\n  y = f32[4] fusion(x), kind=kLoop, calls=f\n  ROOT r = f32[4] negate(y)",
               "f { a = f32[4] parameter(0)\n  b = f32[4] negate(a)\n  ROOT bad = f32[4] exponential(b) }"),
        (_f32(1, 1, -100, 1),), "bad", (2,),
    ),
    Planted(
        "a mapped function", "nan",
        _entry("  x = f32[4] parameter(0)\n  ROOT bad = f32[4] map(x), dimensions={0}, to_apply=f",
               "f { a = f32[] parameter(0)\n  ROOT y = f32[] log(a) }"),
        (_f32(1, 1, -1, 1),), "bad", (2,),
    ),
    Planted(
        "a product's sum", "inf",
        _entry("  x = f32[2,3] parameter(0)\n  y = f32[3,4] parameter(1)\n"
               "  ROOT bad = f32[2,4] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
        (_at((2, 3), (1, 2), 1e30), _at((3, 4), (2, 3), 1e30)), "bad", (1, 3), "%x[1, 2] = 1e+30",
    ),
    Planted(
        "infinity times 0 in a product", "nan",
        _entry("  x = f32[2,3] parameter(0)\n  y = f32[3,4] parameter(1)\n"
               "  ROOT bad = f32[2,4] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
        (_at((2, 3), (1, 2), np.inf), _at((3, 4), (2, 3), 0)), "bad", (1, 3), "%x[1, 2] = inf, %y[2, 3] = 0.0",
    ),
    Planted(
        "a convolution", "inf",
        _entry("  x = f32[1,6,1] parameter(0)\n  w = f32[2,1,1] parameter(1)\n"
               "  ROOT bad = f32[1,5,1] convolution(x, w), window={size=2}, dim_labels=b0f_0io->b0f"),
        (_at((1, 6, 1), (0, 3, 0), 1e38), np.full((2, 1, 1), 5, np.float32)), "bad", (0, 2, 0),
    ),
    Planted(
        "a sum", "nan",
        _entry("  x = f32[3,4] parameter(0)\n  z = f32[] constant(0)\n"
               "  ROOT bad = f32[3] reduce(x, z), dimensions={1}, to_apply=sum"),
        (np.array([[1, 1, 1, 1], [1, np.inf, 1, -np.inf], [np.inf] * 4], np.float32),), "bad", (1,), "%x[1, 3] = -inf",
    ),
    Planted(
        "factors", "inf",
        _entry("  x = f32[3,4] parameter(0)\n  z = f32[] constant(1)\n"
               "  ROOT bad = f32[4] reduce(x, z), dimensions={0}, to_apply=product"),
        (_at((3, 4), (slice(None), 2), 1e20),), "bad", (2,),
    ),
    Planted(
        "a window's sum", "inf",
        _entry("  x = f32[9] parameter(0)\n  z = f32[] constant(0)\n"
               "  ROOT bad = f32[8] reduce-window(x, z), window={size=2}, to_apply=sum"),
        (_at((9,), (slice(4, 6),), 3e38),), "bad", (4,),
    ),
    Planted(
        "updates of one element", "inf",
        _entry("""  x = f64[6] parameter(0)
  i = s32[2,1] parameter(1)
  u = f64[2] parameter(2)
  ROOT bad = f64[6] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum64"""),
        (np.zeros(6), np.full((2, 1), 3, np.int32), np.full(2, 1.5e308)), "bad", (3,),
    ),
    Planted(
        "a matrix that is not positive", "nan",
        _entry("  x = f32[2,2] parameter(0)\n  ROOT bad = f32[2,2] cholesky(x), lower=true"),
        (np.array([[1, 2], [2, 1]], np.float32),), "bad", (0, 0),
    ),
    Planted(
        "a transform", "inf",
        _entry("  x = c64[8] parameter(0)\n  ROOT bad = c64[8] fft(x), fft_type=FFT, fft_length={8}"),
        (np.full(8, 1e38, np.complex64),), "bad", (0,),
    ),
]  # fmt: skip

_SLICED = """  x = f32[8,3] parameter(0)
  i = s32[] parameter(1)
  z = s32[] constant(0)
  ROOT bad = f32[2,3] dynamic-slice(x, i, z), dynamic_slice_sizes={2,3}"""
_X = np.ones((8, 3), np.float32)

INDICES = [
    Planted("a slice", "oob", _entry(_SLICED), (_X, np.int32(7)), "bad", (), "%i = 7, where 0 to 6 are in range"),
    Planted("a slice before", "oob", _entry(_SLICED), (_X, np.int32(-1)), "bad", ()),
    Planted(
        "an update", "oob",
        _entry("""  x = f32[8,3] parameter(0)
  u = f32[8,1] parameter(1)
  i = u8[] parameter(2)
  z = u8[] constant(0)
  ROOT bad = f32[8,3] dynamic-update-slice(x, u, z, i)"""),
        (_X, np.ones((8, 1), np.float32), np.uint8(3)), "bad", (), "0 to 2",
    ),
    Planted(
        "gathered rows", "oob",
        _entry("""  x = f32[8,3] parameter(0)
  i = s32[5] parameter(1)
  ROOT bad = f32[5,3] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1,
    slice_sizes={1,3}"""),
        (_X, np.array([0, 7, 8, 1, 9], np.int32)), "bad", (2,), "%i[2] = 8, where 0 to 7 are in range",
    ),
    Planted(
        "scattered elements", "oob",
        _entry("""  x = f32[8,3] parameter(0)
  i = s64[4,2] parameter(1)
  u = f32[4] parameter(2)
  ROOT bad = f32[8,3] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0,1},
    scatter_dims_to_operand_dims={0,1}, index_vector_dim=1, to_apply=keep"""),
        (_X, np.array([[0, 0], [7, 2], [2, 3], [5, 1]]), np.ones(4, np.float32)), "bad", (2, 1), "0 to 2",
    ),
    Planted(
        "a loop's slice", "oob",
        _entry(_RUN_LOOP, _loop("  s = f32[1] dynamic-slice(x, k), dynamic_slice_sizes={1}\n  v = f32[] reshape(s)\n"
                                "  b = f32[4] broadcast(v), dimensions={}\n  y = f32[4] add(x, b)")),
        (_f32(1, 1, 1, 1),), "s", (), "in iteration 4, from 0, of %w",
    ),
    *(
        Planted(
            f"{opcode} of {dtype}", "overflow",
            _entry(f"""  x = f32[8,3] parameter(0)
  a = {dtype}[2] parameter(1)
  b = {dtype}[2] parameter(2)
  bad = {dtype}[2] {opcode}(a, b)
  i = {dtype}[2,1] reshape(bad)
  ROOT r = f32[2,3] gather(x, i), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{0}},
    index_vector_dim=1, slice_sizes={{1,3}}"""),
            (_X, *(np.array([1, n], xl.DTYPES[dtype].numpy) for n in operands)), "bad", (1,), f"overflows {dtype}",
        )
        for opcode, dtype, operands in [
            ("multiply", "s32", (1 << 16, 1 << 16)),
            ("multiply", "s64", (-(1 << 32), 1 << 32)),
            ("add", "s32", (2**31 - 1, 1)),
            ("subtract", "s64", (-(2**63), 1)),
        ]
    ),
]  # fmt: skip

_MASKED = "  x = f32[2,3] parameter(0)\n  m = f32[2,3] parameter(1)\n  ROOT r = f32[2,3] add(x, m)"
RIGHT = [
    ("an infinite mask", _entry(_MASKED), (np.ones((2, 3), np.float32), _at((2, 3), (1, 1), -np.inf))),
    ("arguments with NaNs", _entry(_MASKED), (np.ones((2, 3), np.float32), _at((2, 3), (1, 1), np.nan))),
    ("a masked row in part", _entry(_ATTENTION), (*_QK, _at((2, 3, 3), (1, 2, 0), False, True, bool))),
    ("the last slice", _entry(_SLICED), (_X, np.int32(6))),
    ("a loop", _entry(_RUN_LOOP, _loop("  y = f32[4] add(x, x)")), (_f32(1, np.inf, -1, 0),)),
]
"""Programs that do nothing of what is checked, with arguments."""
