"""Scatter: updates combined into the operand, in place, in the order of the indices."""

from __future__ import annotations

import math

from llvmlite import ir

from xloom.codegen.elemental.reduce import plain_operator
from xloom.codegen.scatter_plan import ScatterPlan
from xloom.cpu.kernel_modules.choices import chosen
from xloom.cpu.kernel_modules.kernel import Kernel, kernel
from xloom.hlo.computation import Computation
from xloom.hlo.dtype import Kind
from xloom.hlo.instruction import Instruction
from xloom.llvm.element_access import load, store
from xloom.llvm.element_bits import move
from xloom.llvm.loop import SCALAR, loop
from xloom.llvm.noalias import distinct
from xloom.llvm.scalar.promotion import apply_promoted
from xloom.llvm.strided_loops import Dimension, advance, nest, plus, times
from xloom.llvm.types import I64, Value

_SPLIT = 512
"""Bytes of a dense piece of a window from which on threads share the piece: the gaps between smaller ones are read too,
and each update is a jump that is foretold in half of the cases."""
_PLACES = 16
"""Places of updates from which on each thread has some of its own."""
_TASK = 80_000
"""Elements combined in about 20 µs."""
_LOSES = {"maximum": "<", "minimum": ">"}
"""How an update compares that changes nothing; equal ones may be zeros of either sign."""


