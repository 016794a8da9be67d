"""Floats rounded to bf16, as they are stored and as they are computed with."""

from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xloom as xl
from xloom.hlo.dtype import DTYPES

UPPER = np.arange(1 << 16, dtype=np.uint32) << 16
# values of bf16, ties, and their neighbours; NaN that says all it says in its lower half is among them
BITS = np.concatenate([UPPER | lower for lower in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)]).astype(np.uint32)


@pytest.mark.parametrize("between", ["copy(y)", "negate(y)", "abs(y)"])
def test_rounding_to_bf16(between):
    x = BITS.view(np.float32)
    module = xl.parse(f"""HloModule m
    ENTRY e {{
      x = f32[{x.size}] parameter(0)
      y = bf16[{x.size}] convert(x)
      z = bf16[{x.size}] {between}
      bits = u16[{x.size}] bitcast-convert(z)
      ROOT t = (bf16[{x.size}], u16[{x.size}]) tuple(z, bits)
    }}""")
    with np.errstate(invalid="ignore"):
        want: Any = x.astype(ml_dtypes.bfloat16)
    want = {"copy(y)": want, "negate(y)": -want, "abs(y)": abs(want)}[between]
    nan = np.isnan(x)
    for result in xl.compile(module)(x):
        found = np.asarray(result).view(np.uint16)
        np.testing.assert_array_equal(found[~nan], want.view(np.uint16)[~nan])
        assert np.isnan(found.view(ml_dtypes.bfloat16)[nan].astype(np.float32)).all()


@pytest.mark.parametrize("opcode", ["exponential", "log", "tanh", "cbrt", "add", "divide", "power", "remainder"])
def test_every_bf16_through_operators(opcode):
    x = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16)
    y = np.random.default_rng(0).permutation(x)
    arguments = (x, y) if opcode in ("add", "divide", "power", "remainder") else (x,)
    names = "xy"[: len(arguments)]
    module = xl.parse("\n".join([
        "HloModule m\nENTRY e {",
        *(f"{name} = bf16[{x.size}] parameter({k})" for k, name in enumerate(names)),
        f"ROOT z = bf16[{x.size}] {opcode}({', '.join(names)})\n}}",
    ]))  # fmt: skip
    found, want = (np.asarray(run(*arguments)) for run in (xl.compile(module), partial(xl.evaluate, module)))
    nan = np.isnan(want.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(found.astype(np.float32)), nan)
    np.testing.assert_array_equal(found.view(np.uint16)[~nan], want.view(np.uint16)[~nan])


def convert(x, source):
    text = f"HloModule m\nENTRY e {{ x = {source}[{x.size}] parameter(0) ROOT y = bf16[{x.size}] convert(x) }}"
    return np.asarray(xl.compile(xl.parse(text))(x))


def test_doubles_are_rounded_once():
    with np.errstate(invalid="ignore", over="ignore"):
        x = BITS.view(np.float32).astype(np.float64)
        x = np.concatenate([x, np.nextafter(x, np.inf), np.nextafter(x, -np.inf), [5e-324, -1e300, 3.4e38]])
        unit = np.ldexp(1.0, np.maximum(np.frexp(x)[1], -125) - 8)
        want = np.where(np.isfinite(x), np.rint(x / unit) * unit, x).astype(ml_dtypes.bfloat16)
        found, nan = convert(x, "f64"), np.isnan(x)
        np.testing.assert_array_equal(found.view(np.uint16)[~nan], want.view(np.uint16)[~nan])
        assert np.isnan(found.astype(np.float32))[nan].all()


def rounded(n: int) -> int:
    """To 8 bits, ties to even."""
    shift = max(0, abs(n).bit_length() - 8)
    whole, rest = divmod(abs(n), 1 << shift)
    whole += 2 * rest + (whole & 1) > 1 << shift
    return (whole << shift) * (1 if n > 0 else -1)


@pytest.mark.parametrize("dtype", ["s32", "u32", "s64", "u64"])
def test_integers_are_rounded_once(dtype):
    """Ties, and what is next to them, of all sizes."""
    kind = DTYPES[dtype].numpy
    ties = {(top << place) >> 1 for top in (256, 257, 258, 383, 509, 511) for place in range(57)}
    near = {sign * (tie + d) for tie in ties for d in (-1, 0, 1) for sign in (1, -1)}
    info = np.iinfo(kind)
    numbers = sorted(n for n in near if info.min <= n <= info.max)
    want = np.array([float(rounded(n)) for n in numbers]).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(convert(np.array(numbers, kind), dtype), want)


SMALL = [name for name, dtype in DTYPES.items() if dtype.is_float and dtype.bits <= 8]


@pytest.mark.parametrize("wide", ["f32", "bf16", "f16", "f64"])
@pytest.mark.parametrize("small", SMALL)
def test_every_small_float_widened(small, wide):
    codes = np.arange(256, dtype=np.uint8)
    module = xl.parse(f"ENTRY e {{ x = {small}[256] parameter(0) ROOT y = {wide}[256] convert(x) }}")
    found = np.asarray(xl.compile(module)(codes.view(DTYPES[small].numpy)))
    known = (codes & ((1 << DTYPES[small].bits) - 1)).view(DTYPES[small].numpy)
    with np.errstate(over="ignore"):
        wanted: Any = known.astype(np.float64).astype(DTYPES[wide].numpy)
    bits = f"u{found.itemsize}"
    number = ~np.isnan(wanted.astype(np.float64))
    np.testing.assert_array_equal(found.view(bits)[number], wanted.view(bits)[number])
    assert np.isnan(found[~number].astype(np.float64)).all()


@pytest.mark.parametrize("target", SMALL)
@pytest.mark.parametrize("source", SMALL)
def test_every_small_float_as_another(source, target):
    numbers = np.arange(1 << DTYPES[source].bits, dtype=np.uint8).view(DTYPES[source].numpy)
    module = xl.parse(
        f"ENTRY e {{ x = {source}[{len(numbers)}] parameter(0) ROOT y = {target}[{len(numbers)}] convert(x) }}"
    )
    found = np.asarray(xl.compile(module)(numbers)).astype(np.float32)
    with np.errstate(all="ignore"):
        wanted = numbers.astype(np.float32).astype(DTYPES[target].numpy).astype(np.float32)
    np.testing.assert_array_equal(found, wanted)


def test_powers_of_two_that_are_no_normal_f32():
    x = (np.arange(1, 256) * 2.0**-132).astype(np.float32)
    module = xl.parse(f"ENTRY e {{ x = f32[{x.size}] parameter(0) ROOT y = f8e8m0fnu[{x.size}] convert(x) }}")
    found = np.asarray(xl.compile(module)(x))
    np.testing.assert_array_equal(found.view(np.uint8), x.astype(ml_dtypes.float8_e8m0fnu).view(np.uint8))


def test_bytes_as_narrow_floats_are_exact():
    for dtype, kind in (("s8", np.int8), ("u8", np.uint8)):
        every = np.arange(256).astype(np.uint8).view(kind)
        for wide in ("bf16", "f16"):
            text = f"HloModule m\nENTRY e {{\n a = {dtype}[256] parameter(0)\n ROOT c = {wide}[256] convert(a)\n}}"
            np.testing.assert_array_equal(np.asarray(xl.compile(xl.parse(text))(every)).astype(kind), every)
