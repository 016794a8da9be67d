"""Transforms from and to real lines: of half the length where that is even."""

from __future__ import annotations

from xloom.cpu.kernel_modules.choices import chosen
from xloom.cpu.kernels.fft.dimensions import Dimensions
from xloom.cpu.kernels.fft.phases import ArrayPlace, FftPhase
from xloom.cpu.kernels.fft.signatures import CHUNK, WalkCode, WalkNumbers

_POINTS = 20_000
"""Combined by one thread in about 20 µs."""


def forward(work: Dimensions, lines: int, n: int, source: ArrayPlace, target: ArrayPlace) -> None:
    """From lines of n real points to the first n // 2 + 1 complex ones; the others would be their conjugates."""
    half = n // 2
    _tell(n)
    if n % 2 == 0:
        # two real points lie in memory as one complex one
        if not work.halves(lines, half, source, target, 1.0):
            work.long_lines(lines, half, source, target, 1.0, (half, half + 1))
            # the source stands for one half of each line, the target for the other
            _walk(work, "separate", lines, 1, (half + 1) // 2, target, target, (half + 1, half + 1), half)
            _walk(work, "separate_ends", lines, 0, 1, target, target, (half + 1, half + 1), half)
        return
    wide, spectrum = work.scratch((lines, n)), work.scratch((lines, n))
    _walk(work, "widen", lines, 0, n, source, wide, (n, n), half)
    work.over((lines, n), [1], wide, spectrum, 1.0)
    _walk(work, "first_half", lines, 0, half + 1, spectrum, target, (n, half + 1), half)


def _tell(n: int) -> None:
    if n % 2 == 0:
        chosen(f"{n} real points as {n // 2} complex ones", "their number is even")
    else:
        chosen(f"{n} real points as complex ones without imaginary parts", "their number is odd")


def backward(work: Dimensions, lines: int, n: int, source: ArrayPlace, target: ArrayPlace, scale: float) -> None:
    """From n // 2 + 1 complex points to lines of n real ones; imaginary parts that would have to be 0 are not read."""
    half = n // 2
    _tell(n)
    if n % 2 == 0:
        if not work.halves(lines, half, source, target, scale):
            work.long_lines(lines, half, source, target, scale, (half + 1, half), united=True)
        return
    wide, result = work.scratch((lines, n)), work.scratch((lines, n))
    _walk(work, "mirror", lines, 0, half + 1, source, wide, (half + 1, n), half)
    work.over((lines, n), [1], wide, result, scale)
    _walk(work, "real_parts", lines, 0, n, result, target, (n, n), half)


def _walk(
    work: Dimensions,
    does: str,
    lines: int,
    first: int,
    count: int,
    source: ArrayPlace,
    target: ArrayPlace,
    lengths: tuple[int, int],
    half: int,
) -> None:
    """A phase for points [first, count) of all lines, which have these lengths in the source and the target."""
    chunks, tables = -(-count // CHUNK), work.tables
    numbers = WalkNumbers(chunks, first, count, *lengths, half)
    if does == "separate":
        near = tables.roots(2 * half, work.sign, CHUNK)
        far = tables.roots(2 * half, work.sign, -(-half // CHUNK), CHUNK)
        numbers = numbers._replace(near=near, far=far)
    grain = max(1, _POINTS // max(1, min(count, CHUNK)))
    work.add(FftPhase(WalkCode(work.dtype, does), source, target, numbers, lines * chunks, grain))
