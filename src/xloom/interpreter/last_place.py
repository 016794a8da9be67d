"""Units in the last place of floating-point numbers, of any type."""

from __future__ import annotations

import ml_dtypes
import numpy as np


def unit_in_last_place(sizes: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """The unit, as float64, of finite numbers that are as large as `sizes`, none below 0."""
    info = ml_dtypes.finfo(dtype)
    exponent = np.floor(np.log2(np.maximum(sizes, float(info.tiny))))
    return np.exp2(exponent - int(info.nmant))
