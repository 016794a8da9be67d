"""The functions that typed handlers call most, in native code: what it cannot do it leaves to Python."""

from __future__ import annotations

import ctypes
from functools import lru_cache

from llvmlite import ir

from xloom.calls.typed_ffi.api import api
from xloom.calls.typed_ffi.c_api import StateAccess, ThreadPoolNumThreads, ThreadPoolSchedule
from xloom.calls.typed_ffi.context import Context, StateSlot
from xloom.cpu.runtime.threads.tasks import tasks
from xloom.llvm import jit
from xloom.llvm.types import I8, I32, I64, POINTER, VOID

_STATE_GET, _IN_PYTHON = "xloom_ffi_state_get", "xloom_ffi_state_get_in_python"
_SCHEDULE, _ADD_TASK, _NUM_THREADS = "xloom_ffi_schedule", "xloom_add_task", "xloom_ffi_num_threads"
_NOTHING = ir.Constant(POINTER, None)


@lru_cache(maxsize=1)
def install_native_functions() -> jit.Library:
    """Puts them into the interface's table."""
    table, threads = api(), tasks()
    names = _STATE_GET, _SCHEDULE, _NUM_THREADS
    imports = {_IN_PYTHON: table.State_Get, _ADD_TASK: threads.add_address}
    library = jit.Library([jit.process_code(_functions_ir(threads.size))], names, imports)
    table.State_Get, table.ThreadPool_Schedule, table.ThreadPool_NumThreads = map(library.address, names)
    return library


def _functions_ir(threads: int) -> str:
    module = ir.Module()
    _state_get(module)
    _schedule(module)
    _num_threads(module, threads)
    return str(module)


def _begun(module: ir.Module, name: str) -> tuple[ir.IRBuilder, ir.Value]:
    """A function of the table, and its struct of arguments."""
    function = ir.Function(module, ir.FunctionType(POINTER, [POINTER]), name)
    return ir.IRBuilder(function.append_basic_block("entry")), function.args[0]


def _at(b: ir.IRBuilder, pointer: ir.Value, offset: int) -> ir.Value:
    return b.gep(pointer, [I64(offset)], inbounds=True, source_etype=I8)


# a state that is set and of the type asked for
def _state_get(module: ir.Module) -> None:
    b, arguments = _begun(module, _STATE_GET)
    in_python = ir.Function(module, b.function.ftype, _IN_PYTHON)
    context = b.load(_at(b, arguments, StateAccess.ctx.offset), typ=POINTER)
    stage = b.sext(b.load(_at(b, arguments, StateAccess.stage.offset), typ=I32), I64)
    wanted = b.load(b.load(_at(b, arguments, StateAccess.type_id.offset), typ=POINTER), typ=I64)
    slot_type = ir.ArrayType(I8, ctypes.sizeof(StateSlot))
    slot = b.gep(_at(b, context, Context.states.offset), [stage], inbounds=True, source_etype=slot_type)
    found = b.load(_at(b, slot, StateSlot.type_id.offset), typ=I64)
    fits = b.and_(b.icmp_signed("==", found, wanted), b.icmp_signed("!=", found, I64(0)))
    with b.if_then(fits, likely=True):
        address = b.load(_at(b, slot, StateSlot.address.offset), typ=POINTER)
        b.store(address, _at(b, arguments, StateAccess.state.offset))
        b.ret(_NOTHING)
    b.ret(b.call(in_python, [arguments]))


def _schedule(module: ir.Module) -> None:
    b, arguments = _begun(module, _SCHEDULE)
    add = ir.Function(module, ir.FunctionType(VOID, [POINTER, POINTER]), _ADD_TASK)
    offsets = ThreadPoolSchedule.task.offset, ThreadPoolSchedule.data.offset
    b.call(add, [b.load(_at(b, arguments, offset), typ=POINTER) for offset in offsets])
    b.ret(_NOTHING)


def _num_threads(module: ir.Module, threads: int) -> None:
    b, arguments = _begun(module, _NUM_THREADS)
    b.store(I64(threads), b.load(_at(b, arguments, ThreadPoolNumThreads.num_threads.offset), typ=POINTER))
    b.ret(_NOTHING)
