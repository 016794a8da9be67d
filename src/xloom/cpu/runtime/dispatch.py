"""From Python's arguments to native code: arrays are checked and their addresses taken by native code too.

It reads NumPy's array objects at the offsets of the `PyArrayObject_fields` of NumPy's C ABI, and tuples as CPython lays
them out. `struct_offsets_match()` looks whether they are so here; where not, arguments are checked in Python.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from llvmlite import ir

from xloom.llvm import jit
from xloom.llvm.loop import loop
from xloom.llvm.types import I8, I32, I64, POINTER

_TUPLE_ITEMS = 24
_TYPE, _DATA, _RANK, _DIMS, _DESCRIPTOR, _FLAGS = 8, 16, 24, 32, 56, 64
_CONTIGUOUS_AND_ALIGNED = 0x101
MISFIT = -1
"""What `dispatch` returns when an argument is not an array of just the type, shape and layout that the row says."""

_SYMBOL = "xloom_dispatch"
_OBJECT = ctypes.py_object
_PROTOTYPE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, _OBJECT, _OBJECT, ctypes.c_void_p, _OBJECT)
_ROW_WORDS, _HEAD_WORDS = 4, 5
"""Words of a call for each argument, and before these."""


class Call:
    """What native code must know of a program: where it is, its constants, and how its arguments look."""

    def __init__(self, main: int, constants: int, arguments: Sequence[tuple[Any, tuple[int, ...]]], results: int):
        self._dims = [np.array(dims, np.int64) for _, dims in arguments]
        rows = [
            word
            for (dtype, dims), array in zip(arguments, self._dims, strict=True)
            for word in (id(np.ndarray), id(dtype), len(dims), array.__array_interface__["data"][0])
        ]
        self._words = np.array([main, constants, len(arguments), results, 0, *rows], np.uint64)
        self.address = self._words.__array_interface__["data"][0]


@lru_cache(maxsize=1)
def dispatch() -> Any:
    """`dispatch(call.address, arguments, results, arena.address, run)`, where arguments and results are tuples."""
    library = jit.Library([jit.process_code(_dispatch_ir(), jit.PassPipeline.CALLERS)], [_SYMBOL])
    function = library.function(_SYMBOL, _PROTOTYPE)
    function.library = library
    return function


def address_of(array: np.ndarray) -> int:
    """Where an array begins, if `struct_offsets_match()`; NumPy's own ways to ask take ten times as long."""
    return ctypes.c_uint64.from_address(id(array) + _DATA).value


@lru_cache(maxsize=1)
def struct_offsets_match() -> bool:
    """True when arrays and tuples are laid out as native code reads them."""
    array = np.zeros((2, 3), np.float32)
    items = (array,)

    def word(address: int, kind: Any = ctypes.c_uint64) -> int:
        return kind.from_address(address).value

    here = id(array)
    if word(id(items) + _TUPLE_ITEMS) != here or word(here + _TYPE) != id(np.ndarray):
        return False
    if word(here + _DATA) != array.__array_interface__["data"][0] or word(here + _RANK, ctypes.c_int32) != 2:
        return False
    dims = word(here + _DIMS)
    sizes = (word(dims), word(dims + 8))
    flags = word(here + _FLAGS, ctypes.c_int32) & _CONTIGUOUS_AND_ALIGNED
    return sizes == (2, 3) and word(here + _DESCRIPTOR) == id(array.dtype) and flags == _CONTIGUOUS_AND_ALIGNED


def _dispatch_ir() -> str:
    module = ir.Module()
    kind = ir.FunctionType(I32, [POINTER] * 5)
    function = ir.Function(module, kind, _SYMBOL)
    call, arguments, results, arena, run = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))
    items = ir.IntType(8)
    arguments, results = (
        b.gep(x, [I64(_TUPLE_ITEMS)], inbounds=True, source_etype=items) for x in (arguments, results)
    )

    def field(pointer: ir.Value, offset: int, kind: ir.Type) -> ir.Value:
        return b.load(b.gep(pointer, [I64(offset)], inbounds=True, source_etype=I8), typ=kind)

    def item(table: ir.Value, k: ir.Value) -> ir.Value:
        return b.gep(table, [k], inbounds=True, source_etype=POINTER)

    main, constants = field(call, 0, POINTER), field(call, 8, POINTER)
    count, outputs = field(call, 16, I64), field(call, 24, I64)
    pointers = b.alloca(POINTER, b.add(b.add(count, outputs), I64(1)))
    pointers.type = POINTER
    misfit = function.append_basic_block("misfit")

    def demand(condition: ir.Value) -> None:
        fits = b.append_basic_block("fits")
        b.cbranch(condition, fits, misfit)
        b.position_at_end(fits)

    rows = b.gep(call, [I64(_HEAD_WORDS)], inbounds=True, source_etype=I64)
    with loop(b, 0, count, name="argument") as k:
        row = b.gep(rows, [b.mul(k, I64(_ROW_WORDS))], inbounds=True, source_etype=I64)
        array = b.load(item(arguments, k), typ=POINTER)
        rank = field(row, 16, I64)
        demand(b.icmp_unsigned("==", field(array, _TYPE, I64), field(row, 0, I64)))
        demand(b.icmp_unsigned("==", field(array, _DESCRIPTOR, I64), field(row, 8, I64)))
        demand(b.icmp_unsigned("==", b.zext(field(array, _RANK, I32), I64), rank))
        flags = b.and_(field(array, _FLAGS, I32), I32(_CONTIGUOUS_AND_ALIGNED))
        demand(b.icmp_unsigned("==", flags, I32(_CONTIGUOUS_AND_ALIGNED)))
        sizes, wanted = field(array, _DIMS, POINTER), field(row, 24, POINTER)
        with loop(b, 0, rank, name="dimension") as d:
            demand(
                b.icmp_unsigned(
                    "==",
                    b.load(b.gep(sizes, [d], source_etype=I64), typ=I64),
                    b.load(b.gep(wanted, [d], source_etype=I64), typ=I64),
                )
            )
        b.store(field(array, _DATA, POINTER), item(pointers, k))
    made = item(pointers, count)
    with loop(b, 0, outputs, name="result") as k:
        b.store(field(b.load(item(results, k), typ=POINTER), _DATA, POINTER), item(made, k))
    main.type = kind.as_pointer()  # llvmlite must know what it calls
    b.ret(b.call(main, [pointers, made, constants, arena, run]))
    b.position_at_end(misfit)
    b.ret(I32(MISFIT))
    return str(module)
