"""Fourier transforms, Cholesky's, triangular systems and what LAPACK's need, for the library of kernels.

Code of transforms and of Cholesky's is for one length each, so that there are those of usual lengths alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from xloom.cpu.library.products import program

_KINDS = ("FFT", "IFFT", "RFFT", "IRFFT")
_LENGTHS = tuple(2**k for k in range(1, 17))
_OTHER_LENGTHS = (
    3, 5, 6, 9, 10, 12, 15, 20, 24, 25, 30, 36, 48, 50, 60, 96, 100, 120, 192, 200, 240, 384, 480, 500, 1000,
)  # fmt: skip
"""Of complex transforms, which are not powers of two."""
_LINES = (1, 16, 17)
"""How many transforms of a length there are at once: of many, vectors of them are whole, or the last one is not."""
_LONGEST_LINES = 8192
"""Transforms of this length and longer ones have the same code for any number of them."""
_PLANES = (64, 128, 256, 512, 1024)
"""Sides of planes that are transformed in both dimensions."""
_SIDES = (16, 32, 50, 64, 100, 128, 200, 256, 300, 400, 500, 512, 1000, 1024)
"""Of matrices that Cholesky's factors are of."""
_RIGHT_SIDES = (1, 2, 4, 8, 16, 32, 48, 64)
"""Of triangular systems."""


def transforms() -> Iterator[str]:
    """The HLO text of each."""
    for kind, n, lines in product(_KINDS, _LENGTHS, _LINES):
        if lines == 1 or n < _LONGEST_LINES:
            yield _fft(kind, n, lines)
    for kind, n in product(("FFT", "IFFT"), _OTHER_LENGTHS):
        yield _fft(kind, n, 1)
    for kind, n in product(_KINDS, _PLANES):
        yield _fft(kind, n, n, 2)
    for dtype, side, matrices in product(("f32", "f64"), _SIDES, (1, 4)):
        shape = f"{dtype}[{matrices},{side},{side}]"
        yield (
            f"HloModule library\nENTRY e {{\n a = {shape} parameter(0)\n ROOT c = {shape} cholesky(a), lower=true\n}}\n"
        )
    for dtype, letter in (("f32", "s"), ("f64", "d"), ("c64", "c"), ("c128", "z")):
        yield _transposed(dtype, letter)
    for dtype, sides, unit in product(("f32", "f64"), _RIGHT_SIDES, (False, True)):
        yield _solution(dtype, sides, unit)


def _fft(kind: str, length: int, lines: int, dimensions: int = 1) -> str:
    """Of lines, or of so many dimensions of a plane that has so many lines."""
    real, half, whole = f"f32[{lines},{length}]", f"c64[{lines},{length // 2 + 1}]", f"c64[{lines},{length}]"
    shapes = {"RFFT": (real, half), "IRFFT": (half, real)}
    operand, result = shapes.get(kind, (whole, whole))
    sizes = ",".join(map(str, (lines, length)[-dimensions:]))
    return (
        f"HloModule library\nENTRY e {{\n a = {operand} parameter(0)\n"
        f" ROOT c = {result} fft(a), fft_type={kind}, fft_length={{{sizes}}}\n}}\n"
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
