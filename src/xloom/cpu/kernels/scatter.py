"""Scatter: updates combined into the operand, in place, in the order of the indices."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext

from llvmlite import ir

from xloom.codegen.buffer_values import BufferValue, defining_value
from xloom.codegen.elemental.reduce import plain_operator
from xloom.codegen.elemental.scatter import ScatterNest, scatter_nest
from xloom.codegen.elemental.scatter_plan import ScatterPlan
from xloom.codegen.emission.elements import ElementEmitter
from xloom.codegen.loop_ir.affine import Affine, Var
from xloom.codegen.loop_ir.nodes import Load, walk
from xloom.cpu.kernel_modules.choices import chosen
from xloom.cpu.kernel_modules.kernel import Kernel, kernel
from xloom.hlo.computation import Computation
from xloom.hlo.dtype import s64
from xloom.hlo.instruction import Instruction
from xloom.llvm.element_access import load, store
from xloom.llvm.element_bits import move
from xloom.llvm.loop import SCALAR, Hint, hints_for, loop
from xloom.llvm.noalias import distinct
from xloom.llvm.scalar.conversion import converted
from xloom.llvm.scalar.promotion import apply_promoted
from xloom.llvm.strided_loops import plus, times
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
    """A scatter whose indices and updates are in memory."""
    count = len(instruction._operands) // 2
    read = enumerate(instruction._operands[count:], count)
    emit_scatter(kernel, instruction, (), {defining_value(o): k for k, o in read})


def emit_scatter(
    kernel: Kernel, instruction: Instruction, inlined: Collection[Instruction], numbers: Mapping[BufferValue, int]
) -> None:
    """One phase; threads share the batches, or else each goes over all the updates and does those of its own indices.

    Where there are few of those, threads share dense pieces of the windows: two processors then write lines that are
    next to each other, and fetch them from one another's caches. `inlined` are computed where they are used, of arrays
    that are the kernel's operands of these `numbers`.
    """
    plan = ScatterPlan(instruction)
    count = plan.count
    kernel.in_place, kernel.must_alias = {k: k for k in range(count)}, True
    if plan.is_empty:
        return
    nest = scatter_nest(instruction, plan, inlined)
    steps = math.prod(v.size for v in (*nest.batches, *nest.updates, *nest.window))
    dense = not nest.batches and bool(nest.window) and nest.window[-1].size * kernel.outputs[0].dtype.bytes >= _SPLIT
    owned = dense and plan.owned_size >= _PLACES
    in_pieces = dense and not owned
    shared = nest.window[-1] if in_pieces else nest.batches[0] if nest.batches else None
    items = plan.owned_size if owned else shared.size if shared else 1
    grain = max(_TASK * items // steps, 16 if in_pieces else 1)
    chosen(*_strategy(plan, nest, in_pieces=in_pieces, owned=owned))
    read = list(dict.fromkeys(numbers.values()))
    with kernel.phase(items, min(grain, items)) as phase:
        pointers = [*(phase.output(k) for k in range(count)), *map(phase.operand, read)]
        with distinct(phase.b, pointers, [phase.begin, phase.end]) as (b, pointers, bounds):
            operand = dict(zip(read, pointers[count:], strict=True))
            arrays = {value: operand[k] for value, k in numbers.items()}
            elements = ElementEmitter(b, arrays.__getitem__, lambda _, address: address)
            loops = _Loops(elements, {shared: bounds} if shared else {})
            update = _Update(kernel, instruction, plan, nest, loops, pointers[:count], bounds if owned else None)
            # single elements are stored one after the other where no instruction scatters them
            hints = SCALAR if not nest.window and kernel.target.registers.nbytes < 64 else ()
            alone = None if shared or owned else loop(b, *bounds)  # no items, no updates
            with alone or nullcontext(), loops.over([*nest.batches, *nest.updates], hints):
                update()


def _strategy(plan: ScatterPlan, nest: ScatterNest, *, in_pieces: bool, owned: bool) -> tuple[str, str]:
    """What threads share, and why."""
    adjacent = nest.window[-1].size if nest.window else 1
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
    if nest.batches:
        return "threads share the batches", f"the {nest.batches[0].size} never meet"
    return (
        "one thread, update by update",
        f"updates of {adjacent} adjacent elements, in less than {_SPLIT} bytes, may meet anywhere",
    )


class _Loops:
    """Emits loops; of one that is `shared` among threads, those iterations that this one does."""

    def __init__(self, elements: ElementEmitter, shared: Mapping[Var, Sequence[ir.Value]]):
        self.elements, self._shared = elements, shared

    @contextmanager
    def over(self, variables: Sequence[Var], innermost: Sequence[Hint] = ()) -> Iterator[None]:
        """Loops over variables, outermost first, with hints for the last one; what is emitted is their body."""
        elements = self.elements
        with ExitStack() as stack:
            for var in variables:
                begin, end = self._shared.get(var) or (I64(0), I64(var.size))
                hints = innermost if var is variables[-1] else ()
                elements.vars[var] = stack.enter_context(loop(elements.b, begin, end, name=var.name, hints=hints))
            stack.enter_context(elements.scope())
            yield


class _Update:
    """Emits what is done for one index vector."""

    def __init__(
        self,
        kernel: Kernel,
        instruction: Instruction,
        plan: ScatterPlan,
        nest: ScatterNest,
        loops: _Loops,
        targets: Sequence[ir.Value],
        owned_range: Sequence[ir.Value] | None,
    ):
        """`owned_range` is that of dimension `plan.owned` which is done, if not all."""
        self.plan, self.nest, self.loops, self.targets = plan, nest, loops, targets
        self.elements, self.b, self.owned_range = loops.elements, loops.elements.b, owned_range
        self.dtypes = [s.dtype for s in kernel.outputs]
        self.update_dtypes = [v.dtype for v in nest.values]
        self.body = instruction["to_apply"]
        same_types = self.dtypes == self.update_dtypes
        self.moves = is_move(self.body, plan.count) and same_types
        is_float = plan.count == 1 and same_types and self.dtypes[0].is_float
        self.extremum = plain_operator(self.body) if is_float else ""

    def __call__(self) -> None:
        b, elements, fits = self.b, self.elements, None
        # what does not change in the window: it is computed outside
        around = Affine(self.nest.base.const, tuple(t for t in self.nest.base.terms if t[0] not in self.nest.window))
        base = elements.index(around)
        for node, (d, _, limit) in zip(self.nest.starts, self.plan.starts, strict=True):
            start = converted(b, elements.value(node), node.dtype, s64)
            if self.owned_range and d == self.plan.owned:
                begin, end = self.owned_range
                inside = b.icmp_unsigned("<", b.sub(start, begin), b.sub(end, begin))
            else:
                inside = b.icmp_unsigned("<=", start, I64(limit))  # below 0 is a great number
            fits = inside if fits is None else b.and_(fits, inside)
            base = plus(b, base, times(b, start, self.plan.strides[d]))
        if fits is None:
            self._window(base)
        else:
            with b.if_then(fits):
                self._window(base)

    def _window(self, base: ir.Value) -> None:
        b, window = self.b, self.nest.window
        inside = Affine(0, tuple(t for t in self.nest.base.terms if t[0] in window))
        along = window[-1] if window else None
        loads = [n for n in walk(self.nest.values) if isinstance(n, Load)]
        row = along and all(a.factor(along) in (0, 1) for a in (inside, *(n.address for n in loads)))
        hints = hints_for(along.size) if along and row else ()  # of neighbours: vectors, if anything
        with self.loops.over(window, hints):
            self._element(plus(b, base, self.elements.index(inside)) if window else base)

    def _element(self, target: ir.Value) -> None:
        b, elements = self.b, self.elements
        if self.moves:
            for pointer, node, dtype in zip(self.targets, self.nest.values, self.dtypes, strict=True):
                if isinstance(node, Load):
                    move(b, elements.pointers(node.source), elements.address_of(node), pointer, target, dtype)
                else:
                    store(b, pointer, dtype, target, elements.value(node))
            return
        values = [load(b, p, t, target) for p, t in zip(self.targets, self.dtypes, strict=True)]
        values += map(elements.value, self.nest.values)
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
