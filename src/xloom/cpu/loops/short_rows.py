"""Rows of a few elements, set apart in registers so that neighbouring rows are vectors, and put together again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from llvmlite import ir

from xloom.codegen.loop_ir.affine import Affine, Var
from xloom.codegen.loop_ir.nest import INTERLEAVED, LoopBody, Store
from xloom.codegen.loop_ir.nodes import Load, Node, Reduced, has_changing_numbers, walk
from xloom.cpu.loops.emission import Elements
from xloom.cpu.loops.phases import Phases
from xloom.llvm import element_access
from xloom.llvm.element_bits import bits_type, move
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.loop import PLAIN, VECTOR_ONLY, allocate, loop
from xloom.llvm.register_transpose import transposed
from xloom.llvm.types import I32, I64, memory_type

LONGEST = 64
"""Elements of a row that is set apart."""
WELL_KNOWN = (1, 2, 4)
"""Elements of a row that LLVM sets apart by itself."""
LEAST_VECTOR = 8
"""Elements of a row that is computed well as it lies."""
LANES = 16
"""Rows that are set apart at a time."""
BLOCK = 256
"""Rows, or results of neighbouring reductions, that are in the works at a time."""
MEMORY = 96 << 10
"""Bytes that a block has for what is set apart."""


def loads_of_short_rows(nodes: Sequence[Node], row: Var, within: Var, width: int) -> list[Load]:
    """The loads of `nodes` whose rows are dense, next to each other and short; in a block of `width` rows."""
    if within.size > LONGEST or within.size in WELL_KNOWN or width < LANES:
        return []
    found = [
        node
        for node in walk(nodes, guarded=False)  # rows are loaded whole
        if isinstance(node, Load) and _is_dense(node.address, row, within) and not node.dtype.is_complex
    ]
    return found if _fit(found, within.size, width) else []


def transposed_rows_fit(nodes: Sequence[Node], size: int) -> bool:
    """True when blocks of rows of so many elements fit, were all that `nodes` load such rows."""
    return size <= LONGEST and _fit([n for n in walk(nodes) if isinstance(n, Load)], size, BLOCK)


def _fit(nodes: Sequence[Node], size: int, width: int) -> bool:
    return sum(node.dtype.bytes for node in nodes) * size * width <= MEMORY


class TransposedRows:
    """A block of rows of one load, transposed in a local array: elements of one column lie together."""

    def __init__(self, elements: Elements, node: Load, size: int, width: int):
        self.node = node
        self._elements, self._size, self._width = elements, size, width
        self._memory = allocate(elements.b, bits_type(node.dtype), size * width, "apart")
        self._memory.align = 64

    def fill(self, count: ir.Value) -> None:
        """Sets `count` rows apart, from the present variables on."""
        b, size, kind = self._elements.b, self._size, bits_type(self.node.dtype)
        source = self._elements.pointers(self.node.source)
        base = self._elements.address_of(self.node)
        whole = b.and_(count, I64(-LANES))
        with loop(b, 0, whole, LANES, name="rows", hints=PLAIN) as row:
            first_row = b.gep(source, [b.add(base, b.mul(row, I64(size)))], inbounds=True, source_etype=kind)
            for k, vector in self._columns(first_row):
                address = b.gep(self._memory, [b.add(row, I64(k * self._width))], inbounds=True, source_etype=kind)
                b.store(vector, address, align=self.node.dtype.bytes)
        with (
            loop(b, whole, count, name="row", hints=PLAIN) as row,
            loop(b, 0, size, name="k", hints=PLAIN) as k,
        ):
            start = b.add(base, b.add(b.mul(row, I64(size)), k))
            move(b, source, start, self._memory, b.add(b.mul(k, I64(self._width)), row), self.node.dtype)

    def _columns(self, rows: ir.Value) -> Iterator[tuple[int, ir.Value]]:
        """Each column of `LANES` rows, as a vector."""
        b, size, kind = self._elements.b, self._size, bits_type(self.node.dtype)

        def vector(at: int) -> ir.Value:
            address = b.gep(rows, [I64(at)], inbounds=True, source_etype=kind)
            return b.load(address, typ=ir.VectorType(kind, LANES), align=self.node.dtype.real.bytes)

        if size < LANES:  # n - 1 operations for each of n vectors
            vectors = [vector(k * LANES) for k in range(size)]
            for k in range(size):
                yield k, _gathered(b, vectors, [divmod(k + lane * size, LANES) for lane in range(LANES)])
            return
        for first in dict.fromkeys(
            (*range(0, size - LANES, LANES), size - LANES)
        ):  # the last square ends with the rows
            square = [vector(k * size + first) for k in range(LANES)]
            yield from enumerate(transposed(b, square), first)

    def staged(self, column: ir.Value, lane: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Where the element in a column of a row is."""
        b = self._elements.b
        return self._memory, b.add(b.mul(column, I64(self._width), flags=["nsw"]), lane, flags=["nsw"])


