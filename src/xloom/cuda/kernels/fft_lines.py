"""One launch of a transform: a block does some lines in shared memory, by Stockham's passes.

A pass of radix r over lines of n points that are cut to pieces of m r, s = n / (m r) of them side by side, reads the
points q + s (p + i m), and writes q + s (r p + i), times exp(2 pi i p i / (m r)). All threads read before any writes:
one array is enough. A length with a great prime factor is a convolution with a chirp (Bluestein).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from llvmlite import ir

from xloom.codegen.buffers.allocation import BufferAllocation
from xloom.cpu.kernels.fft import plan
from xloom.cpu.kernels.fft.butterfly import butterfly
from xloom.cpu.kernels.linalg.lanes import Lanes, Number
from xloom.cuda.kernel import THREADS, WARP, KernelBuilder, blocks_for, least, strided
from xloom.cuda.lowering import ThunkLowering
from xloom.hlo.dtype import DType
from xloom.llvm.types import I32, I64

_POINTS = 8
"""Of a thread, where there are enough."""
_BLOCKS = 256
"""So many have work, before a block has several lines."""
_BESIDE = 4
"""Lines of a block whose points lie side by side: whole sectors of memory."""
_NEAR = 1 << 10
"""Roots in a table of neighbours; those of steps so long are in another."""


@dataclass(frozen=True)
class Places:
    """Where the points of lines lie: line w of a group has point p at (w // inner) outer + w % inner + p stride.

    `form` is `real` for real points, or `half` for those of a spectrum whose others are their conjugates.
    """

    period: int
    """From a group to the next, in units of `inner`."""
    stride: int
    outer: int
    inner: int
    form: str = ""


@dataclass(frozen=True)
class Lines:
    """Transforms of `n` points each, `count` of them, of which `per_group` lie among each other."""

    n: int
    count: int
    per_group: int
    source: Places
    target: Places
    length: int = 0
    """Points of the long lines that these are a part of; n where they are whole."""
    turns: bool = False
    """Whether points are multiplied with exp(2 pi i p (w // inner) / length) first."""

    @property
    def whole(self) -> int:
        """Points of a whole line."""
        return self.length or self.n


def radices(n: int) -> tuple[int, ...] | None:
    """Those of passes in registers; None for a length that has another prime factor."""
    found = plan.radices(n)
    return found if found is not None and set(found) <= set(plan.BUTTERFLIES) else None


def points_of(n: int) -> int:
    """Points of a line in shared memory."""
    return n if radices(n) is not None else plan.convolution_length(n)


def transform(
    lowering: ThunkLowering,
    dtype: DType,
    lines: Lines,
    arrays: tuple[BufferAllocation, BufferAllocation],
    sign: int,
    scale: float,
    room: int,
) -> None:
    """Adds the launch. Shared memory has room for so many points, of one line at least."""
    points = points_of(lines.n)
    fewest, most = (_BESIDE, room // points) if lines.source.inner > 1 else (1, room // (2 * points))
    per_block = max(1, min(lines.count, most, max(fewest, lines.count // _BLOCKS)))
    threads = min(THREADS, max(WARP, -(-per_block * points // (_POINTS * WARP)) * WARP))
    tables = _tables(dtype, lines, sign)
    data = np.concatenate([*tables.values()]).astype(dtype.numpy).tobytes()
    constants = BufferAllocation("code", len(data), data=data)
    arguments = list(dict.fromkeys([*arrays, constants]))
    kernel = KernelBuilder(lowering.target, len(arguments), threads)
    pointers = [kernel.pointers[arguments.index(a)] for a in (*arrays, constants)]
    blocks = blocks_for(lines.count, per_block)
    _Block(kernel, dtype, lines, pointers, tables, sign, per_block).emit(blocks, scale)
    lowering.launch(kernel.finished(), blocks, arguments)


def _tables(dtype: DType, lines: Lines, sign: int) -> dict[str, np.ndarray]:
    """Complex numbers that the kernel reads, one table behind the other."""
    n, found = lines.n, {}
    if radices(n) is not None:
        found["roots"] = plan.roots(n, sign, np.arange(n))
    else:
        length = plan.convolution_length(n)
        k = np.arange(n, dtype=np.int64)
        chirp = plan.roots(2 * n, sign, k * k % (2 * n))
        kernel = np.zeros(length, np.complex128)
        kernel[:n] = np.conj(chirp)
        kernel[length - n + 1 :] = np.conj(chirp[:0:-1])
        found["roots"] = plan.roots(length, -1, np.arange(length))
        found["chirp"], found["spectrum"] = chirp, np.fft.fft(kernel) / length
    if lines.turns:
        found["near"] = plan.roots(lines.length, sign, np.arange(min(_NEAR, lines.length)))
        found["far"] = plan.roots(lines.length, sign, np.arange(0, lines.length, _NEAR))
    return found


@dataclass
class _Block:
    kernel: KernelBuilder
    dtype: DType
    lines: Lines
    pointers: list[ir.Value]
    tables: dict[str, np.ndarray]
    sign: int
    per_block: int
    points: int = field(init=False)
    lanes: Lanes = field(init=False)
    data: ir.Value = field(init=False)

    def __post_init__(self) -> None:
        self.points = points_of(self.lines.n)
        self.lanes = Lanes(self.dtype, 1)
        self.data = self.kernel.shared(self.per_block * self.points * self.dtype.bytes)

    def emit(self, blocks: int, scale: float) -> None:
        """What a block does with its lines, until there are none left."""
        kernel, lines = self.kernel, self.lines
        found = radices(self.points)
        assert found is not None
        how = " x ".join(map(str, found))
        convolved = f", by a convolution of {self.points}" if self.points > lines.n else ""
        which = f"{self.per_block} of {lines.count} lines of {lines.n} points"
        kernel.strategy = f"a block for each {which}{convolved}, in passes of {how}"
        with kernel.each_row(lines.count, blocks, self.per_block) as first:
            self._read(first)
            kernel.barrier()
            if self.points == lines.n:
                self._passes(found, self.sign)
            else:
                self._passes(found, -1)
                # with its parts exchanged, the transform forward is the one back
                self._each_point(lambda point, x: self._times("spectrum", point, x)[::-1])
                kernel.barrier()
                self._passes(found, -1)
            self._write(first, scale)
            if blocks * self.per_block < lines.count:
                kernel.barrier()

    # -- in and out
    def _read(self, first: ir.Value) -> None:
        b, lines = self.kernel.b, self.lines
        nothing = [self._constant(0)] * 2
        is_convolution = self.points > lines.n
        with strided(b, self.kernel.thread, I64(self.per_block * self.points), self.kernel.threads) as item:
            line, point = self._split(item, self.points, lines.source)
            place = b.add(self._at(line), point)
            if not is_convolution:
                self._put(place, self._load(first, line, point))
            else:
                with b.if_else(b.icmp_signed("<", point, I64(lines.n))) as (inside, outside):
                    with inside:
                        self._put(place, self._times("chirp", point, self._load(first, line, point)))
                    with outside:
                        self._put(place, nothing)

    def _write(self, first: ir.Value, scale: float) -> None:
        b, lines, places = self.kernel.b, self.lines, self.lines.target
        with strided(b, self.kernel.thread, I64(self.per_block * lines.n), self.kernel.threads) as item:
            line, point = self._split(item, lines.n, places)
            x = self._get(b.add(self._at(line), point))
            if self.points > lines.n:
                x = self._times("chirp", point, x[::-1])
            if scale != 1:
                x = [b.fmul(part, self._constant(scale)) for part in x]
            number = b.add(first, line)
            place, position, _ = self._place(places, number, point)
            fits = b.icmp_signed("<", number, I64(lines.count))
            if places.form == "half":
                fits = b.and_(fits, b.icmp_signed("<=", position, I64(lines.whole // 2)))
            with b.if_then(fits):
                if places.form == "real":
                    self._store_part(self.pointers[1], place, x[0])
                else:
                    self._store(self.pointers[1], place, x)

    def _load(self, first: ir.Value, line: ir.Value, point: ir.Value) -> Number:
        """A point of a line in the source; of the last line, where there is no such one."""
        b, lines, places = self.kernel.b, self.lines, self.lines.source
        number = least(b, b.add(first, line), I64(lines.count - 1))
        place, position, turn = self._place(places, number, point)
        source = self.pointers[0]
        if places.form == "real":
            return [self._load_part(source, place), self._constant(0)]
        if places.form == "half":
            whole = lines.whole
            is_far = b.icmp_signed(">", position, I64(whole // 2))
            mirrored = b.select(is_far, b.sub(I64(whole), position), position)
            real, imag = self._load_pair(source, b.add(b.sub(place, position), mirrored))
            imag = b.select(is_far, b.fneg(imag), imag)
            # sums of real points: what rounding has left there is dropped
            is_real = b.icmp_signed("==", position, I64(0))
            if whole % 2 == 0:
                is_real = b.or_(is_real, b.icmp_signed("==", position, I64(whole // 2)))
            return [real, b.select(is_real, self._constant(0), imag)]
        x = self._load_pair(source, place)
        if not lines.turns:
            return x
        angle = b.mul(turn, point)
        near = self._number("near", b.and_(angle, I64(_NEAR - 1)))
        far = self._number("far", b.lshr(angle, I64(_NEAR.bit_length() - 1)))
        return self.lanes.product(b, x, self.lanes.product(b, near, far))

    def _place(self, places: Places, number: ir.Value, point: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
        """Where a point of a line is: in the array, in its group; and the line's number there by steps of `inner`."""
        b, per_group = self.kernel.b, I64(self.lines.per_group)
        group, within = b.udiv(number, per_group), b.urem(number, per_group)
        step, rest = b.udiv(within, I64(places.inner)), b.urem(within, I64(places.inner))
        position = b.add(b.mul(step, I64(places.outer)), b.add(rest, b.mul(point, I64(places.stride))))
        return b.add(b.mul(group, I64(places.period * places.inner)), position), position, step

    def _split(self, item: ir.Value, points: int, places: Places) -> tuple[ir.Value, ir.Value]:
        """The line and the point that a thread has: neighbours in memory are those of neighbouring threads."""
        b = self.kernel.b
        if places.stride == 1:
            return b.udiv(item, I64(points)), b.urem(item, I64(points))
        return b.urem(item, I64(self.per_block)), b.udiv(item, I64(self.per_block))

    # -- passes
    def _passes(self, found: tuple[int, ...], sign: int) -> None:
        side = 1
        for radix in found:
            self._pass(radix, side, sign)
            side *= radix

    def _pass(self, radix: int, side: int, sign: int) -> None:
        kernel, b = self.kernel, self.kernel.b
        total = self.per_block * (self.points // radix)
        is_last = side * radix == self.points  # which writes each point where it was read
        made: list[tuple[ir.Value, list[tuple[ir.Value, Number]]]] = []
        for first in range(0, total, kernel.threads):
            item = b.add(kernel.thread, I64(first))
            inside = b.icmp_signed("<", item, I64(total))
            if is_last:
                with b.if_then(inside):
                    self._put_all(self._butterfly(item, radix, side, sign))
            else:
                made.append((inside, self._butterfly(least(b, item, I64(total - 1)), radix, side, sign)))
        if not is_last:
            kernel.barrier()
        for inside, stores in made:
            with b.if_then(inside):
                self._put_all(stores)
        kernel.barrier()

    def _butterfly(self, item: ir.Value, radix: int, side: int, sign: int) -> list[tuple[ir.Value, Number]]:
        """What a thread makes of the points that it reads, and where that belongs."""
        b, each = self.kernel.b, self.points // radix
        line, rest = b.udiv(item, I64(each)), b.urem(item, I64(each))
        p, q = b.udiv(rest, I64(side)), b.urem(rest, I64(side))
        read, written = (b.add(self._at(line), b.add(q, b.mul(p, I64(side * step)))) for step in (1, radix))
        y = butterfly(b, self.lanes, [self._get(b.add(read, I64(i * each))) for i in range(radix)], sign)
        if each > side:
            turns = [self._number("roots", b.mul(p, I64(side * i))) for i in range(1, radix)]
            y = [y[0], *(self.lanes.product(b, v, root) for v, root in zip(y[1:], turns, strict=True))]
        return [(b.add(written, I64(i * side)), v) for i, v in enumerate(y)]

    # -- numbers
    def _at(self, line: ir.Value) -> ir.Value:
        return self.kernel.b.mul(line, I64(self.points))

    def _get(self, place: ir.Value) -> Number:
        return self._load_pair(self.data, place)

    def _put_all(self, stores: Sequence[tuple[ir.Value, Number]]) -> None:
        for place, x in stores:
            self._put(place, x)

    def _put(self, place: ir.Value, x: Number) -> None:
        self._store(self.data, place, x)

    def _each_point(self, change: Callable[[ir.Value, Number], Number]) -> None:
        """Changes all points of all lines, each of which a number from 0 to `points` says."""
        b = self.kernel.b
        with strided(b, self.kernel.thread, I64(self.per_block * self.points), self.kernel.threads) as place:
            self._put(place, change(b.urem(place, I64(self.points)), self._get(place)))

    def _times(self, table: str, index: ir.Value, x: Number) -> Number:
        return self.lanes.product(self.kernel.b, x, self._number(table, index))

    def _number(self, table: str, index: ir.Value) -> Number:
        """An element of a table."""
        names = list(self.tables)
        offset = sum(len(self.tables[name]) for name in names[: names.index(table)])
        return self._load_pair(self.pointers[2], self.kernel.b.add(index, I64(offset)))

    def _constant(self, value: float) -> ir.Constant:
        return ir.Constant(self.lanes.kind, [float(value)])

    def _address(self, pointer: ir.Value, index: ir.Value, count: int) -> tuple[ir.Value, ir.VectorType]:
        """Of `count` parts of numbers, as a vector."""
        kind = ir.VectorType(self.lanes.kind.element, count)
        return self.kernel.b.gep(pointer, [index], inbounds=True, source_etype=kind), kind

    def _load_part(self, pointer: ir.Value, index: ir.Value) -> ir.Value:
        address, kind = self._address(pointer, index, 1)
        return self.kernel.b.load(address, typ=kind, align=self.dtype.bytes // 2)

    def _store_part(self, pointer: ir.Value, index: ir.Value, value: ir.Value) -> None:
        self.kernel.b.store(value, self._address(pointer, index, 1)[0], align=self.dtype.bytes // 2)

    def _load_pair(self, pointer: ir.Value, index: ir.Value) -> Number:
        b = self.kernel.b
        address, kind = self._address(pointer, index, 2)
        pair = b.load(address, typ=kind, align=self.dtype.bytes)
        return [b.shuffle_vector(pair, pair, ir.Constant(ir.VectorType(I32, 1), [k])) for k in range(2)]

    def _store(self, pointer: ir.Value, index: ir.Value, x: Number) -> None:
        b = self.kernel.b
        pair = b.shuffle_vector(x[0], x[1], ir.Constant(ir.VectorType(I32, 2), [0, 1]))
        b.store(pair, self._address(pointer, index, 2)[0], align=self.dtype.bytes)
