"""The k least records of each row, where k is small: most elements are compared with a threshold, and no more.

In a row that is in order already, each element may be below all those before. Where more of them are than there are in
rows without order, a pass over what is left of a row finds a threshold that k elements of it are not above.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import Kernel
from xloom.cpu.kernels.sort.element_keys import ElementKey
from xloom.cpu.kernels.sort.lanes import lanes
from xloom.cpu.kernels.sort.network import exchange_function
from xloom.cpu.kernels.sort.records import INDEX_BITS, IndexedRecords, RowPointers, resized, row_of
from xloom.cpu.kernels.sort.routines import bound, quicksort, scan
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.loop import allocate, loop
from xloom.llvm.pass_pipeline import PassPipeline
from xloom.llvm.routine import function, optimize_for_size, read, repeat, write
from xloom.llvm.routine import least as lesser
from xloom.llvm.symbolic_dimension import greatest, least
from xloom.llvm.target import Target
from xloom.llvm.types import I1, I32, I64, POINTER, i64

_BLOCK = 32
"""Elements that a loop compares at once."""
_MOST_AT_ONCE = 64
"""That a loop or vectors do."""
_FEW = 64
"""The greatest k for which records are kept in order."""
_LANES = 8
_MOST_VECTORS = 16
"""Whose least keys a pass has in registers."""
_LEAST_SEEN = 4
"""By each of their lanes, so that they tell something."""
_SEEN = 100
"""Elements that such a pass sees while one is taken."""
_TASK = 40_000
"""Elements compared in about 20 µs."""


def select(kernel: Kernel, records: IndexedRecords, k: int) -> None:
    """Emits the phase that writes the k least records of all rows."""
    rows, key = records.rows, _element_key(records, kernel.target)
    candidates = _blocks_by_loop
    if key:
        kernel.pipeline = PassPipeline.VECTORS
        bits, vectors = key.dtype.bits, -(-k // lanes(key.dtype.bits))
        has_bound = vectors <= _MOST_VECTORS and rows.size >= _LEAST_SEEN * vectors * lanes(bits)
        functions = scan(kernel, key), bound(kernel, key, vectors) if has_bound else None
        candidates = partial(_blocks_by_vectors, functions, bits, _most_taken(k, rows.size))
    with kernel.phase(rows.count, greatest(1, _TASK // rows.size)) as phase:
        b = phase.b
        if k <= _FEW:
            least_records = _InOrder(b, records.type, k)
        else:
            least_records = _Collected(kernel, b, records.type, k)
        with loop(b, phase.begin, phase.end, name="row") as number:
            row = row_of(phase, rows, number)
            least_records.start(lambda i: records.read(b, row, i))
            # later elements with the threshold's key come after it
            search = _Search(records, row, k, least_records)
            with candidates(b, search) as (begin, end):
                with loop(b, begin, end) as i:
                    least_records.offer(records.read(b, row, i))
                least_records.reserve()
            least_records.finish()
            with loop(b, 0, k) as i:
                records.write(b, row, i, read(b, least_records.memory, records.type, i))


class _Search(NamedTuple):
    """The elements of a row from number `first` on that may be among the least."""

    records: IndexedRecords
    row: RowPointers
    first: int
    found: _InOrder | _Collected

    def limit(self, b: ir.IRBuilder) -> ir.Value:
        """What their keys are below."""
        return self.records.key(b, self.found.threshold)


def _most_taken(k: int, size: int) -> int:
    """Half as many again as are taken of a row without order, or, if less, about what a pass over a row costs.

    Of such a row k * (1 + log(size / k)) are taken; the logarithm here is of the next power of sqrt(2).
    """
    powers = 1 + sum(least(1, size * size // (k * k << n)) for n in range(1, 2 * INDEX_BITS))
    return least(k * (150 + 52 * powers) // 100 + 8, 2 * k + 100 + size // _SEEN)


def _element_key(records: IndexedRecords, target: Target) -> ElementKey | None:
    """How elements that vectors can scan order, or None."""
    if not target.packs_lanes() or records.rows.stride != 1:
        return None
    key = ElementKey.of(records.keys[0])
    return key if key and key.dtype.bits == records.key_bits else None


@contextmanager
def _blocks_by_vectors(
    functions: tuple[ir.Function, ir.Function | None],
    width: int,
    most: int,
    b: ir.IRBuilder,
    search: _Search,
) -> Iterator[tuple[ir.Value, ir.Value]]:
    """For each block [begin, end) that has a key below the limit; when more than `most` are taken, also the bound."""
    (function, bound), row, taken = functions, search.row, search.found.taken
    size, kind = i64(search.records.rows.size), ir.IntType(width)
    elements = b.gep(row.operands[0], [row.base], inbounds=True, source_etype=kind)
    position, highest = allocate(b, I64), allocate(b, kind)
    b.store(I64(search.first), position)
    b.store(kind(-1), highest)
    b.store(I64(0), taken)

    def found() -> ir.Value:
        if bound is not None:
            with b.if_then(b.icmp_signed(">", b.load(taken, typ=I64), i64(most)), likely=False):
                here = b.load(position, typ=I64)
                rest = b.gep(elements, [here], inbounds=True, source_etype=kind)
                # what equals it is wanted, too
                above = intrinsic(b, "uadd.sat", b.call(bound, [rest, b.sub(size, here)]), kind(1))
                b.store(above, highest)
                b.store(I64(-1 << 62), taken)
        below = intrinsic(b, "umin", search.limit(b), b.load(highest, typ=kind))
        b.store(b.call(function, [elements, b.load(position, typ=I64), size, below]), position)
        return b.icmp_signed("<", b.load(position, typ=I64), size)

    with repeat(b, found):
        begin = b.load(position, typ=I64)
        following = b.add(begin, I64(lanes(width)))
        yield begin, lesser(b, following, size)
        b.store(following, position)


@contextmanager
def _blocks_by_loop(b: ir.IRBuilder, search: _Search) -> Iterator[tuple[ir.Value, ir.Value]]:
    """The same without a bound, for keys that LLVM has to find out how to compute several of at once."""
    records, row = search.records, search.row
    b.store(I64(0), search.found.taken)
    kind, size = ir.IntType(1 << (records.key_bits - 1).bit_length()), i64(records.rows.size)
    lowest = allocate(b, kind)
    with loop(b, search.first, size, _BLOCK, name="block") as begin:
        end = lesser(b, b.add(begin, I64(_BLOCK)), size)
        bound = resized(b, search.limit(b), kind)
        b.store(bound, lowest)
        with loop(b, begin, end) as i:
            key, low = resized(b, records.key_of(b, row, i), kind), b.load(lowest, typ=kind)
            b.store(b.select(b.icmp_unsigned("<", key, low), key, low), lowest)
        with b.if_then(b.icmp_unsigned("<", b.load(lowest, typ=kind), bound)):
            yield begin, end


class _InOrder:
    """A few records kept in order: each new one moves those after it by one place, and the last one out."""

    def __init__(self, b: ir.IRBuilder, kind: ir.IntType, k: int):
        self.b, self.kind = b, kind
        self.vector = ir.VectorType(kind, _LANES)
        self.vectors = -(-k // _LANES)
        self.k = k
        # the lane before the first record is below all of them
        self.whole = allocate(b, kind, (self.vectors + 1) * _LANES)
        self.memory = b.gep(self.whole, [I64(_LANES)], inbounds=True, source_etype=kind)
        self.taken = allocate(b, I64)

    @property
    def threshold(self) -> ir.Value:
        """The greatest of the k."""
        return read(self.b, self.memory, self.kind, I64(self.k - 1))

    def start(self, record: Callable[[ir.Value], ir.Value]) -> None:
        """Begins with the first k records."""
        b = self.b
        write(b, self.whole, I64(_LANES - 1), self.kind(0))
        with loop(b, 0, self.vectors * _LANES) as i:
            write(b, self.memory, i, self.kind(-1))
        with loop(b, 0, self.k) as i:
            self._insert(record(i))

    def offer(self, record: ir.Value) -> None:
        """Takes a record that is below the threshold."""
        b = self.b
        with b.if_then(b.icmp_unsigned("<", record, self.threshold)):
            b.store(b.add(b.load(self.taken, typ=I64), I64(1)), self.taken)
            self._insert(record)

    def _insert(self, record: ir.Value) -> None:
        b = self.b
        splat = b.shuffle_vector(
            b.insert_element(ir.Constant(self.vector, ir.Undefined), record, I32(0)),
            ir.Constant(self.vector, ir.Undefined),
            ir.Constant(ir.VectorType(I32, _LANES), [0] * _LANES),
        )
        with loop(b, 0, self.vectors) as n:
            offset = b.mul(b.sub(I64(self.vectors - 1), n), I64(_LANES))
            here = b.gep(self.memory, [offset], inbounds=True, source_etype=self.kind)
            before = b.gep(here, [I64(-1)], inbounds=True, source_etype=self.kind)
            x, y = (b.load(p, typ=self.vector, align=self.kind.width // 8) for p in (here, before))
            moved = b.select(b.icmp_unsigned(">", y, splat), y, splat)
            kept = b.select(b.icmp_unsigned("<", x, moved), x, moved)
            b.store(kept, here, align=self.kind.width // 8)

    def reserve(self) -> None:
        """Nothing: there always is memory for one more record."""

    def finish(self) -> None:
        """Nothing to do: the records are in order at all times."""


class _Collected:
    """Records in any order, sorted when memory for them runs out."""

    def __init__(self, kernel: Kernel, b: ir.IRBuilder, kind: ir.IntType, k: int):
        self.b, self.kind, self.k = b, kind, k
        self.capacity = 2 * k + 2 * _MOST_AT_ONCE
        self.memory, self.count, self.taken = allocate(b, kind, self.capacity), allocate(b, I64), allocate(b, I64)
        if kind.width == 64 and kernel.target.packs_lanes():
            self.sort = quicksort(kernel, 64)
            self.first, self.rest = [self.memory, I64(0)], [I1(0), I1(0)]
        else:
            self.sort, self.first, self.rest = _sort_function(b.module, kind), [self.memory], []

    @property
    def threshold(self) -> ir.Value:
        """The greatest of the k when they were last sorted."""
        return read(self.b, self.memory, self.kind, I64(self.k - 1))

    def start(self, record: Callable[[ir.Value], ir.Value]) -> None:
        """Begins with the first k records."""
        with loop(self.b, 0, self.k) as i:
            write(self.b, self.memory, i, record(i))
        self.b.store(I64(self.k), self.count)
        self.finish()

    def offer(self, record: ir.Value) -> None:
        """Takes a record that is below the threshold."""
        b, count = self.b, self.b.load(self.count, typ=I64)
        write(b, self.memory, count, record)
        below = b.icmp_unsigned("<", record, self.threshold)
        b.store(b.add(count, b.zext(below, I64)), self.count)
        b.store(b.add(b.load(self.taken, typ=I64), b.zext(below, I64)), self.taken)

    def reserve(self) -> None:
        """Makes memory free for one more block of records."""
        b = self.b
        with b.if_then(b.icmp_signed(">", b.load(self.count, typ=I64), I64(self.capacity - _MOST_AT_ONCE))):
            self.finish()

    def finish(self) -> None:
        """Sorts them, and drops those after the first k."""
        self.b.call(self.sort, [*self.first, self.b.load(self.count, typ=I64), *self.rest])
        self.b.store(I64(self.k), self.count)


def _sort_function(module: ir.Module, kind: ir.IntType) -> ir.Function:
    """`sort(records, count)`: Batcher's merge exchange, whose exchanges do not depend on the data."""
    exchange = exchange_function(module, kind)
    with function(module, "sort", [POINTER, I64]) as (b, out):
        optimize_for_size(b)
        records, count = out.args
        top, p, q, r, d, going = (allocate(b, I64) for _ in range(6))
        b.store(I64(1), top)
        with repeat(b, lambda: b.icmp_signed("<", b.shl(b.load(top, typ=I64), I64(1)), count)):
            b.store(b.shl(b.load(top, typ=I64), I64(1)), top)
        b.store(b.load(top, typ=I64), p)
        with repeat(b, lambda: b.icmp_signed(">", b.load(p, typ=I64), I64(0))):
            span = b.load(p, typ=I64)
            b.store(b.load(top, typ=I64), q)
            b.store(I64(0), r)
            b.store(span, d)
            b.store(I64(1), going)
            with repeat(b, lambda: b.icmp_signed("!=", b.load(going, typ=I64), I64(0))):
                rest, distance = b.load(r, typ=I64), b.load(d, typ=I64)
                b.call(exchange, [records, b.sub(count, distance), distance, span, rest])
                b.store(b.zext(b.icmp_signed("!=", b.load(q, typ=I64), span), I64), going)
                b.store(b.sub(b.load(q, typ=I64), span), d)
                b.store(b.lshr(b.load(q, typ=I64), I64(1)), q)
                b.store(span, r)
            b.store(b.lshr(span, I64(1)), p)
    return out