def rows_of(stage: LoopBody, loops: Sequence[Var]) -> tuple[Var, Var] | None:
    """Two loops of which the second one's few steps make a row, where results are rows next to each other."""
    nodes = [s.node for s in stage.stores]
    for within in loops:
        for row in loops:
            if not INTERLEAVED < within.size < LEAST_VECTOR or row.size < LANES:
                continue
            if all(_is_dense(s.address, row, within) and not s.node.dtype.is_complex for s in stage.stores):
                plain = _fit(nodes, within.size, BLOCK) and not any(isinstance(n, Reduced) for n in walk(nodes))
                return (row, within) if plain and loads_of_short_rows(nodes, row, within, BLOCK) else None
    return None


def _is_dense(address: Affine, row: Var, within: Var) -> bool:
    dense = (address.factor(row), address.factor(within)) == (within.size, 1)
    return dense and not has_changing_numbers(address, (row, within))


def emit_short_rows(
    phases: Phases, stage: LoopBody, loops: Sequence[Var], gone: Mapping[Var, None], cost: int, rows: tuple[Var, Var]
) -> None:
    """Blocks of rows: what they load is set apart, computed a column after the other, and put together."""
    row, within = rows
    blocks = Var("block", -(-row.size // BLOCK), None, -1)
    others = [v for v in loops if v not in rows]
    with phases.phase([*others, blocks], cost * BLOCK * within.size) as elements:
        elements.unbind(gone)
        b = elements.b
        first = b.mul(elements.vars[blocks], I64(BLOCK), flags=["nsw"])
        count = intrinsic(b, "smin", b.sub(I64(row.size), first), I64(BLOCK))
        elements.vars.update({row: first, within: I64(0)})
        loads = loads_of_short_rows([s.node for s in stage.stores], row, within, BLOCK)
        apart = [TransposedRows(elements, node, within.size, BLOCK) for node in loads]
        with elements.scope():
            for load in apart:
                load.fill(count)
        made = [allocate(b, memory_type(phases.types_of(s.target)), within.size * BLOCK, "made") for s in stage.stores]
        with (
            loop(b, 0, within.size, name=within.name, hints=VECTOR_ONLY) as column,
            loop(b, 0, count, name=row.name, hints=VECTOR_ONLY) as lane,
            elements.scope(),
        ):
            elements.vars.update({row: b.add(first, lane, flags=["nsw"]), within: column})
            elements.staged = {id(a.node): a.staged(column, lane) for a in apart}
            at = b.add(b.mul(column, I64(BLOCK), flags=["nsw"]), lane, flags=["nsw"])
            values = [elements.value(s.node) for s in stage.stores]
            for store, memory, value in zip(stage.stores, made, values, strict=True):
                element_access.store(b, memory, phases.types_of(store.target), at, value, exact=True)
        elements.staged = {}
        elements.vars.update({row: first, within: I64(0)})
        for store, memory in zip(stage.stores, made, strict=True):
            memory.align = 64
            _put_together(phases, elements, store, memory, within.size, count)


def _put_together(
    phases: Phases, elements: Elements, store: Store, memory: ir.Value, size: int, count: ir.Value
) -> None:
    """Writes `count` rows of a result, from the present variables on."""
    b, dtype = elements.b, phases.types_of(store.target)
    kind = bits_type(dtype)
    target, base = phases.pointers[store.target], elements.index(store.address)
    whole = b.and_(count, I64(-LANES))
    with loop(b, 0, whole, LANES, name="rows", hints=PLAIN) as row:
        vectors = []
        for k in range(size):
            address = b.gep(memory, [b.add(row, I64(k * BLOCK))], inbounds=True, source_etype=kind)
            vectors.append(b.load(address, typ=ir.VectorType(kind, LANES), align=dtype.bytes))
        first_row = b.gep(target, [b.add(base, b.mul(row, I64(size)))], inbounds=True, source_etype=kind)
        for k in range(size):
            address = b.gep(first_row, [I64(k * LANES)], inbounds=True, source_etype=kind)
            woven = [(at % size, at // size) for at in range(k * LANES, (k + 1) * LANES)]
            b.store(_gathered(b, vectors, woven), address, align=dtype.bytes)
    with loop(b, whole, count, name="row", hints=PLAIN) as row, loop(b, 0, size, name="k", hints=PLAIN) as k:
        start = b.add(b.mul(k, I64(BLOCK)), row)
        move(b, memory, start, target, b.add(base, b.add(b.mul(row, I64(size)), k)), dtype)


def _gathered(b: ir.IRBuilder, vectors: Sequence[ir.Value], sources: Sequence[tuple[int, int]]) -> ir.Value:
    """The elements at `sources`, of a vector each; every step takes what the next vector has of them."""
    out, lanes = vectors[0], [at if of == 0 else 0 for of, at in sources]
    for number, vector in enumerate(vectors[1:], 1):
        lanes = [LANES + at if of == number else lanes[k] for k, (of, at) in enumerate(sources)]
        out = b.shuffle_vector(out, vector, ir.Constant(ir.VectorType(I32, LANES), lanes))
        lanes = list(range(LANES))
    return out
