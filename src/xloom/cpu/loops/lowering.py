"""Nests to kernels: which loops are shared among threads, and in which form the others are."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from llvmlite import ir

from xloom.codegen.buffer_values import BufferValue
from xloom.codegen.loop_ir.affine import Var
from xloom.codegen.loop_ir.computed_cuts import computed_cuts
from xloom.codegen.loop_ir.nest import (
    LoopBody,
    LoopNest,
    arranged,
    breakpoints,
    cost_along,
    cost_of,
    interleaved,
    merged,
    nest_cost,
    outer_pieces,
    pieces,
    reductions_of,
    stage_cost,
)
from xloom.codegen.loop_ir.nodes import (
    If,
    Load,
    Node,
    Op,
    Reduced,
    Reduction,
    has_changing_numbers,
    indices_of,
    walk,
)
from xloom.codegen.loop_ir.pieces import FEW, UNROLLED, Piece
from xloom.codegen.loop_ir.strided_loads import strided_loads
from xloom.cpu.kernel_modules.choices import chosen
from xloom.cpu.kernel_modules.kernel import Phase
from xloom.cpu.loops.alike_pieces import each_range, in_pieces
from xloom.cpu.loops.between_cuts import between_cuts
from xloom.cpu.loops.bf16_pairs import is_bf16_in_pairs, store_pair
from xloom.cpu.loops.blocked_loop import emit_in_blocks
from xloom.cpu.loops.column_reduction import ColumnReduction
from xloom.cpu.loops.emission import Elements
from xloom.cpu.loops.known_places import known_places
from xloom.cpu.loops.nontemporal_stores import NontemporalStores, is_nontemporal
from xloom.cpu.loops.overlapped_vectors import may_overlap, overlapped_vectors
from xloom.cpu.loops.phases import Phases
from xloom.cpu.loops.row_reduction import RowReduction, is_column_reduction
from xloom.cpu.loops.short_rows import emit_short_rows, rows_of
from xloom.cpu.loops.software_prefetch import rows_to_prefetch
from xloom.cpu.loops.tiled_transpose import emit_tiled
from xloom.hlo.dtype import DType
from xloom.llvm import types
from xloom.llvm.gathers import without_gathers
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.loop import SCALAR, VECTOR_ONLY, allocate, hints_for, masked_hints_for, part_hints_for
from xloom.llvm.memory_copy import FEW_ELEMENTS
from xloom.llvm.symbolic_dimension import SymbolicDimensions, number
from xloom.llvm.target_module import TargetModule
from xloom.llvm.types import I64
from xloom.llvm.vectorizer.rewriting import bind, vectorized

DENSE = 6
"""What an element costs at least whose last vector is worth a mask, if it has others."""
PAIRED = 256
"""Elements of a row that is worth going two at a time: what is left after whole vectors goes one by one."""
VECTOR = 16
"""Elements of a row that is shorter than any vector."""
_SHARE = 0.5
"""Of the first cache, what elements that lie in the same lines, but are made by other loops, may have."""


_FEW = "they are few, and stay in registers from one iteration to the next"
_FEW_NODES = 400
"""Operators and loads of all of a few elements, each of which is written for itself."""
_FEW_CALLS = 4
"""Functions of elements beyond which a vector of them is worth the wait for what was stored one by one."""
_OF_FUNCTION = 12
"""Additions that a function costs at least."""
_LITTLE = 600
"""Additions of a nest that runs once which take less time one by one than LLVM takes to look for vectors in them."""


class Lowering:
    """Emits the phases of one nest into an LLVM module."""

    def __init__(
        self,
        module: TargetModule,
        name: str,
        nest: LoopNest,
        numbers: Mapping[BufferValue, int],
        types_of: Callable[[BufferValue], DType],
        *,
        seldom: bool = False,
        serial: bool = False,
        sizes: Mapping[BufferValue, int] | None = None,
        table: SymbolicDimensions | None = None,
    ):
        self.nest = nest
        self._code = Phases(
            module, name, nest, numbers, types_of, seldom=seldom, serial=serial, sizes=sizes, table=table
        )

    @property
    def phases(self) -> list[Phase]:
        """The phases that `run` has emitted."""
        return self._code.made

    @property
    def scratch(self) -> list[int]:
        """Bytes of each piece of memory that the phases need."""
        return self._code.scratch

    def vectorize(self, *, whole: bool = False) -> bool:
        """Makes vectors of the phases' loops, or leaves that to LLVM; with `whole`, each is run once, for all items."""
        bodies = [self._code.module.globals[f"{phase.symbol}.body"] for phase in self.phases]
        if whole:
            for phase, body in zip(self.phases, bodies, strict=True):
                bind(body, {len(body.args) - 2: 0, len(body.args) - 1: phase.count})
        seldom = self._code.seldom
        return vectorized(bodies, self._code.module.target, short=seldom) or (
            seldom and nest_cost(self.nest) <= _LITTLE
        )

    def run(self) -> None:
        """Emits the phases of the nest, by the strategy that suits its loops."""
        stages = self.nest.stages
        if self.nest.outer:
            around = ", ".join(f"{v.name} ({number(v.size)})" for v in self.nest.outer)
            chosen("stage by stage for each row, which stays in the first cache", f"stages share the loops {around}")
            self._rows()
        elif reductions := reductions_of(stages[0]):
            cost = cost_of([e for f in reductions for e in (*f.elements, *f.bodies)])
            if self._are_few_results(stages[0], reductions):
                chosen("element by element", _FEW)
                RowReduction(self._code, stages[0], reductions).at_known_places(cost)
            else:
                self._reduction(stages[0], reductions).kernel(cost)
        else:
            self._map_kernel(stages[0])

    def _map_kernel(self, stage: LoopBody) -> None:
        loops, gone = arranged(stage, stage.vars)
        cost = cost_of([s.node for s in stage.stores])
        cross = None if self._code.seldom else strided_loads(stage, loops)
        if cross is not None:
            names = ", ".join(dict.fromkeys(f"%{load.source[0].name}" for load in cross[1]))
            chosen(
                "transposed in registers, block by block", f"{names} lies along {cross[0].name}, results along others"
            )
            emit_tiled(self._code, stage, loops, gone, cost, *cross)
            return
        rows = None if self._code.seldom else rows_of(stage, loops)
        if rows is not None:
            chosen(
                "blocks of short rows, set apart in registers", f"rows have {rows[1].size} elements, less than a vector"
            )
            emit_short_rows(self._code, stage, loops, gone, cost, rows)
            return
        if not loops:
            chosen("a single element")
            with self._code.phase([], cost) as elements:
                elements.b.is_alone = True
                self._code.stores(elements, stage.stores)
            return
        if self._are_few(stage, loops):
            chosen("element by element", _FEW)
            with self._code.phase([], cost * math.prod(v.size for v in loops)) as elements:
                elements.unbind(gone)
                for _ in known_places(elements, loops):
                    self._code.stores(elements, stage.stores)
            return
        group = interleaved(stage, loops)
        *outer, inner = [v for v in loops if v != group]
        why = "there are loops around it" if outer or group else emit_in_blocks(self._code, stage, inner, gone, cost)
        if not why:
            chosen("one loop, in blocks of whole vectors", f"{inner.size} elements have no remainder")
            return
        chosen(f"vectors along {inner.name} ({inner.size})", f"not in blocks of a fixed size, for {why}")
        between, size = self._cut(stage, outer, inner)
        outer = [v for v in outer if v not in between]
        block = Var(f"{inner.name}_block", -(-inner.size // size), None, -1)
        items = [*outer, block, *between] if between else outer
        if between:
            chosen(
                f"{size} elements along {inner.name} at a time", "others lie between them, in the same lines of memory"
            )
        cost *= (size if items else 1) * (group.size if group else 1)
        with self._code.phase(items or [inner], cost, open_ended=not items) as elements:
            elements.unbind(gone)
            begin, end = (I64(0), I64(inner.size)) if items else elements.bounds
            if between:
                begin = elements.b.mul(elements.vars[block], I64(size), flags=["nsw"])
                end = intrinsic(elements.b, "smin", elements.b.add(begin, I64(size), flags=["nsw"]), end)
            for _ in self._pieces(elements, stage, [*outer, *between, inner]):
                self._along(elements, stage, inner, begin, end, group)

    def _are_few(self, stage: LoopBody, loops: Sequence[Var]) -> bool:
        """Whether the elements are those of a small array, as states of small systems are, in a loop of the program."""
        if self._code.seldom or not all(isinstance(v.size, int) for v in loops):
            return False
        count = math.prod(v.size for v in loops)
        if count > FEW_ELEMENTS or count * _operators(stage) > _FEW_NODES:
            return False
        if any(isinstance(n, Reduced) for n in stage.nodes):
            return False
        return _calls([s.node for s in stage.stores], loops, count) <= _FEW_CALLS

    def _are_few_results(self, stage: LoopBody, reductions: Sequence[Reduction]) -> bool:
        """The same of results that no vector has, each of a few elements."""
        reduced = reductions[0].vars
        if self._code.seldom or not all(isinstance(v.size, int) for v in (*stage.vars, *reduced)):
            return False
        results, extent = (math.prod(v.size for v in loops) for loops in (stage.vars, reduced))
        count = results * extent
        if (
            max(results, extent) > FEW_ELEMENTS
            or count * _operators(stage) > _FEW_NODES
            or is_column_reduction(stage, reductions)[0]
        ):
            return False
        return _calls([e for f in reductions for e in f.elements], (*stage.vars, *reduced), count) <= _FEW_CALLS

    def _cut(self, stage: LoopBody, outer: Sequence[Var], inner: Var) -> tuple[list[Var], int]:
        """Loops whose elements lie between those of the innermost one, and how many of that are done at a time.

        So many that the lines that they share stay in the first cache until all are written.
        """
        strides = [(s.address, abs(s.address.factor(inner))) for s in stage.stores]
        between = [v for v in outer if all(0 < abs(address.factor(v)) < stride for address, stride in strides)]
        nbytes = sum(
            s * self._code.types_of(store.target).bytes for (_, s), store in zip(strides, stage.stores, strict=True)
        )
        size = max(VECTOR, int(_SHARE * self._code.module.target.caches.first) // max(1, nbytes))
        return (between, size) if size < inner.size else ([], inner.size)

    def _pieces(self, elements: Elements, stage: LoopBody, loops: Sequence[Var]) -> Iterator[None]:
        """The iterations of loops around the innermost one between which conditions on them do not change, one by one.

        LLVM would choose between addresses in each step of the innermost loop, and gather what lies together.
        """
        if len(loops) < 2:
            yield
            return
        var, *inside = loops
        found = outer_pieces(stage, loops, self.nest.private, elements.ranges)
        if not breakpoints(found):
            yield from self._pieces(elements, stage, inside)
            return
        for low, high in in_pieces(self._code, elements, found, elements.vars[var]):
            elements.ranges[var] = low, high - 1
            yield from self._pieces(elements, stage, inside)
        del elements.ranges[var]

    def _widest(self, stage: LoopBody) -> int:
        """Bytes of the widest element that is loaded or stored; narrow floats are computed as f32."""
        loads = [n.dtype for n in stage.nodes if isinstance(n, Load)]
        return max(4, *(t.bytes for t in (*loads, *(self._code.types_of(s.target) for s in stage.stores))))

    def _along(
        self, elements: Elements, stage: LoopBody, inner: Var, begin: ir.Value, end: ir.Value, group: Var | None
    ) -> None:
        """The innermost loop, in pieces between which conditions on it do not change; `group` is done in each step."""
        b = elements.b
        elements.innermost = inner
        if _is_spaced(stage, inner):
            without_gathers(b.function, self._code.module.target)
        found = pieces(stage, inner, self.nest.private, elements.ranges) or [Piece([(0, inner.size)], [{}])]
        cuts = len(found) > 1 or len(found[0].ranges) > 1
        dense = not group and _is_dense(stage, inner, 1 if inner.size < VECTOR else DENSE)
        masked = partial(masked_hints_for, target=self._code.module.target, nbytes=self._widest(stage))
        hints = masked if dense else hints_for
        cost = cost_along([s.node for s in stage.stores], inner) if dense else 0
        streamed = not group and is_nontemporal(self._code, elements.vars, stage, inner)
        if streamed:
            chosen("results are stored around the caches", "they are so large that nothing of them would stay there")
        streams = NontemporalStores(self._code, elements, stage, inner) if streamed else None
        whole = isinstance(end, ir.Constant) and not cuts and not group  # begins and ends with a word
        paired = whole and inner.size >= PAIRED and is_bf16_in_pairs(self._code, stage, inner)
        many = len(found) > FEW  # LLVM would unroll all of them
        lanes = self._code.module.target.registers.nbytes // self._widest(stage)
        overlaps = whole and not elements.prefetched and _is_dense(stage, inner, 1)
        overlaps = overlaps and not streamed and may_overlap(self._code, stage, inner.size, lanes)
        if overlaps:
            chosen(
                "the last vector of a row overlaps the one before it", f"{inner.size} elements are not whole vectors"
            )
        roots = [s.node for s in stage.stores]
        picks = all(_is_picked(n, inner) for n in roots)
        if picks:
            chosen("one element after the other", "there are no vectors of narrow elements from anywhere")
        for piece in found:
            elements.ranges[inner] = piece.ranges[0][0], piece.ranges[0][1] - 1
            iterations = max(high - low for low, high in piece.ranges)
            loop_hints = VECTOR_ONLY if many and iterations <= UNROLLED else hints(iterations, cost)
            if picks:
                loop_hints = SCALAR
            computed = computed_cuts(roots, inner, elements.ranges, [group] if group else [])
            with each_range(self._code, elements, piece) as (low, high):
                first = intrinsic(b, "smax", begin, low) if cuts else begin
                last = intrinsic(b, "smin", end, high) if cuts else end
                if computed:
                    places = "; ".join(f"where {c.sum} comes to {', '.join(map(str, c.limits))}" for c in computed)
                    chosen("in parts, between places that the program computes", places)
                    if not group and _is_contiguous(stage, inner):
                        loop_hints = part_hints_for(iterations, cost, self._code.module.target)
                    for first_of, last_of in between_cuts(elements, computed, inner, first, last):
                        with elements.innermost_loop(inner, first_of, last_of, loop_hints), elements.scope():
                            self._grouped(elements, stage, group)
                elif streams is not None:
                    streams.emit(first, last, loop_hints)
                elif paired:
                    loop_hints = hints(iterations // 2, cost)
                    with elements.innermost_loop(inner, first, last, loop_hints, step=2), elements.scope():
                        store_pair(self._code, elements, stage, inner)
                elif overlaps:
                    with overlapped_vectors(elements, inner, lanes), elements.scope():
                        self._grouped(elements, stage, group)
                else:
                    with elements.innermost_loop(inner, first, last, loop_hints), elements.scope():
                        self._grouped(elements, stage, group)
        for var in [inner, group] if group else [inner]:
            elements.ranges.pop(var, None)
        elements.innermost = None

    def _grouped(self, elements: Elements, stage: LoopBody, group: Var | None) -> None:
        for k in range(group.size if group else 1):
            if group:
                elements.vars[group], elements.ranges[group] = I64(k), (k, k)
            with elements.scope():
                self._code.stores(elements, stage.stores)

    def _reduction(self, stage: LoopBody, reductions: list[Reduction]) -> ColumnReduction | RowReduction:
        joined, _ = arranged(stage, stage.vars)  # loops that are gone have never been begun: they are at 0
        stage = LoopBody(joined, stage.stores)
        columns, why = is_column_reduction(stage, reductions)
        chosen(
            "neighbouring results side by side in vectors" if columns else "one result after another, along rows", why
        )
        return (ColumnReduction if columns else RowReduction)(self._code, stage, reductions)

    # -- several stages in each iteration of the outer loops
    def _rows(self) -> None:
        nest, code = self.nest, self._code
        cost = sum(map(stage_cost, nest.stages))
        outer, gone = merged(nest.stages, list(nest.outer))
        with code.phase(outer, cost) as elements:
            elements.unbind(gone)
            private = dict.fromkeys(s.target for g in nest.stages for s in g.stores if s.target in nest.private)
            for value in private:
                dtype = code.kept_type(value)
                count = self._private_size(value) * (2 if dtype.is_complex else 1)
                slot = allocate(elements.b, types.memory_type(dtype), count)
                slot.align = 64
                code.pointers[value] = slot
            prefetched = rows_to_prefetch(nest, outer[-1], self._code.module.target, code.nbytes)
            for k, stage in enumerate(nest.stages):
                elements.prefetched = prefetched.get(k, ())
                with elements.scope():
                    self._inner_stage(elements, stage)

    def _private_size(self, value: BufferValue) -> int:
        addresses = [s.address for g in self.nest.stages for s in g.stores if s.target == value]
        return max(self._code.inside(a).high for a in addresses) + 1

    def _inner_stage(self, elements: Elements, stage: LoopBody) -> None:
        reductions = reductions_of(stage)
        if reductions:
            self._reduction(stage, reductions).inside(elements)
            return
        loops, gone = arranged(stage, stage.vars)
        elements.unbind(gone)
        if not loops:
            self._code.stores(elements, stage.stores)
            return
        group = interleaved(stage, loops)
        *outer, inner = [v for v in loops if v != group]
        with elements.loops(outer):
            self._along(elements, stage, inner, I64(0), I64(inner.size), group)


def _operators(stage: LoopBody) -> int:
    """Operators and loads of an iteration."""
    return sum(isinstance(n, (Load, Op)) for n in stage.nodes)


def _calls(roots: Sequence[Node], loops: Sequence[Var], count: int) -> int:
    """Functions of `count` iterations of all `loops`: one where they do not change along these."""
    calls = 0
    for node in walk(roots, guarded=False):
        if isinstance(node, Op) and node.cost >= _OF_FUNCTION:
            indices = [i for n in walk([node]) for i in indices_of(n)]
            calls += count if any(index.factor(v) for index in indices for v in loops) else 1
    return calls


def _is_picked(node: Node, inner: Var) -> bool:
    """True of elements that the program computes the places of, and that processors do not gather."""
    return isinstance(node, Load) and node.dtype.bits < 32 and has_changing_numbers(node.address, (inner,))


def _is_spaced(stage: LoopBody, inner: Var) -> bool:
    """True when elements are loaded at equal distances, and none where others say."""
    addresses = [n.address for n in stage.nodes if isinstance(n, Load)]
    if any(has_changing_numbers(a, (inner,)) for a in addresses):
        return False
    return any(abs(a.factor(inner)) > 1 for a in addresses)


def _is_dense(stage: LoopBody, inner: Var, least_cost: int) -> bool:
    """True when neighbours are computed without branches from neighbours, at this cost at least."""
    nodes = [s.node for s in stage.stores]
    branches = any(isinstance(n, (If, Reduced)) for n in walk(nodes))
    return cost_of(nodes) >= least_cost and not branches and _is_contiguous(stage, inner)


def _is_contiguous(stage: LoopBody, inner: Var) -> bool:
    """True when neighbours are stored beside each other, and loaded from one place or from beside each other."""
    loads = [n.address for n in stage.nodes if isinstance(n, Load)]
    return all(a.factor(inner) in (0, 1) for a in (*(s.address for s in stage.stores), *loads))
