"""Rows of a few elements, read as they lie and set apart in registers, so that neighbouring rows are vectors."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from xloom.cpu.emit.bits import bits_type, move
from xloom.cpu.emit.loop import PLAIN, allocate, loop
from xloom.cpu.emit.types import I32, I64
from xloom.cpu.loops.affine import Var
from xloom.cpu.loops.emission import Elements
from xloom.cpu.loops.nodes import Load, Node, walk

LONGEST = 16
"""Elements of a row: setting n apart takes n - 1 operations for each vector."""
LANES = 16
"""Rows that are set apart at a time."""
MEMORY = 1 << 15
"""Bytes that the loads of a block have for what is set apart."""


def loads_of_short_rows(nodes: Sequence[Node], row: Var, within: Var, width: int) -> list[Load]:
    """The loads of `nodes` whose rows are dense, next to each other and short; in a block of `width` rows."""
    if not 2 <= within.size <= LONGEST or width < LANES:
        return []
    found = [
        node
        for node in walk(nodes, guarded=False)  # rows are loaded whole
        if isinstance(node, Load)
        and (node.address.factor(row), node.address.factor(within)) == (within.size, 1)
        and not node.dtype.is_complex
    ]
    nbytes = sum(node.dtype.bytes for node in found) * within.size * width
    return found if nbytes <= MEMORY else []


class Apart:
    """A block of rows of one load, in a local array where elements of the same place lie together."""

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
            place = b.gep(source, [b.add(base, b.mul(row, I64(size)))], inbounds=True, source_etype=kind)
            vectors = []
            for k in range(size):
                address = b.gep(place, [I64(k * LANES)], inbounds=True, source_etype=kind)
                vectors.append(b.load(address, typ=ir.VectorType(kind, LANES), align=self.node.dtype.real.bytes))
            for k in range(size):
                address = b.gep(self._memory, [b.add(row, I64(k * self._width))], inbounds=True, source_etype=kind)
                b.store(_every(b, vectors, k), address, align=self.node.dtype.bytes)
        with (
            loop(b, whole, count, name="row", hints=PLAIN) as row,
            loop(b, 0, size, name="k", hints=PLAIN) as k,
        ):
            start = b.add(base, b.add(b.mul(row, I64(size)), k))
            move(b, source, start, self._memory, b.add(b.mul(k, I64(self._width)), row), self.node.dtype)

    def staged(self, place: ir.Value, lane: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Where the element at a place of a row is."""
        b = self._elements.b
        return self._memory, b.add(b.mul(place, I64(self._width), flags=["nsw"]), lane, flags=["nsw"])


def _every(b: ir.IRBuilder, vectors: Sequence[ir.Value], first: int) -> ir.Value:
    """Of all elements, those `len(vectors)` apart from `first` on: each step takes what the next vector has of them."""
    places = [divmod(first + k * len(vectors), LANES) for k in range(LANES)]
    taken = vectors[0]
    lanes = [at if vector == 0 else 0 for vector, at in places]
    for number, vector in enumerate(vectors[1:], 1):
        lanes = [LANES + at if of == number else lanes[k] for k, (of, at) in enumerate(places)]
        taken = b.shuffle_vector(taken, vector, ir.Constant(ir.VectorType(I32, LANES), lanes))
        lanes = list(range(LANES))
    return taken
