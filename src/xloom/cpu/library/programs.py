"""Programs whose kernels most others need too: once they are compiled on a machine, others compile faster there.

What is kept of them serves other shapes: products of matrices by the strategies that depend on their sizes, layouts and
types, also with weights that are converted; convolutions over images with the usual windows; the routines of sorts;
triangular systems; small windows; reductions over columns and to one number; single operations on each element. Fourier
transforms, Cholesky's, and sums and norms of rows serve their own lengths.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from xloom.cpu.library.convolutions import convolutions
from xloom.cpu.library.elementwise import elementwise
from xloom.cpu.library.products import products
from xloom.cpu.library.reductions import reductions
from xloom.cpu.library.rows import rows
from xloom.cpu.library.sorts import sorts
from xloom.cpu.library.transforms import transforms
from xloom.cpu.library.windows import windows

_SELECTED = (1, 2, 3, 4, 5, 6, 8, 10, 16, 20, 32, 40, 50, 64, 100, 128, 200, 256, 500, 512, 1000)
"""How many are the first, whose code is for that number alone."""


def programs() -> Iterator[str]:
    """HLO text of each program."""
    yield from dict.fromkeys(_all())


def _all() -> Iterator[str]:
    yield from products()
    yield from sorts()
    for dtype, k, size, count in product(("f32", "bf16"), _SELECTED, (200, 1000, 5000, 100_000), (1, 4, 256)):
        if k <= size:
            result = f"({dtype}[{count},{k}], s32[{count},{k}])"
            yield (
                f"HloModule library\nENTRY e {{\n a = {dtype}[{count},{size}] parameter(0)\n"
                f" ROOT c = {result} topk(a), k={k}, largest=true\n}}\n"
            )
    yield from transforms()
    yield from convolutions()
    yield from rows()
    yield from reductions()
    yield from elementwise()
    yield from windows()
