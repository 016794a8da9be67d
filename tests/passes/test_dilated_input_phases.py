"""Convolutions of spread inputs in phases have the values that they had, where kernels are not finite as well."""

import itertools

import ml_dtypes
import numpy as np
import pytest

import xloom as xl
from xloom.passes import DilatedInputPhases

FEATURES, OUTPUTS = 3, 16


def _program(size, spread, padding, reversal, labels, places):
    kernel = {"o": OUTPUTS, "i": FEATURES, "0": size, "1": size}
    low, high = padding
    out = [(n - 1) * spread + low + high - size + 2 for n in places]
    return f"""HloModule m
    ENTRY e {{
      x = bf16[2,{places[0]},{places[1]},{FEATURES}] parameter(0)
      w = bf16[{",".join(str(kernel[k]) for k in labels)}] parameter(1)
      ROOT y = f32[2,{out[0]},{out[1]},{OUTPUTS}] convolution(x, w), window={{size={size}x{size}
        pad={low}_{high}x{low}_{high} lhs_dilate={spread}x{spread} rhs_reversal={reversal}x{reversal}}},
        dim_labels=b01f_{labels}->b01f
    }}"""


CASES = [
    (size, spread, padding, reversal, labels)
    for size, spread in itertools.product((1, 2, 3, 4, 7), (2, 3))
    for padding in {(0, 0), (size - 1, size - 1), (1, 2), (-1, size)}
    for reversal, labels in itertools.product((0, 1), ("01io", "o01i"))
]


@pytest.mark.sampled
@pytest.mark.parametrize("is_finite", [True, False])
@pytest.mark.parametrize(("size", "spread", "padding", "reversal", "labels"), CASES)
def test_phases(size, spread, padding, reversal, labels, is_finite):
    module = xl.parse(_program(size, spread, padding, reversal, labels, (16, 15)))
    changed = module.clone("")
    assert DilatedInputPhases().run(changed)
    xl.verify(changed)
    assert "lhs_dilate" not in changed.to_text()
    rng = np.random.default_rng(size)
    x, w = (rng.integers(-4, 5, p.shape.dims).astype(ml_dtypes.bfloat16) for p in module.entry.parameters)
    if not is_finite:
        w.reshape(-1)[rng.integers(0, w.size, 2)] = np.inf
        w.reshape(-1)[rng.integers(w.size)] = np.nan
    np.testing.assert_array_equal(np.asarray(xl.evaluate(changed, x, w)), np.asarray(xl.evaluate(module, x, w)))


def test_many_phases_are_not_as_many_convolutions():
    module = xl.parse(_program(10, 5, (9, 9), 0, "01io", (16, 15)))
    assert not DilatedInputPhases().run(module)


@pytest.mark.parametrize("padding", [(1, 1), (0, 0)])
def test_phases_compiled(padding):
    """By what a processor has for bf16."""
    module = xl.parse(_program(2, 2, padding, 1, "o01i", (32, 24)))
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-4, 5, p.shape.dims).astype(ml_dtypes.bfloat16) for p in module.entry.parameters)
    np.testing.assert_array_equal(np.asarray(xl.compile(module)(x, w)), np.asarray(xl.evaluate(module, x, w)))