@kernel("scatter")
def scatter(kernel: Kernel, instruction: Instruction) -> None:
    """One phase; threads share the batches, or else each goes over all the updates and does those of its own indices.

    Where there are few of those, threads share dense pieces of the windows: two processors then write lines that are
    next to each other, and fetch them from one another's caches.
    """
    plan = ScatterPlan(instruction)
    count = plan.count
    kernel.in_place, kernel.must_alias = {k: k for k in range(count)}, True
    if plan.is_empty:
        return
    steps = math.prod(d.size for d in (*plan.batches, *plan.updates, *plan.window))
    dense = not plan.batches and bool(plan.window) and plan.window[-1].size * kernel.outputs[0].dtype.bytes >= _SPLIT
    owned = dense and plan.owned_size >= _PLACES
    in_pieces = dense and not owned
    if dense:
        items = plan.owned_size if owned else plan.window[-1].size
    else:
        items = plan.batches[0].size if plan.batches else 1
    grain = max(_TASK * items // steps, 16 if in_pieces else 1)
    chosen(*_strategy(plan, in_pieces=in_pieces, owned=owned))
    with kernel.phase(items, min(grain, items)) as phase:
        pointers = [*(phase.output(k) for k in range(count)), *(phase.operand(count + k) for k in range(count + 1))]
        with distinct(phase.b, pointers, [phase.begin, phase.end]) as (b, pointers, bounds):
            piece, owned_range = bounds if in_pieces else None, bounds if owned else None
            update = _Update(kernel, instruction, plan, b, pointers, piece, owned_range)
            zeros = [I64(0)] * 3
            if dense:
                with nest(b, plan.updates, zeros) as offsets:
                    update(*offsets)
                return
            first, *rest = plan.batches or [Dimension(1, (0, 0, 0))]
            # single elements are stored one after the other where no instruction scatters them
            hints = SCALAR if not plan.window and kernel.target.registers.nbytes < 64 else ()
            with (
                loop(b, bounds[0], bounds[1], name="batch") as i,
                nest(b, [*rest, *plan.updates], advance(b, zeros, i, first.strides), hints) as offsets,
            ):
                update(*offsets)


def _strategy(plan: ScatterPlan, *, in_pieces: bool, owned: bool) -> tuple[str, str]:
    """What threads share, and why."""
    adjacent = plan.window[-1].size if plan.window else 1
    if owned:
        return (
            "each thread goes over all updates, and does those of its own indices",
            f"updates are of {adjacent} adjacent elements, and there are {plan.owned_size} indices",
        )
    if in_pieces:
        return (
            "each thread does its piece of every update",
            f"updates are of {adjacent} adjacent elements, at fewer than {_PLACES} indices",
        )
    if plan.batches:
        return "threads share the batches", f"the {plan.batches[0].size} never meet"
    return (
        "one thread, update by update",
        f"updates of {adjacent} adjacent elements, in less than {_SPLIT} bytes, may meet anywhere",
    )


class _Update:
    """Emits what is done for one index vector."""

    def __init__(
        self,
        kernel: Kernel,
        instruction: Instruction,
        plan: ScatterPlan,
        b: ir.IRBuilder,
        pointers: list[ir.Value],
        piece: list[ir.Value] | None,
        owned_range: list[ir.Value] | None,
    ):
        """The ranges that are done, if not all: `piece` of a window, `owned_range` of dimension `plan.owned`."""
        self.plan, self.b, self.piece, self.owned_range = plan, b, piece, owned_range
        self.targets, self.indices, self.updates = (
            pointers[: plan.count],
            pointers[plan.count],
            pointers[plan.count + 1 :],
        )
        dtypes = [s.dtype for s in kernel.operands]
        self.dtypes, self.index_dtype, self.update_dtypes = (
            dtypes[: plan.count],
            dtypes[plan.count],
            dtypes[plan.count + 1 :],
        )
        self.body = instruction["to_apply"]
        same_types = self.dtypes == self.update_dtypes
        self.moves = is_move(self.body, plan.count) and same_types
        self.extremum = plain_operator(self.body) if plan.count == 1 and same_types and dtypes[0].is_float else ""

    def __call__(self, index: ir.Value, update: ir.Value, base: ir.Value) -> None:
        b, fits = self.b, None
        for d, index_offset, limit in self.plan.starts:
            start: Value = load(b, self.indices, self.index_dtype, plus(b, index, index_offset))
            if start.type.width < 64:
                start = b.sext(start, I64) if self.index_dtype.kind is Kind.SIGNED else b.zext(start, I64)
            if self.owned_range and d == self.plan.owned:
                begin, end = self.owned_range
                inside = b.icmp_unsigned("<", b.sub(start, begin), b.sub(end, begin))
            else:
                inside = b.icmp_unsigned("<=", start, I64(limit))  # below 0 is a great number
            fits = inside if fits is None else b.and_(fits, inside)
            base = plus(b, base, times(b, start, self.plan.strides[d]))
        if fits is None:
            self._window(base, update)
        else:
            with b.if_then(fits):
                self._window(base, update)

    def _window(self, base: ir.Value, update: ir.Value) -> None:
        b, dims = self.b, self.plan.window
        if self.piece is None:
            with nest(b, dims, [base, update]) as offsets:
                self._element(*offsets)
            return
        with nest(b, dims[:-1], [base, update]) as offsets, loop(b, self.piece[0], self.piece[1]) as i:
            self._element(*advance(b, offsets, i, dims[-1].strides))

    def _element(self, target: ir.Value, update: ir.Value) -> None:
        b, count = self.b, self.plan.count
        if self.moves:
            for k in range(count):
                move(b, self.updates[k], update, self.targets[k], target, self.dtypes[k])
            return
        values = [load(b, p, t, target) for p, t in zip(self.targets, self.dtypes, strict=True)]
        values += [load(b, p, t, update) for p, t in zip(self.updates, self.update_dtypes, strict=True)]
        if self.extremum in _LOSES:
            # most elements of a bin are no record: a branch that is foreseen costs less than to wait for the maximum
            with b.if_then(b.not_(b.fcmp_ordered(_LOSES[self.extremum], values[1], values[0]))):
                self._combine(target, values)
            return
        self._combine(target, values)

    def _combine(self, target: ir.Value, values: list[Value]) -> None:
        b = self.b
        results = apply_promoted(b, self.body, values, [*self.dtypes, *self.update_dtypes], self.dtypes)
        for pointer, dtype, value in zip(self.targets, self.dtypes, results, strict=True):
            store(b, pointer, dtype, target, value)


def is_move(computation: Computation, count: int) -> bool:
    """True when the results are the last `count` parameters as they are."""
    root = computation.root
    results = root._operands if root.opcode == "tuple" else [root]
    return results == computation.parameters[count:]
