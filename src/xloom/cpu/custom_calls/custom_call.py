"""Custom calls from native code: native targets by their address, Python functions by a callback."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from xloom.calls import host, registry
from xloom.calls.buffers import fill, operand_shapes
from xloom.calls.program_run import ProgramRun
from xloom.calls.python_source import bound
from xloom.calls.sanitizer import active
from xloom.calls.status import message_text
from xloom.calls.typed_ffi import CallSite
from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.codegen.schedule.thunks import ScheduledComputation
from xloom.cpu.custom_calls.call_buffers import CallMemory, aligned_pointer, call_memory
from xloom.cpu.custom_calls.native_call import NativeCall
from xloom.cpu.custom_calls.python_callback import call_python
from xloom.cpu.custom_calls.run import DEVICE, Run
from xloom.cpu.custom_calls.typed_ffi_call import SETTLE, call_typed, finish_call
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape
from xloom.llvm.constant_table import constant_table
from xloom.llvm.loop import allocate
from xloom.llvm.types import I8, I32, I64, POINTER, VOID

if TYPE_CHECKING:
    from xloom.cpu.entry.function import EntryBuilder


def custom_call(entry: EntryBuilder, schedule: ScheduledComputation, instruction: Instruction) -> None:
    """A call of what the target's name stands for now. Raises CustomCallError when there is nothing that fits."""
    registration = entry.registration_of(instruction)
    shapes = operand_shapes(instruction)
    if active() is not None:
        _call_guarded(entry, schedule, instruction, registration)
        return
    if registration.function is not None:
        call = bound(registration, instruction)
        call_python(entry, schedule, instruction, shapes, lambda run, out, inputs: call(out, inputs))
        return
    call = NativeCall(instruction, registration, len(entry.program.native_calls))
    entry.program.native_calls.append(call)
    if call.site is not None:
        call_typed(entry, schedule, call, call.site)
        return
    with call_memory(entry, schedule, instruction, shapes, for_python=False) as memory:
        _call_native(entry, call, memory)


def _call_guarded(
    entry: EntryBuilder, schedule: ScheduledComputation, instruction: Instruction, registration: registry.Registration
) -> None:
    """A call by way of Python, which makes it in guarded memory. What is wrong with it is found now all the same."""
    shapes = operand_shapes(instruction)
    typed = registration.function is None and host.checked_version(registration, instruction) == host.TYPED
    site = CallSite(registration, instruction, shapes) if typed else None

    def body(run: Run, out: Any, inputs: list[Any]) -> None:
        run.guarded = run.guarded or ProgramRun()
        if site is not None:
            run.guarded.adopt(site)
        fill(out, host.invoke(instruction, inputs, run.guarded, DEVICE))

    call_python(entry, schedule, instruction, shapes, body)


def _call_native(entry: EntryBuilder, call: NativeCall, memory: CallMemory) -> None:
    b = entry.b
    out = _pointers(entry, call.instruction.shape, iter(memory.outputs))
    operands = [_pointers(entry, s, iter(leaves)) for s, leaves in zip(call.shapes, memory.operands, strict=True)]
    arguments = [out, entry.table(operands)]
    abi = call.registration.abi
    status = None if abi == "original" else _status(entry)
    if status is not None and abi is None:  # see xloom.calls.superset
        arguments += [status, I64(0)]
    elif abi == "status-returning-unified":
        opaque = call.instruction.backend_config.encode("utf-8", "surrogateescape")
        arguments += [_text(entry, opaque), I64(len(opaque))]
    if status is not None:
        arguments.append(status)
    b.call(entry.declared(call.symbol("function"), ir.FunctionType(VOID, [a.type for a in arguments])), arguments)
    if status is not None:
        failed = b.load(b.gep(status, [I32(0), I32(3)], inbounds=True, source_etype=_STATUS_TYPE), typ=I32)
        entry.stop_if(b.icmp_signed("!=", failed, I32(0)), call.instruction)


def _pointers(entry: EntryBuilder, shape: Shape, allocations: Iterator[BufferAllocation]) -> ir.Value:
    """An array's address, or that of a tuple's array of such pointers."""
    if shape.is_tuple:
        return entry.table([_pointers(entry, e, allocations) for e in shape.elements])
    if not shape.is_array:
        return ir.Constant(POINTER, None)
    return aligned_pointer(entry, next(allocations))


def _text(entry: EntryBuilder, data: bytes) -> ir.Value:
    text = constant_table(entry.module, entry.module.get_unique_name("opaque"), I8, bytearray(data + b"\0"))
    return entry.b.gep(text, [I32(0), I32(0)], inbounds=True, source_etype=text.value_type)


# -- the status: XlaCustomCallStatus of xloom/custom_call.h, and behind it what is ours
class _Status(ctypes.Structure):
    _fields_ = [
        ("set_success", ctypes.c_void_p),
        ("set_failure", ctypes.c_void_p),
        ("run", ctypes.py_object),
        ("failed", ctypes.c_int32),
    ]


SET_FAILURE = "xloom_set_failure"
_STATUS_TYPE = ir.LiteralStructType([POINTER, POINTER, POINTER, I32])


@ctypes.CFUNCTYPE(None, ctypes.POINTER(_Status), ctypes.c_void_p, ctypes.c_size_t)
def _set_failure(status: Any, message: int | None, size: int) -> None:
    status.contents.run.message = message_text(message, size)
    status.contents.failed = 1


def failure_callbacks() -> dict[str, int]:
    """The addresses of what native calls report failures to, by symbol."""
    found = {SET_FAILURE: _set_failure, SETTLE: finish_call}
    return {symbol: ctypes.cast(function, ctypes.c_void_p).value or 0 for symbol, function in found.items()}


def _status(entry: EntryBuilder) -> ir.Value:
    """The run's status, of which every call may make a failure, but only the one that ends the run."""
    if entry.status is None:
        b = entry.b
        entry.status = status = allocate(b, _STATUS_TYPE)
        set_failure = entry.declared(SET_FAILURE, ir.FunctionType(VOID, [POINTER, POINTER, I64]))
        values = [_set_success(entry), set_failure, entry.run, I32(0)]
        with b.goto_block(entry.function.entry_basic_block):
            for k, value in enumerate(values):
                b.store(value, b.gep(status, [I32(0), I32(k)], inbounds=True, source_etype=_STATUS_TYPE))
    return entry.status


def _set_success(entry: EntryBuilder) -> ir.Value:
    function = ir.Function(entry.module, ir.FunctionType(VOID, [POINTER]), "xloom.set_success")
    function.linkage = "internal"
    b = ir.IRBuilder(function.append_basic_block())
    b.store(I32(0), b.gep(function.args[0], [I32(0), I32(3)], inbounds=True, source_etype=_STATUS_TYPE))
    b.ret_void()
    return function
