"""Reductions over columns, over dimensions between others and to one number, for the library of kernels.

Their code serves all sizes but few columns and few rows, which are those of usual arrays: what else decides is whether
rows and columns divide evenly, and into how many pieces they are cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

_FEW, _ROWS, _COLUMNS = (16, 32, 64), (100, 128, 1000, 1001, 2048, 2051, 20_000, 20_001), (16, 32, 64, 128, 256)
_MANY_COLUMNS = (512, 1000, 2048, 2500)
_UNUSUAL_COLUMNS, _UNUSUAL_ROWS = (*range(5, 16), 20, 24, 48, 50, 96, 100, 192, 200), (128, 1000, 20_000)
"""Each number of columns up to 256 has code of its own."""
_SHORT_ROWS, _SHORT_COUNTS = range(2, 16), (1000, 100_000)
"""Lengths of rows or columns that are no whole vectors, and how many there are."""
_BATCHES = (2, 16)
_MOST = 1 << 25
"""Elements of an array."""
_TOTALS = tuple((1 << k) + more for k in (16, 17, 19, 21, 23, 25) for more in (0, 1, 64))
"""Elements of arrays that are reduced to one number."""
_KINDS = (
    ("f32", "add"),
    ("f32", "maximum"),
    ("bf16", "add"),
    ("f32", "squares"),
    ("f32", "argmax"),
    ("f32", "minimum"),
    ("f32", "argmin"),
    ("bf16", "maximum"),
    ("f64", "add"),
    ("s32", "add"),
    ("f32", "both"),
    ("bf16", "minimum"),
    ("f16", "add"),
    ("f16", "maximum"),
    ("f16", "minimum"),
    ("s8", "maximum"),
    ("s8", "minimum"),
    ("s32", "maximum"),
    ("s32", "minimum"),
    ("f64", "maximum"),
    ("f64", "minimum"),
)
"""Types and what is computed: `squares` are added up; `both` are the greatest and the least."""
_OFTEN, _UNUSUAL = 5, 6
"""The first of them, which are also there in three dimensions, and of unusual numbers of columns or of short rows."""
_SEARCHED = tuple(product(("s32", "bf16", "f16", "f64"), ("argmax", "argmin")))
"""Types of which there are only searches of whole arrays."""
_INITIAL = {"maximum": "-inf", "minimum": "inf", "argmax": "-inf", "argmin": "inf"}
_INTEGERS = {"s8": (-128, 127), "s32": (-(1 << 31), (1 << 31) - 1)}
"""The least and the greatest."""


def reductions() -> Iterator[str]:
    """The HLO text of each."""
    columns = (*_COLUMNS, *_MANY_COLUMNS)
    for number, (dtype, kind) in enumerate(_KINDS):
        for total in _TOTALS:
            yield _reduction(dtype, kind, (total,), 0)
        for dims in product((*_FEW, *_ROWS), columns):
            if prod(dims) <= _MOST:
                yield _reduction(dtype, kind, dims, 0)
        for dims in product(_BATCHES, (*_FEW, *_ROWS), columns) if number < _OFTEN else ():
            if prod(dims) <= _MOST:
                yield _reduction(dtype, kind, dims, 1)
        if number < _UNUSUAL or kind == "both":
            for dims in product(_UNUSUAL_ROWS, _UNUSUAL_COLUMNS):
                yield _reduction(dtype, kind, dims, 0)
            for most in _UNUSUAL_COLUMNS:
                yield _reduction(dtype, kind, (16, 128, most), 1)
            for count, length in product(_SHORT_COUNTS, _SHORT_ROWS):
                yield _reduction(dtype, kind, (count, length), 1)
                yield _reduction(dtype, kind, (length, count), 0)
    for (dtype, kind), total in product(_SEARCHED, _TOTALS):
        yield _reduction(dtype, kind, (total,), 0)


def _reduction(dtype: str, kind: str, dims: Sequence[int], over: int) -> str:
    if kind in ("argmax", "argmin"):
        return first_of(dtype, dims, over, kind)
    matrix, kept = ",".join(map(str, dims)), _kept(dims, over)
    wide = "f32" if kind == "add" and dtype in ("bf16", "f16") else dtype
    converted = "copy" if wide == dtype else "convert"
    opcodes = ("maximum", "minimum") if kind == "both" else ("add",) if kind == "squares" else (kind,)
    element = "squares" if kind == "squares" else "values"
    regions, results = "", ""
    for opcode in opcodes:
        regions += (
            f"{opcode} {{\n p = {wide}[] parameter(0)\n q = {wide}[] parameter(1)\n"
            f" ROOT r = {wide}[] {opcode}(p, q)\n}}\n"
        )
        results += (
            f" init_{opcode} = {wide}[] constant({_initial(dtype, opcode)})\n"
            f" result_{opcode} = {wide}[{kept}] reduce({element}, init_{opcode}), dimensions={{{over}}},"
            f" to_apply={opcode}\n"
        )
    root = f"{dtype}[{kept}] {converted}(result_{opcodes[0]})"
    if len(opcodes) > 1:
        root = f"({dtype}[{kept}], {dtype}[{kept}]) tuple(result_maximum, result_minimum)"
    return (
        f"HloModule library\n{regions}ENTRY e {{\n x = {dtype}[{matrix}] parameter(0)\n"
        f" values = {wide}[{matrix}] {converted}(x)\n squares = {wide}[{matrix}] multiply(values, values)\n"
        f"{results} ROOT r = {root}\n}}\n"
    )


def _initial(dtype: str, opcode: str) -> object:
    """The identity value of an opcode."""
    if dtype in _INTEGERS and opcode in _INITIAL:
        return _INTEGERS[dtype][opcode in ("minimum", "argmin")]
    return _INITIAL.get(opcode, 0)


def _kept(dims: Sequence[int], over: int) -> str:
    return ",".join(str(n) for k, n in enumerate(dims) if k != over)


def first_of(dtype: str, dims: Sequence[int], over: int, kind: str) -> str:
    """The HLO text of where the greatest or least element is, as frameworks write it: `argmax` or `argmin`."""
    matrix, kept = ",".join(map(str, dims)), _kept(dims, over)
    direction = "GT" if kind == "argmax" else "LT"
    return (
        f"HloModule library\nfold {{\n p = {dtype}[] parameter(0)\n i = s32[] parameter(1)\n"
        f" q = {dtype}[] parameter(2)\n j = s32[] parameter(3)\n"
        f" wins = pred[] compare(p, q), direction={direction}\n nan = pred[] compare(p, p), direction=NE\n"
        f" stays = pred[] or(wins, nan)\n value = {dtype}[] select(stays, p, q)\n"
        f" equal = pred[] compare(p, q), direction=EQ\n before = pred[] compare(i, j), direction=LT\n"
        f" first = pred[] and(equal, before)\n known = pred[] or(stays, first)\n"
        f" number = s32[] select(known, i, j)\n ROOT r = ({dtype}[], s32[]) tuple(value, number)\n}}\n"
        f"ENTRY e {{\n x = {dtype}[{matrix}] parameter(0)\n"
        f" i = s32[{matrix}] iota(), iota_dimension={over}\n"
        f" init = {dtype}[] constant({_initial(dtype, kind)})\n zero = s32[] constant(0)\n"
        f" found = ({dtype}[{kept}], s32[{kept}]) reduce(x, i, init, zero), dimensions={{{over}}}, to_apply=fold\n"
        f" ROOT r = s32[{kept}] get-tuple-element(found), index=1\n}}\n"
    )
