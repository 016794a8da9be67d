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
from xloom.cpu.library.transforms import transforms
from xloom.cpu.library.windows import windows

_KEYS = ("f32", "f64", "f16", "bf16", "s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64")
_SORTED = (("100000", 0), ("1000", 0), ("300,5000", 1), ("5000,300", 0))
"""Dimensions, and the one that is sorted along."""
_SELECTED = (1, 2, 3, 4, 5, 6, 8, 10, 16, 20, 32, 40, 50, 64, 100, 128, 200, 256, 500, 512, 1000)
"""How many are the first, whose code is for that number alone."""
_CANONICAL = """
 e{0} = pred[] compare(k{0}, zero), direction=EQ
 n{0} = pred[] compare(k{0}, k{0}), direction=NE
 z{0} = {1}[] select(e{0}, zero, k{0})
 c{0} = {1}[] select(n{0}, nan, z{0})"""
"""Frameworks' order of floats: both zeros are equal, and so are all NaNs, which come last."""


def programs() -> Iterator[str]:
    """HLO text of each program."""
    yield from dict.fromkeys(_all())


def _all() -> Iterator[str]:
    yield from products()
    for dtype, (dims, along), more in product(_KEYS, _SORTED, (False, True)):
        yield _sort(dtype, dims, along, more)
    for dtype, k, size in product(("f32", "bf16"), _SELECTED, (5000, 100_000)):
        result = f"({dtype}[4,{k}], s32[4,{k}])"
        yield (
            f"HloModule library\nENTRY e {{\n a = {dtype}[4,{size}] parameter(0)\n"
            f" ROOT c = {result} topk(a), k={k}, largest=true\n}}\n"
        )
    yield from transforms()
    yield from convolutions()
    yield from rows()
    yield from reductions()
    yield from elementwise()
    yield from windows()


def _sort(dtype: str, dims: str, along: int, more: bool) -> str:
    """Of keys, `more` of them with their numbers."""
    region, names, kind = "", ("k0", "k1"), ""
    if "f" in dtype:
        region = f" zero = {dtype}[] constant(0)\n nan = {dtype}[] constant(nan)"
        region += "".join(_CANONICAL.format(k, dtype) for k in (0, 1)) + "\n"
        names, kind = ("c0", "c1"), ", type=TOTALORDER"
    numbers = " i0 = s32[] parameter(2)\n i1 = s32[] parameter(3)\n" if more else ""
    shape, operands, iota = f"{dtype}[{dims}]", "a", ""
    if more:
        iota = f" i = s32[{dims}] iota(), iota_dimension={along}\n"
        shape, operands = f"({shape}, s32[{dims}])", "a, i"
    return (
        f"HloModule library\nless {{\n k0 = {dtype}[] parameter(0)\n k1 = {dtype}[] parameter(1)\n{numbers}{region}"
        f" ROOT r = pred[] compare({', '.join(names)}), direction=LT{kind}\n}}\n"
        f"ENTRY e {{\n a = {dtype}[{dims}] parameter(0)\n{iota}"
        f" ROOT c = {shape} sort({operands}), dimensions={{{along}}}, is_stable=true, to_apply=less\n}}\n"
    )
