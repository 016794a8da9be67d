"""Transposes in registers, whole tiles and what is left at the edges."""

import ml_dtypes
import numpy as np
import pytest

import xloom as xl
from xloom.hlo.dtype import from_numpy


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, ml_dtypes.bfloat16, np.float32, np.float64, np.complex64])
@pytest.mark.parametrize("dims", [(64, 96), (32, 32), (31, 100), (129, 45), (17, 16)])
def test_transpose(dtype, dims):
    x = np.random.default_rng(0).integers(-99, 99, dims).astype(dtype)
    name = from_numpy(dtype).name
    result = xl.compile(
        xl.parse(f"""
HloModule m
ENTRY e {{
  x = {name}[{dims[0]},{dims[1]}] parameter(0)
  ROOT t = {name}[{dims[1]},{dims[0]}] transpose(x), dimensions={{1,0}}
}}""")
    )(x)
    np.testing.assert_array_equal(result, x.T)
