"""Typed calls from native code: the frame is filled in once a run, and gets the arrays' addresses at each call."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from xloom.calls.typed_ffi import CallSite, arrays_and_tokens, outcome
from xloom.calls.typed_ffi.c_api import Stage
from xloom.calls.typed_ffi.frame import FrameTemplate
from xloom.codegen.schedule.thunks import ScheduledComputation
from xloom.cpu.custom_calls.call_buffers import aligned_pointer, call_memory
from xloom.cpu.custom_calls.lapack_threads import begin_lapack, end_lapack
from xloom.cpu.custom_calls.native_call import NativeCall
from xloom.cpu.custom_calls.run import Run, Unwatched, unwatched
from xloom.llvm.loop import allocate
from xloom.llvm.types import I1, I8, I32, I64, POINTER, VOID

if TYPE_CHECKING:
    from xloom.cpu.entry.function import EntryBuilder

SETTLE = "xloom_settle"
_HANDLER = ir.FunctionType(POINTER, [POINTER])


@ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
def finish_call(address: int | None, frame: int, error: int | None) -> int:
    """What becomes of a call that returned an error, or a future: 1 when it failed. `address` is the run's, if any."""
    run: Run | Unwatched = ctypes.cast(address, ctypes.py_object).value if address else unwatched
    try:
        message = outcome(frame, error)
    except BaseException as interruption:  # native code is between here and who can handle it
        run.error = interruption
        return 1
    run.message = message or ""
    return int(message is not None)


def call_typed(entry: EntryBuilder, schedule: ScheduledComputation, call: NativeCall, site: CallSite) -> None:
    """Emits a call of a typed handler."""
    instruction, shapes, template = call.instruction, call.shapes, site.template
    aligned = not entry.takes_any_address(call.registration)
    with call_memory(entry, schedule, instruction, shapes, for_python=False, aligned=aligned) as memory:
        frame = _frame(entry, call, template)
        allocations = iter([*(leaf for operand in memory.operands for leaf in operand), *memory.outputs])
        seen = [leaf for shape in (*shapes, instruction.shape) for leaf in arrays_and_tokens(shape)]
        for leaf, offset in zip(seen, template.data, strict=True):
            if leaf.is_array:
                allocation = next(allocations)
                pointer = aligned_pointer(entry, allocation) if aligned else entry.pointer(allocation)
                _store(entry, pointer, frame, offset)
        _prepare(entry, call, site, frame)
        _call(entry, call, template, frame, Stage.EXECUTE)


def _frame(entry: EntryBuilder, call: NativeCall, template: FrameTemplate) -> ir.Value:
    """The run's frame of a call, on the stack."""
    b = entry.b
    origin = entry.declared(call.symbol("frame"), _HANDLER)
    memcpy = entry.declared("llvm.memcpy.p0.p0.i64", ir.FunctionType(VOID, [POINTER, POINTER, I64, I1]))
    with b.goto_block(entry.function.entry_basic_block):
        frame = allocate(b, I8, template.nbytes)
        frame.align = 16
        b.call(memcpy, [frame, b.bitcast(origin, POINTER), I64(template.nbytes), I1(0)])
        for offset, target in template.relocations:
            _store(entry, _at(entry, frame, target), frame, offset)
        _store(entry, entry.run, frame, template.owner)
    return frame


def _prepare(entry: EntryBuilder, call: NativeCall, site: CallSite, frame: ir.Value) -> None:
    """Runs the stages before the execution, the first time in a run."""
    stages = [s for s in (Stage.PREPARE, Stage.INITIALIZE) if site.handlers[s]]
    if not stages:
        return
    b, template = entry.b, site.template
    prepared = b.load(_at(entry, frame, template.prepared), typ=I64)
    with b.if_then(b.icmp_signed("==", prepared, I64(0))):
        for stage in stages:
            _store(entry, I32(stage), frame, template.stage)
            _call(entry, call, template, frame, stage)
        _store(entry, I32(Stage.EXECUTE), frame, template.stage)
        _store(entry, I64(1), frame, template.prepared)


def _call(entry: EntryBuilder, call: NativeCall, template: FrameTemplate, frame: ir.Value, stage: Stage) -> None:
    b, nothing = entry.b, ir.Constant(POINTER, None)
    begin_lapack(entry, call)
    error = b.call(entry.declared(call.symbol(stage.name), _HANDLER), [frame])
    future = b.load(_at(entry, frame, template.future), typ=POINTER)
    unsettled = b.or_(b.icmp_unsigned("!=", error, nothing), b.icmp_unsigned("!=", future, nothing))
    with b.if_then(unsettled, likely=False):
        settled = b.call(entry.declared(SETTLE, ir.FunctionType(I32, [POINTER] * 3)), [entry.run, frame, error])
        failed = b.icmp_signed("!=", settled, I32(0))
        with b.if_then(failed):
            end_lapack(entry, call)
        entry.stop_if(failed, call.instruction)
    end_lapack(entry, call)


def _at(entry: EntryBuilder, frame: ir.Value, offset: int) -> Any:
    return entry.b.gep(frame, [I64(offset)], inbounds=True, source_etype=I8)


def _store(entry: EntryBuilder, value: ir.Value, frame: ir.Value, offset: int) -> None:
    entry.b.store(value, _at(entry, frame, offset))
