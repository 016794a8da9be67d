"""The numbers of a transform of lines in memory: which passes they take, by a convolution or not."""

from __future__ import annotations

import numpy as np

from xloom.cpu.kernel_modules.choices import chosen
from xloom.cpu.kernels.fft import plan
from xloom.cpu.kernels.fft.signatures import LinePass, LineTransform
from xloom.cpu.kernels.fft.tables import Tables


def line_transform(n: int, lanes: int, tables: Tables) -> LineTransform:
    """The forward transform of n points of so many lines."""
    found = plan.radices(n)
    if found is not None:
        chosen(
            f"{n} points by passes of {' x '.join(map(str, found))}",
            f"{lanes} transforms side by side are the lanes of vectors",
        )
        return LineTransform(n, n, len(found), _rows(n, found, tables), tables.roots(n, -1, n))
    length = plan.convolution_length(n)
    chosen(
        f"{n} points by a convolution of {length}",
        f"a prime factor of {n} is so great that a pass of it would take longer",
    )
    passes = plan.radices(length)
    assert passes is not None
    return LineTransform(
        n,
        length,
        len(passes),
        _rows(length, passes, tables),
        tables.roots(length, -1, length),
        tables.complex(("chirp", n), n, lambda: _chirp(n)),
        tables.complex(("spectrum", n), length, lambda: _spectrum(n, length)),
    )


def _rows(n: int, radices: tuple[int, ...], tables: Tables) -> int:
    rows, side = [], 1
    for radix in radices:
        rows.append(LinePass(radix, side, n // (side * radix)))
        side *= radix
    return tables.of(("passes", n), 8 * np.size(rows), lambda: np.array(rows, np.int64))


def _chirp(n: int) -> np.ndarray:
    """exp(-pi i k^2 / n)."""
    k = np.arange(n, dtype=np.int64)
    return plan.roots(2 * n, -1, k * k % (2 * n))


def _spectrum(n: int, length: int) -> np.ndarray:
    """Of the conjugate chirp, around its beginning; divided by what the transform back has to be."""
    chirp, kernel = _chirp(n), np.zeros(length, np.complex128)
    kernel[:n] = np.conj(chirp)
    kernel[length - n + 1 :] = np.conj(chirp[:0:-1])
    return np.fft.fft(kernel) / length
