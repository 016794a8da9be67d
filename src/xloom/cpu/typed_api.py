"""The function that typed handlers call most, in native code: what it cannot do it leaves to Python."""

from __future__ import annotations

import ctypes
from functools import lru_cache

from llvmlite import ir

from xloom.calls.typed_ffi.api import api
from xloom.calls.typed_ffi.c_api import StateAccess
from xloom.calls.typed_ffi.context import Context, StateSlot
from xloom.cpu import jit
from xloom.cpu.emit.types import I8, I32, I64, POINTER

_STATE_GET, _IN_PYTHON = "xloom_ffi_state_get", "xloom_ffi_state_get_in_python"


@lru_cache(maxsize=1)
def use_native_state_get() -> jit.Library:
    """Puts it into the interface's table."""
    table = api()
    library = jit.Library([jit.object_code(_state_get_ir())], [_STATE_GET], {_IN_PYTHON: table.State_Get})
    table.State_Get = library.address(_STATE_GET)
    return library


# a state that is set and of the type asked for
def _state_get_ir() -> str:
    module = ir.Module()
    kind = ir.FunctionType(POINTER, [POINTER])
    function, in_python = ir.Function(module, kind, _STATE_GET), ir.Function(module, kind, _IN_PYTHON)
    (arguments,) = function.args
    b = ir.IRBuilder(function.append_basic_block("entry"))

    def at(pointer: ir.Value, offset: int) -> ir.Value:
        return b.gep(pointer, [I64(offset)], inbounds=True, source_etype=I8)

    context = b.load(at(arguments, StateAccess.ctx.offset), typ=POINTER)
    stage = b.sext(b.load(at(arguments, StateAccess.stage.offset), typ=I32), I64)
    wanted = b.load(b.load(at(arguments, StateAccess.type_id.offset), typ=POINTER), typ=I64)
    slot_type = ir.ArrayType(I8, ctypes.sizeof(StateSlot))
    slot = b.gep(at(context, Context.states.offset), [stage], inbounds=True, source_etype=slot_type)
    found = b.load(at(slot, StateSlot.type_id.offset), typ=I64)
    fits = b.and_(b.icmp_signed("==", found, wanted), b.icmp_signed("!=", found, I64(0)))
    with b.if_then(fits, likely=True):
        b.store(b.load(at(slot, StateSlot.address.offset), typ=POINTER), at(arguments, StateAccess.state.offset))
        b.ret(ir.Constant(POINTER, None))
    b.ret(b.call(in_python, [arguments]))
    return str(module)
