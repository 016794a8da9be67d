"""Fourier transforms, Cholesky's, triangular systems and what LAPACK's need, for the library of kernels.

Code of Cholesky's is for one length each, so that there are those of usual lengths alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from xloom.cpu.library.products import program

_KINDS = ("FFT", "IFFT", "RFFT", "IRFFT")
_LINES = (1, 2, 3, 4, 5, 8, 9, 16, 17)
"""How many transforms there are at once, or side by side: that many fill vectors of each size, or do not."""
_LENGTHS = (2, 4, 5, 8, 16)
"""Lines of which squares of every size are moved, and real ones of an odd number of points."""
_LONG_LENGTHS = tuple(w * h for w in (2, 3, 4, 5, 8, 10, 16, 25) for h in (8, 16, 37, 40) if w <= h)
"""Single lines, which are transformed as matrices whose sides fill vectors of each size, or do not."""
_PLANES = (32, 36)
"""Sides of planes and cubes, beside these: rows fill vectors, and columns of half a spectrum fill them or do not."""
_SIDES = (16, 32, 50, 64, 100, 128, 200, 256, 300, 400, 500, 512, 1000, 1024)
"""Of matrices that Cholesky's factors are of."""
_RIGHT_SIDES = (1, 2, 4, 8, 16, 32, 48, 64)
"""Of triangular systems."""


def transforms() -> Iterator[str]:
    """The HLO text of each."""
    for dtype, kind in product(("f32", "f64"), _KINDS):
        for n, lines in product(_LENGTHS, _LINES):
            yield _fft(dtype, kind, (n,), lines)
        for n in _LONG_LENGTHS:
            yield _fft(dtype, kind, (n if kind in ("FFT", "IFFT") else 2 * n,), 1)
        for n, count in product((*_LINES[1:], *_PLANES), (1, 4)):
            yield _fft(dtype, kind, (n, n), count)
        for n in _PLANES:
            yield _fft(dtype, kind, (n, n, n), 1)
    for dtype, side, matrices in product(("f32", "f64"), _SIDES, (1, 4)):
        shape = f"{dtype}[{matrices},{side},{side}]"
        yield (
            f"HloModule library\nENTRY e {{\n a = {shape} parameter(0)\n ROOT c = {shape} cholesky(a), lower=true\n}}\n"
        )
    for dtype, letter in (("f32", "s"), ("f64", "d"), ("c64", "c"), ("c128", "z")):
        yield _transposed(dtype, letter)
    for dtype, sides, unit in product(("f32", "f64"), _RIGHT_SIDES, (False, True)):
        yield _solution(dtype, sides, unit)


def _fft(dtype: str, kind: str, lengths: tuple[int, ...], count: int) -> str:
    """So many transforms of lines, planes or cubes."""
    spectrum = {"f32": "c64", "f64": "c128"}[dtype]
    all_points, half = (",".join(map(str, (count, *lengths[:-1], n))) for n in (lengths[-1], lengths[-1] // 2 + 1))
    real, short, whole = f"{dtype}[{all_points}]", f"{spectrum}[{half}]", f"{spectrum}[{all_points}]"
    shapes = {"RFFT": (real, short), "IRFFT": (short, real)}
    operand, result = shapes.get(kind, (whole, whole))
    return (
        f"HloModule library\nENTRY e {{\n a = {operand} parameter(0)\n"
        f" ROOT c = {result} fft(a), fft_type={kind}, fft_length={{{','.join(map(str, lengths))}}}\n}}\n"
    )


def _transposed(dtype: str, letter: str) -> str:
    """A routine of LAPACK: what it is given and gives is transposed where it lies, whichever routine it is."""
    columns = f"{dtype}[256,256]{{0,1}}"
    return (
        f"HloModule library\nENTRY e {{\n a = {dtype}[256,256] parameter(0)\n"
        f' c = ({columns}, s32[]) custom-call(a), custom_call_target="lapack_{letter}potrf_ffi",'
        f" operand_layout_constraints={{{columns}}}, output_to_operand_aliasing={{{{0}}: (0, {{}})}},"
        f" api_version=API_VERSION_TYPED_FFI, backend_config={{uplo = 76 : ui8}}\n"
        f" ROOT r = {dtype}[256,256] get-tuple-element(c), index=0\n}}\n"
    )


def _solution(dtype: str, sides: int, unit: bool) -> str:
    """Of triangular systems."""
    flags = f"left_side=true, lower=true, unit_diagonal={str(unit).lower()}, transpose_a=NO_TRANSPOSE"
    right = (dtype, (30, sides))
    return program("triangular-solve", (dtype, (30, 30)), right, right, flags)
