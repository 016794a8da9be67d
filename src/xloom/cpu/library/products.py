"""Products of matrices for the library of kernels: by strategies, types, layouts and sizes.

A kernel of a product serves many sizes, of which strategies and tiles are the same. Of sizes drawn as programs have
them most soon meet kernels that others have brought: so many are drawn that few are left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import log
from random import Random

_PRODUCTS = (
    (600, 500, 700),
    (700, 500, 600),
    (600, 200, 700),
    (700, 200, 600),
    (100, 90, 100),
    (64, 64, 64),
    (32, 1000, 2000),
    (1000, 2000, 32),
    (16, 1000, 2000),
    (2000, 1000, 16),
    (128, 128, 128),
    (200, 200, 200),
    (300, 64, 300),
)
"""Rows, depth and columns: one for each strategy, as far as they depend on these."""
_VECTORS = ((1000, 900, 1), (1, 900, 1000), (1024, 1024, 1), (1, 1024, 1024), (4, 1000, 2000), (8, 1000, 2000))
_WEIGHTS = (
    ("f32", "bf16", False),
    ("f32", "s8", False),
    ("f32", "s8", True),
    ("bf16", "s8", False),
    ("bf16", "s8", True),
)
"""Types of activations and of the weights that meet them, and whether these have a scale a column."""
_ROWS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64, 96, 100, 128, 250, 256, 512)
"""That meet weights."""
_WEIGHT_SIZES = ((1000, 2000), (4096, 1000), (768, 3072), (1024, 4096))
"""Depth and columns of weights: which are wide decides which kernel multiplies them."""
_LONG = ((600, 1300, 700), (700, 1300, 600))
"""For types that are multiplied in pairs."""
_BATCHED = ((32, 16, 16, 16), (64, 64, 64, 64), (16, 300, 64, 300), (16, 300, 300, 64), (16, 400, 500, 600))
_ATTENTION = (
    ("a[B,T,H,D] b[B,T,H,D] c[B,H,T,T]", "{0,2}", "{0,2}", 3, 3),
    ("a[B,H,T,T] b[B,T,H,D] c[B,H,T,D]", "{0,1}", "{0,2}", 3, 1),
    ("a[B,H,T,T] b[B,T,H,D] c[B,H,T,D]", "{0,1}", "{0,2}", 2, 1),
    ("a[B,H,T,D] b[B,H,T,D] c[B,H,T,T]", "{0,1}", "{0,1}", 3, 3),
    ("a[B,H,T,T] b[B,H,T,D] c[B,H,T,D]", "{0,1}", "{0,1}", 3, 2),
    ("a[B,H,T,T] b[B,H,T,D] c[B,H,T,D]", "{0,1}", "{0,1}", 2, 2),
    ("a[B,T,H,D] b[B,H,D,T] c[B,H,T,T]", "{0,2}", "{0,1}", 3, 2),
    ("a[B,T,H,D] b[B,H,T,T] c[B,H,D,T]", "{0,2}", "{0,1}", 1, 3),
    ("a[B,T,H,D] b[B,H,T,T] c[B,H,D,T]", "{0,2}", "{0,1}", 1, 2),
    ("a[B,H,D,T] b[B,T,H,D] c[B,H,T,T]", "{0,1}", "{0,2}", 2, 3),
    ("a[B,H,D,T] b[B,H,T,T] c[B,H,D,T]", "{0,1}", "{0,1}", 3, 2),
    ("a[B,H,D,T] b[B,H,T,T] c[B,H,D,T]", "{0,1}", "{0,1}", 3, 3),
    ("a[8,64] b[8,1000,64] c[8,1000]", "{0}", "{0}", 1, 2),
    ("a[8,1000] b[8,1000,64] c[8,64]", "{0}", "{0}", 1, 1),
)
"""Of queries, keys and values by heads: shapes, batch dimensions, and those that are contracted."""
_TYPES = (
    ("f32", "f32", "f32"),
    ("bf16", "bf16", "bf16"),
    ("bf16", "bf16", "f32"),
    ("f16", "f16", "f16"),
    ("s8", "s8", "s32"),
    ("f64", "f64", "f64"),
    ("s32", "s32", "s32"),
    ("c64", "c64", "c64"),
    ("s8", "s8", "s8"),
    ("c128", "c128", "c128"),
)
_DOUBLE = _TYPES[5]
_LAYOUTS = ((1, 0), (1, 1), (0, 0), (0, 1))
"""Dimensions that are contracted, of the left and of the right operand."""
_DRAWN = (200, 150, 60, 40, 120, 60, 50, 50, 20, 20)
"""Products of each of `_TYPES` and `_LAYOUTS` whose sizes are drawn."""
_DRAWN_BATCHED = (150, 80, 20, 20, 20, 30, 10, 10, 5, 5)
_SIZES, _BATCHED_SIZES = (16, 4096), (16, 512)
"""The least and the most of what is drawn."""
_SQUARES = (16, 32, 64, 100, 128, 256, 500, 512, 1000, 1024, 2048)
"""Rows, columns and depth of square matrices."""
_FEW = tuple(range(1, 16))
"""Rows, columns or places of the depth that are unrolled: each number has code of its own."""
_FEW_TYPES = 2
"""The first of `_TYPES`, which have code for all of `_FEW`."""
_USUAL_FEW = (1, 2, 4, 8, 10)
_DRAWN_FEW = (
    (_TYPES[0], _FEW, 3, 8),
    (_TYPES[1], _USUAL_FEW, 2, 8),
    (_TYPES[1], _FEW, 2, 2),
    *((types, _USUAL_FEW, 2, 2) for types in _TYPES[2:6]),
    *((types, _USUAL_FEW, 2, 1) for types in _TYPES[6:]),
)
"""Types, few rows, columns or places of the depth, how many of `_LAYOUTS`, and products of each."""
_HEADS = ((16, 64), (64, 32), (128, 64), (512, 64), (1024, 128), (300, 64), (2048, 64), (100, 16))
"""Places of a sequence, and how long its vectors are."""


_Types = tuple[str, str, str]
Array = tuple[str, Sequence[int]]


def products() -> Iterator[str]:
    """The HLO text of each product whose kernel is built ahead of time."""
    for types, sizes, lc, rc in product(_TYPES, _PRODUCTS, (1, 0), (0, 1)):
        yield _product(types, sizes, lc, rc)
    for types, sizes, lc, rc in product(_TYPES[:2], _VECTORS, (1, 0), (0, 1)):
        yield _product(types, sizes, lc, rc)
    for types, sizes, lc, rc in product((_TYPES[1], _TYPES[2], _TYPES[4]), _LONG, (1, 0), (0, 1)):
        yield _product(types, sizes, lc, rc)
    for types, rows, sizes, rc in product(_WEIGHTS, _ROWS, _WEIGHT_SIZES, (0, 1)):
        yield _weighted(*types, rows, *sizes, rc)
    for (batch, *sizes), rc in product(_BATCHED, (0, 1)):
        yield _product(_TYPES[0], sizes, 1, rc, batch)
    for types, attention, heads in product(_TYPES[:_FEW_TYPES], _ATTENTION, _HEADS):
        yield _attention(types, *attention, *heads)
    yield from _drawn(Random(0))


def _drawn(numbers: Random) -> Iterator[str]:
    for types, n, layout in product(_TYPES, _SQUARES, _LAYOUTS):
        yield _product(types, (n, n, n), *layout)
    for types, count, layout in _counted(_DRAWN):
        for _ in range(count):
            yield _product(types, _sizes(numbers, *_SIZES), *layout)
    for types, count, layout in _counted(_DRAWN_BATCHED):
        for _ in range(count):
            sizes = [numbers.choice(_FEW) if numbers.random() < 0.2 else n for n in _sizes(numbers, *_BATCHED_SIZES)]
            yield _product(types, sizes, *layout, numbers.randint(2, 64))
    for types, few, layouts, count in _DRAWN_FEW:
        for place, n, layout, _ in product((0, 2), few, _LAYOUTS[:layouts], range(count)):
            yield _product(types, _with(numbers, place, n, *_SIZES), *layout)
        for n, layout, _ in product(few, _LAYOUTS, range(min(count, 4))):
            yield _product(types, _with(numbers, 1, n, *_SIZES), *layout)
    for types, place, n, layout, _ in product(_TYPES[:_FEW_TYPES], range(3), _USUAL_FEW, _LAYOUTS[:2], range(3)):
        yield _product(types, _with(numbers, place, n, *_BATCHED_SIZES), *layout, 100)
    for types, n, layout, batch in product((_TYPES[0], _DOUBLE), _FEW, _LAYOUTS[:3], (100, 10_000)):
        yield _product(types, (n, n, n), *layout, batch)
    for types, rows, columns, layout in product(_TYPES[:_FEW_TYPES], _USUAL_FEW, _USUAL_FEW, _LAYOUTS[:2]):
        yield _product(types, (rows, numbers.randint(16, 4096), columns), *layout)


def _counted(counts: Sequence[int]) -> Iterator[tuple[_Types, int, tuple[int, int]]]:
    for (types, count), layout in product(zip(_TYPES, counts, strict=True), _LAYOUTS):
        yield types, count, layout


def _sizes(numbers: Random, least: int, most: int) -> list[int]:
    """Rows, depth and columns."""
    return [drawn_size(numbers, least, most) for _ in range(3)]


def _with(numbers: Random, place: int, n: int, least: int, most: int) -> list[int]:
    """The same, one of which is `n`."""
    sizes = _sizes(numbers, least, most)
    sizes[place] = n
    return sizes


def drawn_size(numbers: Random, least: int, most: int) -> int:
    """A power of two, or another number of any magnitude."""
    exponent = numbers.uniform(log(least, 2), log(most, 2))
    return 2 ** round(exponent) if numbers.random() < 0.4 else round(2**exponent)


def _product(types: _Types, sizes: Sequence[int], lc: int, rc: int, batch: int = 1) -> str:
    rows, depth, columns = sizes
    a = (rows, depth) if lc else (depth, rows)
    b = (columns, depth) if rc else (depth, columns)
    arrays = zip(types, (a, b, (rows, columns)), strict=True)
    if batch == 1:
        attributes = f"lhs_contracting_dims={{{lc}}}, rhs_contracting_dims={{{rc}}}"
        return program("dot", *arrays, attributes=attributes)
    attributes = (
        f"lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, "
        f"lhs_contracting_dims={{{lc + 1}}}, rhs_contracting_dims={{{rc + 1}}}"
    )
    return program("dot", *((dtype, (batch, *dims)) for dtype, dims in arrays), attributes=attributes)


def _attention(types: _Types, shapes: str, lb: str, rb: str, lc: int, rc: int, length: int, size: int) -> str:
    letters = {"B": 4, "H": 8, "T": length, "D": size}
    dims = ([letters.get(n) or int(n) for n in x[2:-1].split(",")] for x in shapes.split())
    attributes = (
        f"lhs_batch_dims={lb}, rhs_batch_dims={rb}, lhs_contracting_dims={{{lc}}}, rhs_contracting_dims={{{rc}}}"
    )
    return program("dot", *zip(types, dims, strict=True), attributes=attributes)


def _weighted(dtype: str, stored: str, scaled: bool, rows: int, depth: int, columns: int, rc: int) -> str:
    """A product with weights of another type."""
    dims = f"{columns},{depth}" if rc else f"{depth},{columns}"
    scale = (
        f" s = {dtype}[{columns}] parameter(2)\n t = {dtype}[{dims}] broadcast(s), dimensions={{{1 - rc}}}\n"
        f" v = {dtype}[{dims}] multiply(w, t)\n"
    )
    return (
        f"HloModule library\nENTRY e {{\n a = {dtype}[{rows},{depth}] parameter(0)\n"
        f" b = {stored}[{dims}] parameter(1)\n"
        f" w = {dtype}[{dims}] convert(b)\n{scale if scaled else ''}"
        f" ROOT c = {dtype}[{rows},{columns}] dot(a, {'v' if scaled else 'w'}), lhs_contracting_dims={{1}},"
        f" rhs_contracting_dims={{{rc}}}\n}}\n"
    )


def program(opcode: str, left: Array, right: Array, result: Array, attributes: str) -> str:
    """The HLO text of an instruction of two parameters."""
    a, b, c = (f"{dtype}[{','.join(map(str, dims))}]" for dtype, dims in (left, right, result))
    return (
        f"HloModule library\nENTRY e {{\n a = {a} parameter(0)\n b = {b} parameter(1)\n"
        f" ROOT c = {c} {opcode}(a, b), {attributes}\n}}\n"
    )
