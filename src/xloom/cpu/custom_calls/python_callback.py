"""Python called from native code: it sees the program's memory as arrays, and what it raises ends the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir

from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.codegen.schedule.thunks import ScheduledComputation
from xloom.cpu.custom_calls.call_buffers import call_memory
from xloom.cpu.custom_calls.run import Run
from xloom.cpu.runtime.threads.poll_ir import CALL_PYTHON
from xloom.hlo.instruction import Instruction
from xloom.hlo.shape import Shape
from xloom.llvm.types import I32, POINTER, VOID

if TYPE_CHECKING:
    from xloom.cpu.entry.function import EntryBuilder


Body = Callable[[Run, Any, list[Any]], None]
"""Gets the run, the buffers of the result, which it fills, and the operands, nested as the shapes are."""

_View = Callable[[Run], Any]


def call_python(
    entry: EntryBuilder, schedule: ScheduledComputation, instruction: Instruction, shapes: Sequence[Shape], body: Body
) -> None:
    """Emits a call of `body` with operands of `shapes`, that many of the instruction's."""
    with call_memory(entry, schedule, instruction, shapes, for_python=True) as memory:
        out = _view(instruction.shape, iter(memory.outputs), writable=True)
        inputs = [
            _view(shape, iter(leaves), writable=False) for shape, leaves in zip(shapes, memory.operands, strict=True)
        ]

        def call(run: Run) -> None:
            body(run, out(run), [view(run) for view in inputs])

        function = entry.imported(id(call), ir.FunctionType(VOID, []), call)
        # the arena's address tells LLVM that what is there may change
        caller = entry.declared(CALL_PYTHON, ir.FunctionType(I32, [POINTER] * 3))
        failed = entry.b.call(caller, [entry.b.bitcast(function, POINTER), entry.run, entry.arena])
        entry.stop_if(entry.b.icmp_signed("!=", failed, I32(0)), instruction)


def _view(shape: Shape, allocations: Iterator[BufferAllocation], *, writable: bool) -> _View:
    """Gives the arrays of a value; tokens are None."""
    if shape.is_tuple:
        parts = [_view(e, allocations, writable=writable) for e in shape.elements]
        return lambda run: tuple([part(run) for part in parts])
    if not shape.is_array:
        return lambda run: None
    view = _array_view(next(allocations), shape)
    return view if writable else lambda run: _protected(view(run))


def _protected(array: np.ndarray) -> np.ndarray:
    array.setflags(write=False)
    return array


def _array_view(allocation: BufferAllocation, shape: Shape) -> _View:
    dims, dtype, number = shape.dims, shape.dtype.numpy, allocation.number
    strides = _strides(shape)
    # an array over memory refers to whatever owns it: who keeps the array keeps the memory
    if allocation.kind == "arena":  # it has its place when the whole program is known
        return lambda run: np.ndarray(dims, dtype, _around(allocation, run), allocation.offset, strides)
    if allocation.kind == "argument":
        return lambda run: np.ndarray(dims, dtype, run.arguments[number], 0, strides)
    if allocation.kind == "result":
        return lambda run: np.ndarray(dims, dtype, run.results[number], 0, strides)
    assert allocation.kind == "constant", allocation.kind
    return lambda run: np.ndarray(dims, dtype, run.constants[number], 0, strides)


def _around(allocation: BufferAllocation, run: Run) -> np.ndarray:
    if allocation.colocated_with is None:
        return run.arena.array
    return run.results[allocation.colocated_with.number].reshape(-1).view(np.uint8)


def _strides(shape: Shape) -> tuple[int, ...]:
    strides, step = [0] * shape.rank, shape.dtype.numpy.itemsize
    for d in reversed(shape.major_to_minor):
        strides[d] = step
        step *= max(1, shape.dims[d])
    return tuple(strides)
