"""Floats rounded to bf16, as they are stored and as they are computed with."""

from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xloom as xl

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
