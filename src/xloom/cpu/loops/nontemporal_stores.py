"""Stores around the caches: of results so large that nothing of them would be left there when they are read.

An ordinary store first loads the line that it changes. Whole lines that go straight to memory save that third of the
traffic, and leave in the caches what is read. What a loop makes is put into a short local array, and from there into
memory.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from llvmlite import ir

from xloom.codegen import thresholds
from xloom.codegen.loop_ir.affine import Var
from xloom.codegen.loop_ir.nest import LoopBody, cost_along
from xloom.codegen.loop_ir.nodes import Load
from xloom.cpu.loops.emission import Elements
from xloom.cpu.loops.phases import Phases
from xloom.llvm import element_access, types
from xloom.llvm.cache_lines import LINE, write_around
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.loop import Hint, allocate, loop
from xloom.llvm.types import I8, I64

FOOTPRINT = 5 / 4
"""Of the last cache, what all arrays of a nest take that it would not keep for the next: they are gone over once."""
LESS = 3 / 4
"""The same of what the program returns, which nothing of it reads; and where runs of memory are short: lines that are
not next to each other take longer to load."""
RUN = 4096
"""Bytes of a run that is not."""
PIECE = 4096
"""Bytes made before they are written."""
COMPUTED = 12
"""Cost of an element that is computed while the lines of those before are loaded: making pieces first takes longer."""


def is_nontemporal(code: Phases, bound: Collection[Var], stage: LoopBody, inner: Var, run: int | None = None) -> bool:
    """True when what the stage's innermost loop makes goes around the caches: nothing reads it in this nest.

    `bound` are the variables of loops around it, and `run` is how many of its iterations are done at a time, if not
    all.
    """
    sizes = _made(code, stage)
    if code.nest.read_soon or min(sizes) < thresholds.RETURNED or not _is_in_lines(code, bound, stage, inner):
        return False
    if cost_along([s.node for s in stage.stores], inner) > COMPUTED:
        return False
    numbers, loaded = code.numbers, _loaded(code)
    if any(s.target not in numbers or numbers[s.target] in loaded for s in stage.stores):
        return False
    extent = math.prod(v.size for v in (*code.nest.outer, *stage.vars))
    run = run or inner.size
    is_short = run < extent and run * min(code.types_of(s.target).bytes for s in stage.stores) < RUN
    less = is_short or all(s.target in code.nest.returned for s in stage.stores)
    return sum(loaded.values()) + sum(sizes) >= (LESS if less else FOOTPRINT) * code.module.target.caches.last


def footprint(code: Phases, stage: LoopBody) -> int:
    """Bytes of all arrays that the nest loads and the stage makes."""
    return sum(_loaded(code).values()) + sum(_made(code, stage))


def _made(code: Phases, stage: LoopBody) -> list[int]:
    extent = math.prod(v.size for v in (*code.nest.outer, *stage.vars))
    return [extent * code.types_of(s.target).bytes for s in stage.stores]


def _loaded(code: Phases) -> dict[int, int]:
    """Bytes of each array that is loaded, by its number."""
    nbytes: dict[int, int] = {}
    for stage in code.nest.stages:
        for node in stage.nodes:
            if isinstance(node, Load) and node.source in code.numbers:
                size = node.dtype.bytes * math.prod(v.size for v, _ in node.address.terms if v.node is None)
                number = code.numbers[node.source]
                nbytes[number] = max(size, nbytes.get(number, 0))
    return nbytes


def _is_in_lines(code: Phases, bound: Collection[Var], stage: LoopBody, inner: Var) -> bool:
    """True when the innermost loop writes neighbours, and begins with a line of memory."""
    for store in stage.stores:
        size, address = code.types_of(store.target).bytes, store.address
        starts = [factor for var, factor in address.terms if var != inner and (var.node or var in bound)]
        if address.factor(inner) != 1 or any(n * size % LINE for n in (address.const, *starts)):
            return False
    return True


class NontemporalStores:
    """Emits the innermost loop of a stage with stores around the caches, a cache line at a time."""

    def __init__(self, code: Phases, elements: Elements, stage: LoopBody, inner: Var):
        self._code = code
        self._elements = elements
        self._stage = stage
        self._inner = inner
        self._types = [code.types_of(s.target) for s in stage.stores]
        self._length = self.length(code, stage)
        self._pieces = [allocate(elements.b, I8, self._length * t.bytes, "piece") for t in self._types]
        for piece in self._pieces:
            piece.align = LINE
        elements.ends_with_fence = True

    @staticmethod
    def length(code: Phases, stage: LoopBody) -> int:
        """How many iterations are made before they are written."""
        return PIECE // max(code.types_of(s.target).bytes for s in stage.stores)

    def emit(self, first: ir.Value, last: ir.Value, hints: Sequence[Hint]) -> None:
        """The loop from `first` to `last`."""
        b, length = self._elements.b, self._length
        if isinstance(first, ir.Constant) and isinstance(last, ir.Constant) and first.constant % length == 0:
            whole = last.constant // length * length
            if whole - first.constant > length:
                with loop(b, first, whole, length) as begin:
                    self.piece(begin, I64(length), hints)
            elif whole > first.constant:
                self.piece(first, I64(length), hints)
            if last.constant > max(whole, first.constant):
                self.piece(I64(max(whole, first.constant)), I64(last.constant - max(whole, first.constant)), hints)
            return
        with loop(b, b.sdiv(first, I64(length)), b.sdiv(b.add(last, I64(length - 1)), I64(length))) as number:
            begin = intrinsic(b, "smax", first, b.mul(number, I64(length)))
            end = intrinsic(b, "smin", last, b.mul(b.add(number, I64(1)), I64(length)))
            self.piece(begin, b.sub(end, begin), hints)

    def piece(self, begin: ir.Value, count: ir.Value, hints: Sequence[Hint]) -> None:
        """`count` iterations from `begin` on, at most `length`."""
        b, elements, inner = self._elements.b, self._elements, self._inner
        with loop(b, 0, count, name=inner.name, hints=hints) as at, elements.scope():
            elements.vars[inner] = b.add(begin, at, flags=["nsw"])
            values = [elements.value(store.node) for store in self._stage.stores]
            for piece, dtype, x in zip(self._pieces, self._types, values, strict=True):
                element_access.store(b, piece, dtype, at, x, exact=True)
        elements.vars[inner] = begin
        with elements.scope():
            for store, piece, dtype in zip(self._stage.stores, self._pieces, self._types, strict=True):
                target = types.element_pointer(
                    b, self._code.pointers[store.target], dtype, elements.index(store.address)
                )
                write_around(b, target, piece, b.mul(count, I64(dtype.bytes)))
