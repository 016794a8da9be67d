"""Programs whose kernels most others need too: once they are compiled on a machine, others compile faster there.

What is kept of them serves other shapes: products of matrices by the strategies that depend on their sizes, layouts and
types, also with weights that are converted; convolutions over images with the usual windows; the routines of sorts;
triangular systems.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from xloom.cpu.library.convolutions import convolutions

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
_ROWS = (1, 4, 8, 16, 32, 100, 250)
"""That meet weights."""
_LONG = ((600, 1300, 700), (700, 1300, 600))
"""For types that are multiplied in pairs."""
_BATCHED = ((32, 16, 16, 16), (64, 64, 64, 64), (16, 300, 64, 300), (16, 300, 300, 64), (16, 400, 500, 600))
_ATTENTION = (
    ("a[4,128,8,32] b[4,128,8,32] c[4,8,128,128]", "{0,2}", "{0,2}", 3, 3),
    ("a[4,8,128,128] b[4,128,8,32] c[4,8,128,32]", "{0,1}", "{0,2}", 3, 1),
    ("a[4,8,128,128] b[4,128,8,32] c[4,8,128,32]", "{0,1}", "{0,2}", 2, 1),
    ("a[4,8,128,32] b[4,8,128,32] c[4,8,128,128]", "{0,1}", "{0,1}", 3, 3),
    ("a[4,8,128,128] b[4,8,128,32] c[4,8,128,32]", "{0,1}", "{0,1}", 3, 2),
    ("a[4,8,128,128] b[4,8,128,32] c[4,8,128,32]", "{0,1}", "{0,1}", 2, 2),
    ("a[4,128,8,32] b[4,8,32,128] c[4,8,128,128]", "{0,2}", "{0,1}", 3, 2),
    ("a[4,128,8,32] b[4,8,128,128] c[4,8,32,128]", "{0,2}", "{0,1}", 1, 3),
    ("a[4,128,8,32] b[4,8,128,128] c[4,8,32,128]", "{0,2}", "{0,1}", 1, 2),
    ("a[4,8,32,128] b[4,128,8,32] c[4,8,128,128]", "{0,1}", "{0,2}", 2, 3),
    ("a[4,8,32,128] b[4,8,128,128] c[4,8,32,128]", "{0,1}", "{0,1}", 3, 2),
    ("a[4,8,32,128] b[4,8,128,128] c[4,8,32,128]", "{0,1}", "{0,1}", 3, 3),
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
)
_RIGHT_SIDES = (1, 2, 4, 8, 16, 32, 48, 64)
_KEYS = ("f32", "f64", "s32", "s64", "u32", "u16")
_SORTED = (("100000", 0), ("300,5000", 1), ("5000,300", 0))
"""Dimensions, and the one that is sorted along."""
_CANONICAL = """
 e{0} = pred[] compare(k{0}, zero), direction=EQ
 n{0} = pred[] compare(k{0}, k{0}), direction=NE
 z{0} = {1}[] select(e{0}, zero, k{0})
 c{0} = {1}[] select(n{0}, nan, z{0})"""
"""Frameworks' order of floats: both zeros are equal, and so are all NaNs, which come last."""


def programs() -> Iterator[str]:
    """HLO text of each program."""
    for types, sizes, lc, rc in product(_TYPES, _PRODUCTS, (1, 0), (0, 1)):
        yield _product(types, sizes, lc, rc)
    for types, sizes, lc, rc in product(_TYPES[:2], _VECTORS, (1, 0), (0, 1)):
        yield _product(types, sizes, lc, rc)
    for types, sizes, lc, rc in product((_TYPES[1], _TYPES[2], _TYPES[4]), _LONG, (1, 0), (0, 1)):
        yield _product(types, sizes, lc, rc)
    for types, rows, rc in product(_WEIGHTS, _ROWS, (0, 1)):
        yield _weighted(*types, rows, rc)
    for shapes, lb, rb, lc, rc in _ATTENTION:
        a, b, c = (tuple(map(int, x[2:-1].split(","))) for x in shapes.split())
        dims = f"lhs_batch_dims={lb}, rhs_batch_dims={rb}, lhs_contracting_dims={{{lc}}}, rhs_contracting_dims={{{rc}}}"
        yield _program("dot", ("f32", a), ("f32", b), ("f32", c), dims)
    for (batch, rows, depth, columns), rc in product(_BATCHED, (1, 2)):
        b = (batch, columns, depth) if rc == 2 else (batch, depth, columns)
        dims = f"lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{{rc}}}"
        result = ("f32", (batch, rows, columns))
        yield _program("dot", ("f32", (batch, rows, depth)), ("f32", b), result, dims)
    for dtype, sides, unit in product(("f32", "f64"), _RIGHT_SIDES, (False, True)):
        yield _solution(dtype, sides, unit)
    for dtype, (dims, along), more in product(_KEYS, _SORTED, (False, True)):
        yield _sort(dtype, dims, along, more)
    for dims, results in (("100000", "64"), ("300,5000", "300,8")):
        result = f"(f32[{results}], s32[{results}])"
        yield (
            f"HloModule library\nENTRY e {{\n a = f32[{dims}] parameter(0)\n"
            f" ROOT c = {result} topk(a), k={results.rpartition(',')[2]}, largest=true\n}}\n"
        )
    yield from convolutions()


def _product(types: tuple[str, str, str], sizes: tuple[int, int, int], lc: int, rc: int) -> str:
    left, right, result = types
    rows, depth, columns = sizes
    a = (rows, depth) if lc else (depth, rows)
    b = (columns, depth) if rc else (depth, columns)
    attributes = f"lhs_contracting_dims={{{lc}}}, rhs_contracting_dims={{{rc}}}"
    return _program("dot", (left, a), (right, b), (result, (rows, columns)), attributes)


def _weighted(dtype: str, stored: str, scaled: bool, rows: int, rc: int) -> str:
    """A product with weights of another type."""
    depth, columns = 1000, 2000
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


def _solution(dtype: str, sides: int, unit: bool) -> str:
    """Of triangular systems."""
    flags = f"left_side=true, lower=true, unit_diagonal={str(unit).lower()}, transpose_a=NO_TRANSPOSE"
    right = (dtype, (30, sides))
    return _program("triangular-solve", (dtype, (30, 30)), right, right, flags)


def _sort(dtype: str, dims: str, along: int, more: bool) -> str:
    """Of keys, `more` of them with their numbers."""
    region, names, kind = "", ("k0", "k1"), ""
    if dtype.startswith("f"):
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


_Array = tuple[str, Sequence[int]]


def _program(opcode: str, left: _Array, right: _Array, result: _Array, attributes: str) -> str:
    a, b, c = (f"{dtype}[{','.join(map(str, dims))}]" for dtype, dims in (left, right, result))
    return (
        f"HloModule library\nENTRY e {{\n a = {a} parameter(0)\n b = {b} parameter(1)\n"
        f" ROOT c = {c} {opcode}(a, b), {attributes}\n}}\n"
    )
