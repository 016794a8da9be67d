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
)
"""Types and what is computed: `squares` are added up."""
_OFTEN = 5
"""The first of them, which are also there in three dimensions."""
_INITIAL = {"maximum": "-inf", "minimum": "inf", "argmax": "-inf", "argmin": "inf"}


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


def _reduction(dtype: str, kind: str, dims: Sequence[int], over: int) -> str:
    if kind in ("argmax", "argmin"):
        return first_of(dtype, dims, over, kind)
    matrix, kept = ",".join(map(str, dims)), _kept(dims, over)
    wide = "f32" if kind == "add" and dtype == "bf16" else dtype
    converted, opcode, values = "copy" if wide == dtype else "convert", kind, ""
    if kind == "squares":
        opcode, values = "add", f" squares = {wide}[{matrix}] multiply(values, values)\n"
    return (
        f"HloModule library\nfold {{\n p = {wide}[] parameter(0)\n q = {wide}[] parameter(1)\n"
        f" ROOT r = {wide}[] {opcode}(p, q)\n}}\n"
        f"ENTRY e {{\n x = {dtype}[{matrix}] parameter(0)\n values = {wide}[{matrix}] {converted}(x)\n{values}"
        f" init = {wide}[] constant({_INITIAL.get(kind, 0)})\n"
        f" result = {wide}[{kept}] reduce({'squares' if values else 'values'}, init), dimensions={{{over}}},"
        f" to_apply=fold\n ROOT r = {dtype}[{kept}] {converted}(result)\n}}\n"
    )


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
        f" init = {dtype}[] constant({_INITIAL[kind]})\n zero = s32[] constant(0)\n"
        f" found = ({dtype}[{kept}], s32[{kept}]) reduce(x, i, init, zero), dimensions={{{over}}}, to_apply=fold\n"
        f" ROOT r = s32[{kept}] get-tuple-element(found), index=1\n}}\n"
    )
