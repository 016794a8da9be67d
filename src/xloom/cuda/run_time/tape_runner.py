"""The native function that does the rows of a tape: it calls the driver by pointers, without Python."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache

from llvmlite import ir

from xloom.cuda.run_time.tape import Column
from xloom.llvm.jit import Library, process_code
from xloom.llvm.loop import allocate, loop
from xloom.llvm.module_text import module_text
from xloom.llvm.pass_pipeline import PassPipeline
from xloom.llvm.routine import exported_function, read, write
from xloom.llvm.target import process_target
from xloom.llvm.target_module import TargetModule
from xloom.llvm.types import I32, I64, POINTER

_NAME = "xloom_run_tape"
_PARAMETERS = 8
"""Of the function, all i64."""
_LAUNCH = ir.FunctionType(I32, [POINTER, *[I32] * 7, POINTER, POINTER, POINTER])
_COPY = ir.FunctionType(I32, [I64, I64, I64, POINTER])

TapeRunner = Callable[..., int]
"""`i64 (rows, first, end, pointers, bases, functions, stream, entries)`, all i64.

`entries` are the addresses of cuLaunchKernel and cuMemcpyDtoDAsync_v2. The result is 0, or the number of a row that was
refused, and its CUresult in the lower 16 bits: `(row << 16) | result`.
"""


@lru_cache(maxsize=1)
def tape_runner() -> TapeRunner:
    """The function, which all programs and devices share."""
    module = TargetModule(process_target())
    _define(module)
    data = process_code(module_text(module), PassPipeline.CALLERS)
    library = Library([data], [_NAME])
    function = library.function(_NAME, ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * _PARAMETERS))
    function.library = library  # whose code it is
    return function


def _define(module: ir.Module) -> None:
    function = exported_function(module, ir.FunctionType(I64, [I64] * _PARAMETERS), _NAME)
    b = ir.IRBuilder(function.append_basic_block("entry"))
    _, first, end, *_ = function.args
    rows, pointers, bases, functions, stream, entries = (
        b.inttoptr(function.args[k], POINTER) for k in (0, 3, 4, 5, 6, 7)
    )
    launch, copy = (read(b, entries, POINTER, I64(k)) for k in range(2))
    largest = allocate(b, I64, name="largest")
    b.store(I64(2), largest)

    def column(row: ir.Value, which: Column) -> ir.Value:
        return read(b, rows, I64, b.add(b.mul(row, I64(len(Column))), I64(which)))

    with loop(b, first, end) as row:
        count, known = column(row, Column.COUNT), b.load(largest, typ=I64)
        b.store(b.select(b.icmp_signed(">", count, known), count, known), largest)
    room = b.load(largest, typ=I64)
    values, places = b.alloca(I64, room, name="values"), b.alloca(POINTER, room, name="places")
    values.type = places.type = POINTER
    with loop(b, I64(0), room) as k:
        write(b, places, k, b.gep(values, [k], source_etype=I64))
    with loop(b, first, end) as row:
        begin = column(row, Column.FIRST)
        with loop(b, I64(0), column(row, Column.COUNT)) as k:
            at = b.mul(b.add(begin, k), I64(2))
            base = read(b, bases, I64, read(b, pointers, I64, at))
            write(b, values, k, b.add(base, read(b, pointers, I64, b.add(at, I64(1)))))
        number, amount = column(row, Column.FUNCTION), column(row, Column.BLOCKS)
        with b.if_else(b.icmp_signed("<", number, I64(0))) as (is_copy, is_launch):
            with is_copy:
                target, source = (read(b, values, I64, I64(k)) for k in range(2))
                needed = b.and_(b.icmp_signed("!=", target, source), b.icmp_signed("!=", amount, I64(0)))
                with b.if_then(needed):
                    _give_up(b, row, _call(b, copy, _COPY, [target, source, amount, stream]))
            with is_launch:
                one = I32(1)
                sizes = [b.trunc(amount, I32), one, one, b.trunc(column(row, Column.THREADS), I32), one, one]
                given = [
                    read(b, functions, POINTER, number),
                    *sizes,
                    b.trunc(column(row, Column.SHARED), I32),
                    stream,
                    places,
                    POINTER(None),
                ]
                _give_up(b, row, _call(b, launch, _LAUNCH, given))
    b.ret(I64(0))


def _call(b: ir.IRBuilder, address: ir.Value, kind: ir.FunctionType, arguments: list[ir.Value]) -> ir.Value:
    slot = allocate(b, POINTER)  # llvmlite must know what it calls
    b.store(address, slot)
    return b.call(b.load(slot, typ=kind.as_pointer()), arguments)


def _give_up(b: ir.IRBuilder, row: ir.Value, result: ir.Value) -> None:
    """Ends the function where a call was refused."""
    with b.if_then(b.icmp_signed("!=", result, I32(0)), likely=False):
        b.ret(b.or_(b.shl(row, I64(16)), b.zext(result, I64)))
