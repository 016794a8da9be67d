"""Calls that say in which order their operands are computed."""

import numpy as np
import pytest

import xloom as xl


def test_an_order_that_cannot_be_is_an_error():
    module = xl.parse(
        """HloModule m
        ENTRY e {
          x = f32[4] parameter(0)
          a = f32[4] sine(x)
          b = f32[4] cosine(a)
          c = () custom-call(b, a), custom_call_target="control_dep", custom_call_has_side_effect=true
          ROOT r = f32[4] add(a, b)
        }"""
    )
    with pytest.raises(xl.LoweringError, match="b cannot be computed before a, which it is made of"):
        xl.compile(module)
    assert xl.evaluate(module, np.zeros(4, np.float32)).tolist() == [1, 1, 1, 1]
