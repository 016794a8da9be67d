"""Dynamic slices in one piece of an array that nothing changes meanwhile: they are read there, and not copied."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from llvmlite import ir

from xloom.calls.buffers import ALIGNMENT
from xloom.codegen.buffer_values import BufferValue, defining_value, dtype_of
from xloom.codegen.fusion.fusion_group import FusionGroup
from xloom.codegen.schedule.thunks import ScheduledComputation
from xloom.hlo.dtype import Kind
from xloom.hlo.instruction import Instruction
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.loop import allocate
from xloom.llvm.types import I8, I64, POINTER

if TYPE_CHECKING:
    from xloom.cpu.entry.function import EntryBuilder

_ARITHMETIC: dict[str, Callable[..., ir.Value]] = {
    "add": ir.IRBuilder.add,
    "divide": ir.IRBuilder.sdiv,
    "maximum": lambda b, x, y: intrinsic(b, "smax", x, y),
    "minimum": lambda b, x, y: intrinsic(b, "smin", x, y),
    "multiply": ir.IRBuilder.mul,
    "remainder": ir.IRBuilder.srem,
    "subtract": ir.IRBuilder.sub,
}
"""Of numbers of 32 bits or fewer, as numbers of 64."""
_UNCHANGED = frozenset({"argument", "constant"})
"""Memory that no program writes."""


class SliceViews:
    """Finds them in the program that `entry` emits."""

    def __init__(self, entry: EntryBuilder):
        self._values = Counter(entry.assignment.allocations.values())

    def has(self, entry: EntryBuilder, schedule: ScheduledComputation, group: FusionGroup) -> bool:
        """True of a loop nest that makes nothing but slices that are read where they lie."""
        return all(root.opcode == "dynamic-slice" and self._is_view(entry, schedule, root) for root in group.roots)

    def emit(self, entry: EntryBuilder, schedule: ScheduledComputation, group: FusionGroup) -> bool:
        """Has the slices of a loop nest read where they lie, if that is all it makes; False where they are copied."""
        if not self.has(entry, schedule, group):
            return False
        entry.horizontal_fusion.finish()  # which may give the numbers where they begin
        b = entry.b
        for root in group.roots:
            address = b.gep(entry.of((root._operands[0], 0)), [_offset(entry, root)], source_etype=I8)
            slot = allocate(b, POINTER)
            b.store(address, slot)
            entry.move_allocations({entry.assignment.of((root, 0)): slot})
        return True

    def _is_view(self, entry: EntryBuilder, schedule: ScheduledComputation, root: Instruction) -> bool:
        allocations = entry.assignment.allocations
        allocation, whole = allocations.get((root, 0)), defining_value(root._operands[0])
        if allocation is None or allocation.kind != "arena" or self._values[allocation] > 1 or whole not in allocations:
            return False
        is_there = all(_is_number(entry, start) for start in root._operands[1:])
        is_unchanged = allocations[whole].kind in _UNCHANGED or _stays(schedule, whole)
        return is_there and is_unchanged and _is_one_piece(root)


def _stays(schedule: ScheduledComputation, value: BufferValue) -> bool:
    """True of state that a loop's body hands on as it is."""
    made, leaf = value
    return made.opcode == "parameter" and leaf < len(schedule.root) and schedule.root[leaf] == value


def _is_one_piece(root: Instruction) -> bool:
    """True when all elements lie side by side, from a place on that is aligned as arrays are."""
    whole, part = root._operands[0].shape, root.shape
    cut = [d for d, (n, m) in enumerate(zip(whole.dims, part.dims, strict=True)) if n != m]
    if not cut or any(part.dims[d] != 1 for d in range(cut[-1])):
        return False
    return math.prod(whole.dims[cut[-1] + 1 :]) * whole.dtype.bytes % ALIGNMENT == 0


def _offset(entry: EntryBuilder, root: Instruction) -> ir.Value:
    """Where a slice begins, in bytes."""
    b, whole, offset = entry.b, root._operands[0].shape, I64(0)
    for d, (n, m) in enumerate(zip(whole.dims, root.shape.dims, strict=True)):
        if n != m:
            start = _number(entry, root._operands[1 + d])
            start = intrinsic(b, "smin", intrinsic(b, "smax", start, I64(0)), I64(n - m))
            offset = b.add(offset, b.mul(start, I64(math.prod(whole.dims[d + 1 :]) * whole.dtype.bytes)))
    return offset


def _is_number(entry: EntryBuilder, scalar: Instruction) -> bool:
    """True of a number that is in memory, or computed of such by whole-number arithmetic that always has a result."""
    scalar, _ = value = defining_value(scalar)
    dtype = dtype_of(value)
    if scalar.opcode == "constant" or value in entry.assignment.allocations:
        return dtype.is_integer and dtype.bits >= 8
    if scalar.opcode not in _ARITHMETIC or not dtype.is_integer or dtype.bits > 32:
        return False
    if scalar.opcode in ("divide", "remainder"):
        divisor, _ = defining_value(scalar._operands[1])
        if divisor.opcode != "constant" or int(divisor.literal.value) <= 0:
            return False
    return all(_is_number(entry, o) for o in scalar._operands)


def _number(entry: EntryBuilder, scalar: Instruction) -> ir.Value:
    """Its value, as an i64."""
    (scalar, _), b = (value := defining_value(scalar)), entry.b
    dtype = dtype_of(value)
    if scalar.opcode == "constant":
        return I64(int(scalar.literal.value))
    kind = ir.IntType(dtype.bits)
    if value in entry.assignment.allocations:
        found = b.load(entry.of(value), typ=kind)
    else:
        operands = [_number(entry, o) for o in scalar._operands]
        found = _ARITHMETIC[scalar.opcode](b, *operands)
        found = found if dtype.bits == I64.width else b.trunc(found, kind)
    if dtype.bits == I64.width:
        return found
    return b.sext(found, I64) if dtype.kind is Kind.SIGNED else b.zext(found, I64)
