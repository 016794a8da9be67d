"""By how many threads LAPACK computes: by one where matrices are small, or so many that the handler shares them out.

OpenBLAS would share each of its many small products among threads of its own, which wait for each other's locks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

from llvmlite import ir

from xloom.calls.jaxlib_handlers import is_lapack
from xloom.calls.openblas import thread_functions
from xloom.calls.registry import Registration
from xloom.hlo.shape import Shape
from xloom.llvm import jit
from xloom.llvm.types import I32, I64, VOID
from xloom.thread_count import thread_count

if TYPE_CHECKING:
    from xloom.cpu.custom_calls.native_call import NativeCall
    from xloom.cpu.entry.function import EntryBuilder

SMALL = 512
"""Rows or columns of matrices that are better computed by one thread."""
_ALWAYS = (1 << 63) - 1
"""What stands for as many matrices as there may be threads."""
_NAMES = _BEGIN, _END = "xloom_begin_lapack", "xloom_end_lapack"
_FUNCTION = ir.FunctionType(VOID, [I64])


def lapack_symbols(registration: Registration) -> dict[str, int]:
    """What code has to be linked with that calls a handler, by name."""
    return {name: _library().address(name) for name in _NAMES} if is_lapack(registration) else {}


def begin_lapack(entry: EntryBuilder, call: NativeCall) -> None:
    """Emits what a call of LAPACK's begins with: nothing for other calls."""
    _emit(entry, call, _BEGIN)


def end_lapack(entry: EntryBuilder, call: NativeCall) -> None:
    """Emits what comes after a call, whether it failed or not."""
    _emit(entry, call, _END)


def _emit(entry: EntryBuilder, call: NativeCall, name: str) -> None:
    if call.shapes and is_lapack(call.registration):  # without an array it will say what it wants
        entry.b.call(entry.declared(name, _FUNCTION), [I64(_independent(call.shapes[0]))])


def _independent(shape: Shape) -> int:
    """How many matrices a handler may compute side by side; `_ALWAYS` if they are small."""
    *batch, rows, columns = (1, 1, *shape.dims)
    return _ALWAYS if max(rows, columns) < SMALL else math.prod(batch)


@lru_cache(maxsize=1)
def _library() -> jit.Library:
    """`begin(matrices)` and `end(matrices)`: of calls that overlap, the last sets what the first found."""
    functions = thread_functions()
    module = ir.Module()
    lock, calls, before = (
        ir.GlobalVariable(module, kind, name) for kind, name in ((I64, "lock"), (I64, "calls"), (I32, "before"))
    )
    for variable in (lock, calls, before):
        variable.linkage, variable.initializer = "internal", variable.value_type(0)
    get = ir.Function(module, ir.FunctionType(I32, []), "xloom_get_blas_threads")
    put = ir.Function(module, ir.FunctionType(VOID, [I32]), "xloom_set_blas_threads")
    for name, change in ((_BEGIN, 1), (_END, -1)):
        function = ir.Function(module, _FUNCTION, name)
        b = ir.IRBuilder(function.append_basic_block("entry"))
        if functions is not None:
            with b.if_then(b.icmp_signed(">=", function.args[0], I64(thread_count()))), _locked(b, lock):
                count = b.add(b.load(calls), I64(change))
                b.store(count, calls)
                with b.if_then(b.icmp_signed("==", count, I64(max(change, 0)))):
                    if change > 0:
                        b.store(b.call(get, []), before)
                    b.call(put, [I32(1) if change > 0 else b.load(before)])
        b.ret_void()
    imports = {} if functions is None else {get.name: functions.get, put.name: functions.set}
    return jit.Library([jit.process_code(str(module))], _NAMES, imports)


@contextmanager
def _locked(b: ir.IRBuilder, lock: ir.Value) -> Iterator[None]:
    """One thread at a time, for a moment."""
    wait, taken = (b.append_basic_block(name) for name in ("wait", "taken"))
    b.branch(wait)
    b.position_at_end(wait)
    b.cbranch(b.icmp_signed("==", b.atomic_rmw("xchg", lock, I64(1), "acquire"), I64(0)), taken, wait)
    b.position_at_end(taken)
    yield
    b.atomic_rmw("xchg", lock, I64(0), "release")
