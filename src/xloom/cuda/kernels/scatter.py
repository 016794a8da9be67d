"""Scatter: a thread for each element of the updates, if their order is of no account; else the processor's kernel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from llvmlite import ir

from xloom.codegen.elemental.reduce import plain_operator
from xloom.codegen.elemental.scatter_plan import ScatterPlan
from xloom.cuda.kernel import THREADS, KernelBuilder, blocks_for
from xloom.cuda.kernels import kernel
from xloom.cuda.kernels.item_threads import lower_by_items
from xloom.cuda.lowering import ThunkLowering
from xloom.hlo.dtype import Kind
from xloom.hlo.instruction import Instruction
from xloom.llvm import element_access
from xloom.llvm.loop import allocate
from xloom.llvm.routine import repeat
from xloom.llvm.scalar.promotion import apply_promoted
from xloom.llvm.types import I1, I64, Value, element_pointer, memory_type

EXCHANGE = "exchange"
"""What there is where no atomic operation is the computation: it is tried again while others come between."""


@kernel("scatter")
def scatter(lowering: ThunkLowering, instruction: Instruction) -> None:
    """A copy of the operands where they are still read, and a launch."""
    plan, operation = ScatterPlan(instruction), atomic_operation(instruction)
    if not (operation or instruction["unique_indices"]):
        if not has_any_order(instruction):
            lower_by_items(lowering, instruction)
            return
        operation = EXCHANGE
    outputs = [lowering.output(k) for k in range(plan.count)]
    for k, output in enumerate(outputs):
        lowering.copy(output, lowering.operand(k))
    if plan.is_empty:
        return
    read = [lowering.operand(plan.count + k) for k in range(plan.count + 1)]
    arguments = list(dict.fromkeys([*outputs, *read]))
    builder = KernelBuilder(lowering.target, len(arguments))
    pointers = [builder.pointers[arguments.index(a)] for a in (*outputs, *read)]
    total = math.prod(d.size for d in (*plan.batches, *plan.updates, *plan.window))
    blocks = blocks_for(total, THREADS)
    how = f"by atomic {operation}" if operation else "of unique indices"
    builder.strategy = f"a thread for each of {total} elements of the updates, {how}"
    with builder.each(total, blocks, THREADS, builder.thread) as item:
        _Element(builder, instruction, plan, pointers, operation).emit(item)
    lowering.launch(builder.finished(), blocks, arguments)


def has_any_order(instruction: Instruction) -> bool:
    """Whether updates may be put together in any order, of types that are compared and exchanged at once."""
    plan, dtype = ScatterPlan(instruction), instruction._operands[0].shape.dtype
    types = {i.shape.dtype for i in (instruction._operands[-1], *instruction["to_apply"].parameters)}
    is_plain = plain_operator(instruction["to_apply"]) in ("add", "and", "maximum", "minimum", "multiply", "or", "xor")
    return plan.count == 1 and types == {dtype} and is_plain and dtype.bits >= 16 and not dtype.is_complex


def atomic_operation(instruction: Instruction) -> str:
    """LLVM's name of the atomic operation that the computation is; empty if there is none."""
    count = len(instruction._operands) // 2
    dtype, update = instruction._operands[0].shape.dtype, instruction._operands[-1].shape.dtype
    if count != 1 or dtype is not update or dtype.bits not in (32, 64) or dtype.is_complex:
        return ""
    plain = plain_operator(instruction["to_apply"])
    if dtype.is_float:
        return "fadd" if plain == "add" else ""
    unsigned = dtype.kind is Kind.UNSIGNED
    extremes = {"maximum": "umax" if unsigned else "max", "minimum": "umin" if unsigned else "min"}
    return {"add": "add", "and": "and", "or": "or", "xor": "xor", **extremes}.get(plain, "")


