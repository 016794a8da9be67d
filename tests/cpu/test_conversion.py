"""Floats rounded to bf16, as they are stored and as they are computed with."""

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
