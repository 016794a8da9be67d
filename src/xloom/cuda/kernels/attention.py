"""Attention: a block takes some queries, goes over all keys and values, and keeps neither scores nor weights.

Each warp has 16 queries. What it has of scores after a product is what it needs of weights for the next one. Weights
are as of the greatest score so far: where a greater one is met, what was added up before is scaled down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from math import isfinite

from llvmlite import ir

from xloom.codegen.emission.accumulators import Accumulator, Representation
from xloom.cuda.attention import Attention
from xloom.cuda.kernel import WARP, KernelBuilder
from xloom.cuda.kernels.epilogue import Epilogue, EpilogueCode
from xloom.cuda.kernels.horizon import Horizon, horizon_of
from xloom.cuda.kernels.matrix_fragments import Fragments
from xloom.cuda.kernels.mma import COLUMNS, KINDS, ROWS, add_product, zeros
from xloom.cuda.kernels.operand_lines import OperandLines
from xloom.cuda.kernels.product_tile import TileStore
from xloom.cuda.kernels.staged_slices import SliceShape, StagedSlices, TurnedSlices, pipelined
from xloom.cuda.lowering import ThunkLowering
from xloom.hlo.dtype import DTYPES, DType, f32
from xloom.llvm.intrinsics import intrinsic
from xloom.llvm.math import call
from xloom.llvm.scalar.conversion import narrow
from xloom.llvm.types import FLOAT, I16, I32, I64

WARPS = 4
"""Of a block."""
_SHALLOW = 64
"""Elements of a query or of a value, up to which there are twice as many keys at a time."""
_FEW, _MANY = 32, 64
"""Keys at a time: what two slices of keys and of values have room for in shared memory."""
_SLICES = 2
"""Slices at once: one is on its way."""
_RESIDENT_DEEP, _RESIDENT = 2, 3
"""Blocks that a multiprocessor is to have room for, with few keys at a time and with many."""
_LEAST = float("-inf")
_NOTHING = 110.0
"""By how much a logit is less than another whose exponential is nothing beside it, in f32."""


def attention(lowering: ThunkLowering, found: Attention, dtype: DType) -> None:
    """One launch, whose result has type `dtype`."""
    epilogue = None
    if found.between:
        epilogue = Epilogue(found.logits, found.dot, found.between - {found.logits})
    read = [(i, 0) for i in (found.queries, found.keys, found.values)]
    arrays = epilogue.arrays if epilogue else []
    places = [*map(lowering.of, read), lowering.output(), *map(lowering.of, arrays)]
    arguments = list(dict.fromkeys(places))
    (store,) = epilogue.nest.stages[0].stores if epilogue else (None,)
    tiles = _Tiles(found, dtype, horizon_of(store, found.scores) if store else None)
    kernel = KernelBuilder(lowering.target, len(arguments), WARPS * WARP)
    numbers = {value: arguments.index(place) for value, place in zip(arrays, places[4:], strict=True)}
    code = epilogue.code(kernel, numbers, found.scores) if epilogue else None
    tiles.emit(kernel, [kernel.pointers[arguments.index(place)] for place in places[:4]], code)
    lowering.launch(kernel.finished(), tiles.count, arguments)


class _Row:
    """A query of a thread: the greatest score so far, and the sum of the thread's own weights."""

    def __init__(self, b: ir.IRBuilder):
        self.greatest, self.total = (Accumulator(b, Representation(f32)) for _ in range(2))
        self.greatest.set(FLOAT(_LEAST))
        self.total.set(FLOAT(0.0))


