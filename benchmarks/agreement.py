"""Whether two results are equal, within what their types allow."""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np

# of a value and of the typical size of its array: sums in another order differ by that, and no bug stays below it.
# Beside it what is too small for a normal number: compilers for CPUs may flush that to zero
_TOLERANCES = {
    np.dtype(np.float64): 1e-10,
    np.dtype(np.float32): 2e-4,
    np.dtype(np.float16): 1e-2,
    np.dtype(ml_dtypes.bfloat16): 3e-2,
    np.dtype(np.complex64): 2e-4,
    np.dtype(np.complex128): 1e-10,
}


def difference(
    ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray], tolerance: float | None = None, outliers: float = 0.0
) -> str | None:
    """How the results differ, or None. Integers have to be equal unless a tolerance is given.

    `outliers` is the share of a result's elements that may be anything: where the program is chaotic, the last bit of
    a product decides.
    """
    if len(ours) != len(theirs):
        return f"{len(ours)} results in place of {len(theirs)}"
    for k, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"result {k} is {a.dtype}{list(a.shape)} in place of {b.dtype}{list(b.shape)}"
        allowed = tolerance if tolerance is not None else _TOLERANCES.get(b.dtype, 0.0)
        tiny = float(ml_dtypes.finfo(b.dtype).smallest_normal) if b.dtype in _TOLERANCES else 0.0
        message = _array_difference(a, b, allowed, tiny, outliers)
        if message:
            return f"result {k}: {message}"
    return None


def _array_difference(a: np.ndarray, b: np.ndarray, tolerance: float, tiny: float, outliers: float) -> str | None:
    if a.size == 0 or np.array_equal(a, b):
        return None
    wide = np.complex128 if b.dtype.kind == "c" else np.float64
    a, b = a.astype(wide), b.astype(wide)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    # infinities that are not equal are not near either
    finite = np.isfinite(a) & np.isfinite(b)
    typical = np.sqrt(np.mean(np.abs(b[np.isfinite(b)]) ** 2)) if np.isfinite(b).any() else 0.0
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(a - b)
        near = finite & (error <= tolerance * (np.abs(b) + typical) + tiny)
    wrong = ~(same | near)
    if wrong.mean() <= outliers:
        return None
    place = np.unravel_index(int(np.argmax(np.where(wrong & finite, error, -1.0))), a.shape)
    if not (wrong & finite).any():
        place = np.unravel_index(int(np.argmax(wrong)), a.shape)
    where = ",".join(str(int(k)) for k in place)
    return f"{int(wrong.sum())} of {a.size} differ, at [{where}] {a[place]:.8g} in place of {b[place]:.8g}"
