"""Convolutions of one feature a group whose groups are adjacent in all three arrays, which are read where they lie.

Positions along a line of the output are computed some at a time; windows that reach out have fewer taps. Which taps the
first and the last positions of a line lack is known when the code is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import Kernel
from xloom.cpu.kernels.convolution.geometry import Convolution
from xloom.cpu.kernels.convolution.window_pointers import Loops, WindowPointer, walk_window
from xloom.cpu.kernels.matmul.arithmetic import Arithmetic
from xloom.cpu.kernels.matmul.axes import Axis, count, digits
from xloom.cpu.kernels.matmul.grain import grain
from xloom.cpu.kernels.matmul.operands import Array
from xloom.cpu.kernels.matmul.tile import Sums, Tile, at_most, rolled, share, spaced
from xloom.hlo.attributes import Window
from xloom.llvm.routine import within
from xloom.llvm.symbolic_dimension import greatest, least
from xloom.llvm.types import element_pointer, i64

_MOST_ROWS = 14
_LEAST_ROWS = 4
_MOST_VECTORS = 4
"""That are computed for a position; and for some positions before those next to them."""
_LONG = 5
"""A window along the line, by strides, for which it is better to copy what is met so often, where registers hold it."""
_MANY_REGISTERS = 32
_LINE = 64
"""Places of an item, about."""


def is_adjacent(arithmetic: Arithmetic, problem: Convolution, window: Window) -> bool:
    """True for convolutions of one feature per group whose groups fill vectors and are adjacent in all three."""
    group = problem.group
    return (
        arithmetic.parts == 1
        and len(problem.taps) > 0
        and problem.feature.size == problem.output.size == 1
        and group.a == group.b == group.c == 1
        and group.size >= arithmetic.lanes
        and (window[-1].size < _LONG * window[-1].stride or arithmetic.target.registers.count < _MANY_REGISTERS)
        and all(d.base_dilation == 1 for d in window)
    )


class DepthwiseEmitter:
    """The emission of a convolution's only phase."""

    def __init__(
        self,
        arithmetic: Arithmetic,
        problem: Convolution,
        window: Window,
        sizes: Sequence[Any],
        arrays: Sequence[Array],
    ):
        self._arithmetic, self._problem, self._window, self._sizes = arithmetic, problem, window, sizes
        self._x, self._w, self._y = arrays
        lanes = arithmetic.lanes
        many = problem.group.size >= _MOST_VECTORS * lanes
        self._vectors = _MOST_VECTORS if many else int(problem.group.size // lanes)
        outputs = [d.classes[0].count for d in problem.dims]
        last = window[-1]
        self._low = least(outputs[-1], greatest(0, -(-last.padding_low // last.stride)))
        past = (sizes[-1] + last.padding_low - last.dilated_size) // last.stride + 1
        self._high = greatest(self._low, least(outputs[-1], past))
        inside = self._high - self._low
        self._length = share(outputs[-1], _LINE if len(outputs) == 1 else outputs[-1])
        most = least(inside, self._length)
        self._rows = 0 if most < _LEAST_ROWS else _MOST_ROWS if most >= _MOST_ROWS else int(most)
        self._outputs = outputs
        rows = self._rows_between_edges(outputs[-1]) if len(outputs) > 1 else 0
        self._has_edges, self._rows = rows > 0, rows or self._rows

    def _rows_between_edges(self, line: Any) -> int:
        """Of pieces of a line of which the first alone has windows that reach out in front, the last behind; or 0."""
        if line < _LEAST_ROWS or (self._low <= 0 and self._high >= line):
            return 0
        rows = share(line, _MOST_ROWS)
        if rows < line and (rows < self._low or (line - 1) // rows * rows > self._high):
            return 0
        return int(rows)

    def emit(self, kernel: Kernel) -> None:
        """One phase, whose items are lines of the output or pieces of them."""
        problem, lanes = self._problem, self._arithmetic.lanes
        *outer, last = self._outputs
        items = [Axis(n, 0, 0, 0) for n in (problem.batch.size, *outer, -(-last // self._length))]
        width = self._vectors * lanes
        cost = 2 * self._length * problem.group.size * count(problem.taps)
        with kernel.phase(count(tuple(items)), grain(cost, self._arithmetic)) as phase:
            b = phase.b
            self._b, self._pointers = b, [a.pointer(phase) for a in (self._x, self._w, self._y)]
            self._tall = Sums(b, Tile(self._arithmetic, self._rows, 1, lanes))
            self._wide = Sums(b, Tile(self._arithmetic, 1, self._vectors, lanes))
            with rolled(b, phase.begin, phase.end, name="line") as item:
                image, *positions, piece = digits(b, items, item)
                at = [i64(problem.x_base), i64(problem.w_base), i64(0)]
                at = [
                    b.add(p, b.mul(image, i64(s)))
                    for p, s in zip(at, (problem.batch.a, 0, problem.batch.c), strict=True)
                ]
                loops = []
                for dim, position in enumerate(positions):
                    at, taps = self._moved(dim, position, at)
                    loops.append(taps)
                begin = at_most(b, b.mul(piece, i64(self._length)), last - self._length)
                end = b.add(begin, i64(self._length))
                with rolled(b, 0, problem.group.size, width, name="groups") as group:
                    self._line(at, group, loops, begin, end)

    def _moved(
        self, dim: int, position: ir.Value, at: Sequence[ir.Value]
    ) -> tuple[list[ir.Value], tuple[ir.Value, list[Any]]]:
        """The first elements that outputs at a position of a dimension meet, and the loop over its taps."""
        b, d, axis = self._b, self._window[dim], self._problem.taps[dim]
        first = b.add(b.mul(position, i64(d.stride)), i64(-d.padding_low))
        spread = i64(d.window_dilation)
        low = _least_multiple(b, b.neg(first), spread)
        high = _least_multiple(b, b.sub(i64(self._sizes[dim]), first), spread)
        high = at_most(b, high, d.size)
        low = b.select(b.icmp_signed("<", low, high), low, high)
        met = b.add(first, b.mul(low, spread))
        moves = b.mul(met, i64(axis.a)), b.mul(low, i64(axis.b)), b.mul(position, i64(axis.c))
        loop = b.sub(high, low), [d.window_dilation * axis.a, axis.b]
        return [b.add(p, m) for p, m in zip(at, moves, strict=True)], loop

    def _line(self, at: list[ir.Value], group: ir.Value, loops: Loops, begin: ir.Value, end: ir.Value) -> None:
        b, groups, width = self._b, self._problem.group.size, self._vectors * self._arithmetic.lanes
        if self._has_edges:
            self._pieces(at, group, loops)
            return
        low, high = begin, begin
        if self._rows:
            low, high = (
                within(b, begin, i64(self._low), i64(self._high)),
                within(b, end, i64(self._low), i64(self._high)),
            )
            fits = b.icmp_signed(">=", b.sub(high, low), i64(self._rows))
            low, high = b.select(fits, low, begin), b.select(fits, high, begin)
            with rolled(b, low, high, self._rows, name="places") as position:
                most = b.sub(high, i64(self._rows))
                self._some_outputs(at, group, loops, b.select(b.icmp_signed("<", position, most), position, most))
        before = b.sub(low, begin)
        with rolled(b, 0, b.add(before, b.sub(end, high)), name="place") as number:
            after = b.add(high, b.sub(number, before))
            left = at_most(b, group, groups - width)
            self._one(
                [b.add(p, left) for p in at],
                loops,
                b.select(b.icmp_signed("<", number, before), b.add(begin, number), after),
            )

    def _pieces(self, at: list[ir.Value], group: ir.Value, loops: Loops) -> None:
        """A whole line."""
        line, rows = self._outputs[-1], self._rows
        if line == rows:
            self._some_outputs(at, group, loops, i64(0), self._met(begins=True, ends=True))
            return
        self._some_outputs(at, group, loops, i64(0), self._met(begins=True, ends=False))
        with rolled(self._b, rows, line - rows, rows, name="places") as position:
            self._some_outputs(at, group, loops, position)
        self._some_outputs(at, group, loops, i64(line - rows), self._met(begins=False, ends=True))

    def _met(self, *, begins: bool, ends: bool) -> list[range]:
        """By tap along the line, the rows of a piece whose windows have it inside, where the line begins or ends."""
        d, found = self._window[-1], []
        past = int((self._outputs[-1] - 1) * d.stride - d.padding_low - self._sizes[-1] + 1)
        for tap in range(d.size):
            met = tap * d.window_dilation
            before = min(self._rows, max(0, -(-(d.padding_low - met) // d.stride))) if begins else 0
            behind = max(0, -(-(past + met) // d.stride)) if ends else 0
            found.append(range(before, max(before, self._rows - behind)))
        return found

    def _some_outputs(
        self,
        at: list[ir.Value],
        group: ir.Value,
        loops: Loops,
        position: ir.Value,
        met: Sequence[range] | None = None,
    ) -> None:
        """Some outputs of a line, a vector after the other; all windows are inside, or have taps for the rows `met`."""
        b, d, axis, arithmetic = self._b, self._window[-1], self._problem.taps[-1], self._arithmetic
        origin = d.padding_low if met is None or met[0].start == 0 else 0  # from a place that there is
        first = b.sub(b.mul(position, i64(d.stride)), i64(origin))
        moves = b.mul(first, i64(axis.a)), i64(0), b.mul(position, i64(axis.c))
        x, w, y = (b.add(p, m) for p, m in zip(at, moves, strict=True))
        inner = d.size, [d.window_dilation * axis.a, axis.b]
        sums, lanes = self._tall, arithmetic.lanes
        groups = self._problem.group.size
        end = at_most(b, b.add(group, i64(self._vectors * lanes)), groups)
        with rolled(b, group, end, lanes, name="vector") as vector:
            vector = at_most(b, vector, groups - lanes)
            sums.clear(b)

            def add(pointers: Sequence[ir.Value], rows: Sequence[int] = range(self._rows)) -> None:
                here, kernel = pointers
                taps = arithmetic.load(b, kernel, self._w.dtype, i64(0), lanes)
                places = spaced(b, here, self._x.dtype, d.stride * axis.a)
                for number, r in enumerate(rows):
                    value = arithmetic.load(b, places(number), self._x.dtype, i64(0), lanes)
                    sums.set(b, r, 0, arithmetic.multiply_add(b, value, taps, sums.get(b, r, 0)))

            def add_line(pointers: Sequence[ir.Value]) -> None:
                line, kernel = (
                    WindowPointer(p, a.dtype.bytes) for p, a in zip(pointers, (self._x, self._w), strict=True)
                )
                for tap, rows in enumerate(met or ()):
                    if rows:
                        place = rows[0] * d.stride + tap * d.window_dilation - d.padding_low + origin
                        here = line.after(b, place * axis.a), kernel.after(b, tap * axis.b)
                        add([p.pointer for p in here], rows)

            starts = self._starts(b.add(x, vector), b.add(w, vector))
            if met is None:
                walk_window(b, [*loops, inner], starts, add)
            else:
                walk_window(b, loops, starts, add_line)
            lines = spaced(
                b, element_pointer(b, self._pointers[2], self._y.dtype, b.add(y, vector)), self._y.dtype, axis.c
            )
            for r in range(self._rows):
                arithmetic.store(b, lines(r), self._y.dtype, i64(0), sums.get(b, r, 0))

    def _one(self, at: list[ir.Value], loops: Loops, position: ir.Value) -> None:
        """One output, in all its vectors."""
        b, arithmetic, sums, lanes = self._b, self._arithmetic, self._wide, self._arithmetic.lanes
        (x, w, y), inner = self._moved(len(self._window) - 1, position, at)
        sums.clear(b)

        def add(pointers: Sequence[ir.Value]) -> None:
            here, kernel = pointers
            for v in range(self._vectors):
                value = arithmetic.load(b, here, self._x.dtype, i64(v * lanes), lanes)
                tap = arithmetic.load(b, kernel, self._w.dtype, i64(v * lanes), lanes)
                sums.set(b, 0, v, arithmetic.multiply_add(b, value, tap, sums.get(b, 0, v)))

        walk_window(b, [*loops, inner], self._starts(x, w), add)
        for v in range(self._vectors):
            arithmetic.store(b, self._pointers[2], self._y.dtype, b.add(y, i64(v * lanes)), sums.get(b, 0, v))

    def _starts(self, x: ir.Value, w: ir.Value) -> list[WindowPointer]:
        pairs = zip((self._x, self._w), self._pointers, (x, w), strict=False)
        return [WindowPointer(element_pointer(self._b, p, a.dtype, at), a.dtype.bytes) for a, p, at in pairs]


def _least_multiple(b: ir.IRBuilder, value: ir.Value, divisor: ir.Value) -> ir.Value:
    """How many steps it takes to reach a value from 0."""
    value = b.select(b.icmp_signed("<", value, i64(0)), i64(0), value)
    return b.udiv(b.add(value, b.sub(divisor, i64(1))), divisor)
