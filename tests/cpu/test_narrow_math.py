"""Math functions of 16 bits: every number there is."""

import ml_dtypes
import numpy as np
import pytest

import xloom as xl

TYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}
FUNCTIONS = {"exponential": np.exp, "logistic": lambda x: 1 / (1 + np.exp(-x)), "tanh": np.tanh}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("opcode", FUNCTIONS)
def test_functions_of_every_number(opcode, dtype):
    x = np.arange(1 << 16, dtype=np.uint16).view(TYPES[dtype])
    run = xl.compile(xl.parse(f"ENTRY e {{ x = {dtype}[65536] parameter(0) ROOT y = {dtype}[65536] {opcode}(x) }}"))
    with np.errstate(all="ignore"):
        got, exact = run(x), FUNCTIONS[opcode](x.astype(np.float64))
        expected = exact.astype(TYPES[dtype])
    nan = np.isnan(exact)
    np.testing.assert_array_equal(np.isnan(got), nan)
    # the bits of neighbours are neighbours
    distance = np.abs(got.view(np.int16).astype(int) - expected.view(np.int16))[~nan]
    assert distance.max() <= 1
    assert (distance != 0).sum() <= (0 if dtype == "bf16" else 20)  # digits of f32 round these the other way


def test_f32_keeps_its_digits():
    """What is computed in f32 and converted afterwards is f32's own function."""
    text = "ENTRY e {{ x = f32[4096] parameter(0) y = f32[4096] tanh(x) ROOT z = {} }}"
    x = np.linspace(-3, 3, 4096, dtype=np.float32)
    wide = xl.compile(xl.parse(text.format("f32[4096] copy(y)")))(x)
    narrow = xl.compile(xl.parse(text.format("bf16[4096] convert(y)")))(x)
    np.testing.assert_allclose(wide, np.tanh(x.astype(np.float64)), rtol=2e-7)
    np.testing.assert_array_equal(narrow, wide.astype(ml_dtypes.bfloat16))