class _Tiles:
    """The code of a block, and how many there are."""

    def __init__(self, found: Attention, dtype: DType, horizon: Horizon | None):
        self.scores, self.product, self.dtype = found.scores, found.product, dtype
        self.how, self.kind, self._horizon = KINDS[found.kind], found.kind, horizon
        self.rows = ROWS * WARPS
        deepest = max(self.scores.k, self.product.n)
        self.keys = _MANY if deepest <= _SHALLOW else _FEW
        self._resident = _RESIDENT if self.keys == _MANY else _RESIDENT_DEEP
        unit = 16 * _MANY // self.keys  # so that each thread copies as much
        self.deep, self.wide = (-(-n // unit) * unit for n in (self.scores.k, self.product.n))
        self._tiles = -(-self.scores.m // self.rows)
        self.count = self.scores.batch * self._tiles

    def emit(self, kernel: KernelBuilder, pointers: Sequence[ir.Value], code: EpilogueCode | None) -> None:
        """Emits the kernel; `pointers` are those of queries, keys, values and results."""
        b, scores, product = kernel.b, self.scores, self.product
        # ptxas by itself gives out too few registers for the sake of more blocks, and spills
        kernel.tensor_cores, kernel.resident_blocks = self.kind, self._resident
        kernel.strategy = (
            f"attention of {self.rows} of {scores.m} queries, {self.keys} of {scores.n} keys at a time, "
            f"by tensor cores ({self.kind}){', as far as they see' if self._horizon else ''}"
        )
        batch, tile = b.udiv(kernel.block, I64(self._tiles)), b.urem(kernel.block, I64(self._tiles))
        if self._horizon:  # what takes longest begins first
            tile = b.sub(I64(self._tiles - 1), tile, flags=["nsw", "nuw"])
        begin = b.mul(tile, I64(self.rows), flags=["nsw", "nuw"])
        first = b.add(begin, b.mul(kernel.warp, I64(ROWS), flags=["nsw", "nuw"]), flags=["nsw", "nuw"])
        queries = self._queries(kernel, pointers[0], batch, first)
        turned = replace(scores.rhs, own=scores.rhs.depth, depth=scores.rhs.own)
        slices = [
            StagedSlices(
                OperandLines(kernel, operand, pointer, (I64(0), size, scores.n), batch, self.how.element),
                SliceShape(length, self.keys, _SLICES),
            )
            for operand, pointer, size, length in (
                (turned, pointers[1], scores.k, self.deep),
                (product.rhs, pointers[2], product.n, self.wide),
            )
        ]
        of_keys = Fragments(kernel, TurnedSlices(slices[0]), I64(0), self.kind)
        of_values = Fragments(kernel, slices[1], I64(0), self.kind)
        results = [zeros(b, self.how) for _ in range(self.wide // COLUMNS)]
        rows = [_Row(b) for _ in range(2)]
        row = b.add(first, b.lshr(kernel.lane, I64(2)), flags=["nsw", "nuw"])
        places = [b.add(row, I64(ROWS // 2 * half), flags=["nsw", "nuw"]) for half in range(2)]

        def step(start: ir.Value, buffer: ir.Value) -> None:
            sums = [zeros(b, self.how) for _ in range(self.keys // COLUMNS)]
            for k in range(0, self.deep, self.how.deep):
                for accumulators, right in zip(sums, of_keys.right(buffer, k, len(sums)), strict=True):
                    add_product(b, self.how, accumulators, queries[k // self.how.deep], right)
            logits = self._logits(kernel, sums, start, (batch, places), code)
            weights = [self._weighed(kernel, rows[half], logits[half], results, half) for half in range(2)]
            words = [[_packed(b, pair, self.kind) for pair in weights[half]] for half in range(2)]
            for block in range(0, self.keys // COLUMNS, 2):
                left = [words[half][block + n] for n in range(2) for half in range(2)]
                rights = of_values.right(buffer, block * COLUMNS, len(results))
                for accumulators, right in zip(results, rights, strict=True):
                    add_product(b, self.how, accumulators, left, right)

        end = self._end(b, begin)
        with pipelined(kernel, slices, (I64(0), end)) as (start, buffer):
            step(start, buffer)
        if self._horizon and isfinite(self._horizon.lowest):
            with (
                b.if_then(self._counts(kernel, rows, places, end)),
                pipelined(kernel, slices, (end, I64(scores.n))) as (start, buffer),
            ):
                step(start, buffer)
        store = TileStore(product, (self.rows, self.wide), self.dtype, f32, None)
        totals = [_over_lanes(kernel, row.total.get(), b.fadd) for row in rows]
        for number, accumulators in enumerate(results):
            column = b.mul(b.and_(kernel.lane, I64(3)), I64(2), flags=["nsw", "nuw"])
            column = b.add(column, I64(number * COLUMNS), flags=["nsw", "nuw"])
            for half in range(2):
                pair = [b.fdiv(a.get(), totals[half]) for a in accumulators[2 * half : 2 * half + 2]]
                store.pair(b, pointers[3], (batch, places[half], column), pair)

    def _end(self, b: ir.IRBuilder, begin: ir.Value) -> ir.Value:
        """The first key that none of the block's queries sees, of a multiple of what is taken at a time; or the end."""
        if self._horizon is None:
            return I64(self.scores.n)
        end = b.add(begin, I64(self.rows + self._horizon.ahead), flags=["nsw"])
        end = intrinsic(b, "smax", intrinsic(b, "smin", end, I64(self.scores.n)), I64(1))
        steps = b.udiv(b.add(end, I64(self.keys - 1)), I64(self.keys))
        return b.mul(steps, I64(self.keys), flags=["nsw", "nuw"])

    def _counts(
        self, kernel: KernelBuilder, rows: Sequence[_Row], places: Sequence[ir.Value], end: ir.Value
    ) -> ir.Value:
        """Whether there are keys that are not seen and yet count, since a query has seen nothing much greater."""
        b, horizon = kernel.b, self._horizon
        assert horizon is not None
        alike = []
        for row, place in zip(rows, places, strict=True):
            difference = b.fsub(row.greatest.get(), FLOAT(horizon.lowest))
            is_alike = b.fcmp_unordered("<=", difference, FLOAT(_NOTHING))
            alike.append(b.and_(is_alike, b.icmp_signed("<", place, I64(self.scores.m))))
        votes = kernel.shared(4 * WARPS)
        vote = kernel.ballot(b.or_(*alike))
        with b.if_then(b.icmp_signed("==", kernel.lane, I64(0))):
            b.store(vote, b.gep(votes, [kernel.warp], inbounds=True, source_etype=I32), align=4)
        kernel.barrier()
        found = [
            b.load(b.gep(votes, [I64(n)], inbounds=True, source_etype=I32), typ=I32, align=4) for n in range(WARPS)
        ]
        return b.and_(b.icmp_signed("!=", reduce(b.or_, found), I32(0)), b.icmp_signed("<", end, I64(self.scores.n)))

    def _queries(
        self, kernel: KernelBuilder, pointer: ir.Value, batch: ir.Value, first: ir.Value
    ) -> list[list[ir.Value]]:
        """What a lane has of its warp's queries: four words for each step along them."""
        b, scores = kernel.b, self.scores
        lines = OperandLines(kernel, scores.lhs, pointer, (first, scores.m, scores.k), batch, self.how.element)
        line, within = b.lshr(kernel.lane, I64(2)), b.mul(b.and_(kernel.lane, I64(3)), I64(2), flags=["nsw", "nuw"])
        width = 2 if scores.lhs.is_deep and scores.lhs.aligned > 1 else 1
        found = []
        for k in range(0, self.deep, self.how.deep):
            words = []
            for deep in (k, k + 8):
                for row in (0, 8):
                    parts = [
                        self._query(b, lines, b.add(line, I64(row)), b.add(within, I64(deep + n)), width)
                        for n in range(0, 2, width)
                    ]
                    words.append(parts[0] if width > 1 else _joined(b, parts))
            found.append(words)
        return found

    def _query(self, b: ir.IRBuilder, lines: OperandLines, line: ir.Value, deep: ir.Value, width: int) -> ir.Value:
        kind = I32 if width > 1 else I16
        address, inside = lines.source(line, deep)
        with b.if_else(inside) as (then, otherwise):
            with then:
                value, loaded = b.load(address, typ=kind, align=2 * width), b.block
            with otherwise:
                empty = b.block
        word = b.phi(kind)
        word.add_incoming(value, loaded)
        word.add_incoming(kind(0), empty)
        return word

    def _logits(
        self,
        kernel: KernelBuilder,
        sums: Sequence[Sequence[Accumulator]],
        start: ir.Value,
        place: tuple[ir.Value, Sequence[ir.Value]],
        code: EpilogueCode | None,
    ) -> list[list[list[ir.Value]]]:
        """What scores become, by half of the rows and pair of columns; nothing counts of what is no key."""
        b, scores, (batch, rows) = kernel.b, self.scores, place
        is_whole = scores.n % self.keys == 0, scores.m % self.rows == 0
        column = b.add(start, b.mul(b.and_(kernel.lane, I64(3)), I64(2), flags=["nsw", "nuw"]), flags=["nsw", "nuw"])
        found = []
        for half in range(2):
            pairs = []
            for block, accumulators in enumerate(sums):
                pair = []
                for lane in range(2):
                    key = b.add(column, I64(block * COLUMNS + lane), flags=["nsw", "nuw"])
                    value, at = accumulators[2 * half + lane].get(), (batch, rows[half], key)
                    ends = zip((key, rows[half]), (scores.n, scores.m), is_whole, strict=True)
                    conditions = [b.icmp_signed("<", number, I64(size)) for number, size, whole in ends if not whole]
                    pair.append(_where(b, conditions, lambda v=value, p=at: code.wider(p, v, f32) if code else v))
                pairs.append(pair)
            found.append(pairs)
        return found

    def _weighed(
        self,
        kernel: KernelBuilder,
        row: _Row,
        logits: Sequence[Sequence[ir.Value]],
        results: Sequence[Sequence[Accumulator]],
        half: int,
    ) -> list[list[ir.Value]]:
        """The weights of a row's logits, by what is greatest now, to which all that is added up is scaled."""
        b, before = kernel.b, row.greatest.get()
        here = reduce(lambda x, y: intrinsic(b, "maxnum", x, y), [x for pair in logits for x in pair])
        here = _over_lanes(kernel, here, lambda x, y: intrinsic(b, "maxnum", x, y))
        greatest = intrinsic(b, "maxnum", before, here)
        row.greatest.set(greatest)
        # of a row that has nothing yet, all weights are to be 0, and no NaN
        base = b.select(b.fcmp_ordered("==", greatest, FLOAT(_LEAST)), FLOAT(0.0), greatest)
        weights = [[call(b, "exponential", b.fsub(x, base), is_narrow=True) for x in pair] for pair in logits]
        scale = call(b, "exponential", b.fsub(before, base), is_narrow=True)
        total = reduce(b.fadd, [x for pair in weights for x in pair])
        row.total.set(b.fadd(b.fmul(row.total.get(), scale), total))
        for accumulators in results:
            for accumulator in accumulators[2 * half : 2 * half + 2]:
                accumulator.set(b.fmul(accumulator.get(), scale))
        return weights


def _where(b: ir.IRBuilder, conditions: Sequence[ir.Value], made: Callable[[], ir.Value]) -> ir.Value:
    """A value where all conditions hold, and else what no softmax counts."""
    if not conditions:
        return made()
    slot = Accumulator(b, Representation(f32))
    slot.set(FLOAT(_LEAST))
    with b.if_then(reduce(b.and_, conditions)):
        slot.set(made())
    return slot.get()


def _over_lanes(kernel: KernelBuilder, value: ir.Value, combine: Callable[[ir.Value, ir.Value], ir.Value]) -> ir.Value:
    """What the four lanes with the same row have, combined."""
    b = kernel.b
    lane = b.trunc(kernel.lane, I32)
    for distance in (1, 2):
        value = combine(value, kernel.of_lane(value, b.xor(lane, I32(distance))))
    return value


def _packed(b: ir.IRBuilder, pair: Sequence[ir.Value], kind: str) -> ir.Value:
    """Two numbers of 16 bits in a word."""
    parts = [narrow(b, value, DTYPES[kind]) for value in pair]
    return _joined(b, [part if part.type == I16 else b.bitcast(part, I16) for part in parts])


def _joined(b: ir.IRBuilder, parts: Sequence[ir.Value]) -> ir.Value:
    low, high = (b.zext(part, I32) for part in parts)
    return b.or_(low, b.shl(high, I32(16)))