class _Element:
    """Emits what is done for one element of the updates."""

    def __init__(
        self,
        builder: KernelBuilder,
        instruction: Instruction,
        plan: ScatterPlan,
        pointers: Sequence[ir.Value],
        operation: str,
    ):
        self.b, self.plan, self.instruction, self.operation = builder.b, plan, instruction, operation
        self.targets, self.indices = pointers[: plan.count], pointers[plan.count]
        self.updates = pointers[plan.count + 1 :]
        dtypes = [o.shape.dtype for o in instruction._operands]
        self.dtypes, self.index_dtype = dtypes[: plan.count], dtypes[plan.count]
        self.update_dtypes = dtypes[plan.count + 1 :]

    def emit(self, item: ir.Value) -> None:
        """Combines element number `item`, unless its slice is not inside."""
        b, plan = self.b, self.plan
        index = update = base = I64(0)
        dims = [
            *((d.size, d.strides) for d in (*plan.batches, *plan.updates)),
            *((d.size, (0, d.strides[1], d.strides[0])) for d in plan.window),
        ]
        for position, (size, strides) in reversed(list(enumerate(dims))):
            part = item
            if position:
                part, item = b.urem(item, I64(size)), b.udiv(item, I64(size))
            index, update, base = (
                b.add(x, b.mul(part, I64(s), flags=["nsw"]), flags=["nsw"])
                for x, s in zip((index, update, base), strides, strict=True)
            )
        fits = None
        for dimension, offset, limit in plan.starts:
            place = b.add(index, I64(offset), flags=["nsw"])
            start = element_access.load(b, self.indices, self.index_dtype, place)
            if start.type.width < 64:
                start = b.sext(start, I64) if self.index_dtype.kind is Kind.SIGNED else b.zext(start, I64)
            inside = b.icmp_unsigned("<=", start, I64(limit))  # below 0 is a great number
            fits = inside if fits is None else b.and_(fits, inside)
            base = b.add(base, b.mul(start, I64(plan.strides[dimension])))
        if fits is None:
            self._combine(base, update)
            return
        with b.if_then(fits):
            self._combine(base, update)

    def _combine(self, target: ir.Value, update: ir.Value) -> None:
        b = self.b
        values = [element_access.load(b, p, t, update) for p, t in zip(self.updates, self.update_dtypes, strict=True)]
        if self.operation == EXCHANGE:
            self._exchange(target, values[0])
            return
        if self.operation:
            address = element_pointer(b, self.targets[0], self.dtypes[0], target)
            b.atomic_rmw(self.operation, address, values[0], "monotonic")
            return
        old = [element_access.load(b, p, t, target) for p, t in zip(self.targets, self.dtypes, strict=True)]
        body = self.instruction["to_apply"]
        new = apply_promoted(b, body, [*old, *values], [*self.dtypes, *self.update_dtypes], self.dtypes)
        for pointer, dtype, value in zip(self.targets, self.dtypes, new, strict=True):
            element_access.store(b, pointer, dtype, target, value)

    def _exchange(self, target: ir.Value, value: Value) -> None:
        """Computes with what is there, until it still is when the result is put in its place."""
        b, dtype, body = self.b, self.dtypes[0], self.instruction["to_apply"]
        kind = ir.IntType(dtype.bits)
        address = element_pointer(b, self.targets[0], dtype, target)
        found, slot, is_done = allocate(b, kind), allocate(b, memory_type(dtype)), allocate(b, I1)
        exchange = partial(b.cmpxchg, address, ordering="monotonic", failordering="monotonic")
        b.store(b.extract_value(exchange(kind(0), kind(0)), 0), found)
        b.store(I1(0), is_done)
        with repeat(b, lambda: b.not_(b.load(is_done, typ=I1))):
            old = b.load(found, typ=kind)
            b.store(old, slot)
            (new,) = apply_promoted(b, body, [element_access.load(b, slot, dtype, I64(0)), value], [dtype] * 2, [dtype])
            element_access.store(b, slot, dtype, I64(0), new)
            result = exchange(old, b.load(slot, typ=kind))
            b.store(b.extract_value(result, 0), found)
            b.store(b.extract_value(result, 1), is_done)
