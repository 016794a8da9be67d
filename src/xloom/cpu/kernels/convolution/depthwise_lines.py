"""Lines of the output of a convolution of one feature a group: a vector is an element of as many groups.

Places along a line are computed some at a time, and place by place of the input: each vector of it is loaded once,
though several outputs meet it, and the taps wait in registers. Which taps the first and the last places of a line lack,
and which fall between elements of a spread input, is known when the code is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from xloom.cpu.kernels.convolution.geometry import Convolution
from xloom.cpu.kernels.convolution.window_pointers import Loops, WindowPointer, walk_window
from xloom.cpu.kernels.matmul.arithmetic import Arithmetic, Parts
from xloom.cpu.kernels.matmul.operands import Array
from xloom.cpu.kernels.matmul.tile import Sums, Tile, rolled, share, spaced
from xloom.hlo.attributes import Window
from xloom.llvm.routine import within
from xloom.llvm.symbolic_dimension import greatest, least
from xloom.llvm.types import element_pointer, i64

_MOST_ROWS = 14
_LEAST_ROWS = 2
_MOST_SUMS = 16
"""Of several vectors of groups: so many are enough, that multiply-adds need not wait for each other."""
_FEWEST_TAPS = 3
"""That wait in registers, or all of a line, where several vectors are computed at once."""
_LINE = 64
"""Places of an item of a single line, about."""
_MOST_PRODUCTS = 512
"""Of some places with a line of taps, each of which is an instruction."""


TapBlock = tuple[ir.Value, ir.Value]
"""The first tap of a dimension, and the one after the last."""


def are_side_by_side(arithmetic: Arithmetic, problem: Convolution) -> bool:
    """True where groups of one output each fill vectors, and are adjacent in all three arrays."""
    if arithmetic.parts > 1 or not problem.taps or problem.output.size != 1:
        return False
    group = problem.group
    return group.a == group.b == group.c == 1 and not group.size < arithmetic.lanes


class DepthwiseLines:
    """How lines are computed, and the code for it; `strides` has a problem's strides in the arrays that are read.

    `vectors` are how many lie side by side.
    """

    def __init__(
        self, arithmetic: Arithmetic, problem: Convolution, window: Window, sizes: Sequence[Any], vectors: int
    ):
        self._arithmetic, self._problem, self._window, self._sizes = arithmetic, problem, window, sizes
        self.outputs = [sum(c.count for c in d.classes) for d in problem.dims]
        self.vectors = vectors
        line, last = self.outputs[-1], window[-1]
        self._dilated = (sizes[-1] - 1) * last.base_dilation + 1
        self._low = least(line, greatest(0, -(-last.padding_low // last.stride)))
        past = (self._dilated + last.padding_low - last.dilated_size) // last.stride + 1
        self._past = least(line, past)
        self._high = greatest(self._low, self._past)
        self.length = share(line, _LINE if len(self.outputs) == 1 else line)
        registers = arithmetic.target.registers.count
        held = registers - last.size - 1  # beside all taps of a line
        most_rows = min(held, _MOST_ROWS) if 2 * held >= _MOST_ROWS else _MOST_ROWS
        rows = 0
        if len(self.outputs) > 1:
            rows = self._rows_between_edges(line, most_rows) or self._rows_between_edges(line, _MOST_ROWS)
        self._has_edges = rows > 0
        if not rows and last.base_dilation == 1:
            most = least(self._high - self._low, self.length)
            rows = 0 if most < _LEAST_ROWS else most_rows if most >= most_rows else int(most)
        self._rows = rows

        def taps_beside(beside: int) -> int:
            return (registers - 1) // beside - rows - 1

        self.beside = next(
            n
            for n in (4, 2, 1)
            if n == 1
            or (0 < n * rows <= _MOST_SUMS and vectors % n == 0 and taps_beside(n) >= min(last.size, _FEWEST_TAPS))
        )
        self._taps = share(last.size, max(1, taps_beside(self.beside)))

    @property
    def serves(self) -> bool:
        """False where it is too much code, most of a line is at its edges, or taps and elements are spread at once."""
        if self._rows * self._window[-1].size > _MOST_PRODUCTS:
            return False
        if not self._has_edges and self.outputs[-1] >= _LEAST_ROWS:
            inside = self._high - self._low if self._rows else 0
            if 2 * inside < self.outputs[-1]:
                return False
        return all(d.base_dilation == 1 or d.window_dilation == 1 for d in self._window)

    def _rows_between_edges(self, line: Any, most: int) -> int:
        """Of pieces of a line of which the first alone has windows that reach out in front, the last behind; or 0."""
        spread, stride = self._window[-1].base_dilation, self._window[-1].stride
        if line < _LEAST_ROWS or (self._low <= 0 and self._high >= line and spread == 1):
            return 0
        rows = share(line, most)
        if rows < line and (
            rows < self._low
            or (line - 1) // rows * rows > self._high
            or rows > self._past  # the first reaches out behind, too
            or line - rows < self._low  # the last reaches out in front, too
            or int(rows) * stride % spread != 0
        ):
            return 0
        return int(rows)

    def begin(
        self,
        b: ir.IRBuilder,
        arrays: Sequence[Array],
        pointers: Sequence[ir.Value],
        apart: Sequence[Any],
        *,
        adds: bool = False,
    ) -> None:
        """Goes on to emit with a builder, for input, kernel and output, in which vectors lie so far apart.

        It `adds` to what the output holds, or writes it.
        """
        self._b, self._arrays, self._pointers, self._apart, self._adds = b, arrays, pointers, apart, adds
        self._tall = Sums(b, Tile(self._arithmetic, self._rows, self.beside, self._arithmetic.lanes))
        self._wide = Sums(b, Tile(self._arithmetic, 1, self.beside, self._arithmetic.lanes))

    def line(
        self,
        at: Sequence[ir.Value],
        positions: Sequence[ir.Value],
        begin: ir.Value,
        end: ir.Value,
        block: TapBlock | None = None,
    ) -> None:
        """Outputs [begin, end) of the line at `positions` of the outer dimensions, of `beside` vectors.

        Elements of the three arrays lie at the offsets `at` and strides of their own from there on. With a `block`,
        only those taps of the first dimension, which is not the last one, nor spread.
        """
        b, feature = self._b, self._problem.feature
        loops: list[Any] = [] if feature.size == 1 else [(feature.size, [feature.a, feature.b])]
        for dim, position in enumerate(positions):
            at, taps = self._moved(dim, position, at, block if dim == 0 else None)
            loops.append(taps)
        if self._has_edges:
            self._pieces(at, loops)
            return
        low, high = begin, begin
        if self._rows:
            low, high = (within(b, x, i64(self._low), i64(self._high)) for x in (begin, end))
            fits = b.icmp_signed(">=", b.sub(high, low), i64(self._rows))
            low, high = b.select(fits, low, begin), b.select(fits, high, begin)
            with rolled(b, low, high, self._rows, name="places") as position:
                most = b.sub(high, i64(self._rows))
                position = b.select(b.icmp_signed("<", position, most), position, most)
                self._some_outputs(at, loops, position, self._met())
        before = b.sub(low, begin)
        with rolled(b, 0, b.add(before, b.sub(end, high)), name="place") as number:
            after = b.add(high, b.sub(number, before))
            self._one(at, loops, b.select(b.icmp_signed("<", number, before), b.add(begin, number), after))

    def _moved(
        self, dim: int, position: ir.Value, at: Sequence[ir.Value], block: TapBlock | None = None
    ) -> tuple[list[ir.Value], tuple[ir.Value, list[Any]]]:
        """The first elements that outputs at a position of a dimension meet, and the loop over its taps."""
        b, d, axis = self._b, self._window[dim], self._problem.taps[dim]
        first = b.add(b.mul(position, i64(d.stride)), i64(-d.padding_low))
        if d.base_dilation == 1:
            spread = i64(d.window_dilation)
            begin, end = (i64(0), i64(d.size)) if block is None else block
            low = within(b, _least_multiple(b, b.neg(first), spread), begin, end)
            high = within(b, _least_multiple(b, b.sub(i64(self._sizes[dim]), first), spread), low, end)
            met = b.add(first, b.mul(low, spread))
            taps, steps = b.sub(high, low), [d.window_dilation * axis.a, axis.b]
        else:
            spread = i64(d.base_dilation)
            met = _least_multiple(b, first, spread)
            low = b.sub(b.mul(met, spread), first)
            taps = _least_multiple(b, b.sub(i64(d.size), low), spread)
            there = b.sub(i64(self._sizes[dim]), met)
            taps = b.select(b.icmp_signed("<", taps, there), taps, there)
            steps = [axis.a, d.base_dilation * axis.b]
        moves = b.mul(met, i64(axis.a)), b.mul(low, i64(axis.b)), b.mul(position, i64(axis.c))
        return [b.add(p, m) for p, m in zip(at, moves, strict=True)], (taps, steps)

    def _pieces(self, at: Sequence[ir.Value], loops: Loops) -> None:
        """A whole line."""
        line, rows = self.outputs[-1], self._rows
        if line == rows:
            self._some_outputs(at, loops, i64(0), self._met(begins=True, ends=True))
            return
        self._some_outputs(at, loops, i64(0), self._met(begins=True))
        with rolled(self._b, rows, line - rows, rows, name="places") as position:
            self._some_outputs(at, loops, position, self._met())
        self._some_outputs(at, loops, i64(line - rows), self._met(ends=True))

    def _met(self, *, begins: bool = False, ends: bool = False) -> list[list[tuple[int, int]]]:
        """By tap, the rows of a piece that meet an element, and which one from its first; where lines begin or end."""
        d, found = self._window[-1], []
        first = (self.outputs[-1] - self._rows) * d.stride if ends else 0
        room = int(self._dilated + d.padding_low - first) if ends else 0
        over = int(first % d.base_dilation) if d.base_dilation > 1 else 0
        for tap in range(d.size):
            met = []
            for row in range(self._rows):
                place = row * d.stride + tap * d.window_dilation
                element, between = divmod(over + place - d.padding_low, d.base_dilation)
                if not between and (not begins or place >= d.padding_low) and (not ends or place < room):
                    met.append((row, element))
            found.append(met)
        return found

    def _some_outputs(
        self, at: Sequence[ir.Value], loops: Loops, position: ir.Value, met: Sequence[Sequence[tuple[int, int]]]
    ) -> None:
        """Some outputs of a line, of windows whose taps are `met`."""
        b, d, axis, sums = self._b, self._window[-1], self._problem.taps[-1], self._tall
        origin = min((element for rows in met for _, element in rows), default=0)  # a place that there is
        first = b.mul(position, i64(d.stride))
        first = first if d.base_dilation == 1 else b.udiv(first, i64(d.base_dilation))
        moves = b.mul(b.add(first, i64(origin)), i64(axis.a)), i64(0), b.mul(position, i64(axis.c))
        x, w, y = (b.add(p, m) for p, m in zip(at, moves, strict=True))
        array, stride = self._arrays[2], self._apart[2]
        lines = spaced(b, element_pointer(b, self._pointers[2], array.dtype, y), array.dtype, axis.c)
        for row in range(self._rows):
            for v, value in enumerate(self._before(lines(row))):
                sums.set(b, row, v, value)

        def add(pointers: Sequence[ir.Value]) -> None:
            for begin in range(0, d.size, self._taps):
                self._add(pointers, {k: met[k] for k in range(begin, min(begin + self._taps, d.size))}, origin)

        walk_window(b, loops, self._starts(x, w), add)
        for row in range(self._rows):
            for v in range(self.beside):
                self._arithmetic.store(b, lines(row), array.dtype, i64(v * stride), sums.get(b, row, v))

    def _add(self, pointers: Sequence[ir.Value], met: dict[int, Sequence[tuple[int, int]]], origin: int) -> None:
        """Adds the products of some taps, with elements from `origin` on."""
        b, axis, sums = self._b, self._problem.taps[-1], self._tall
        users: dict[int, list[tuple[int, int]]] = {}
        for tap, rows in met.items():
            for row, element in rows:
                users.setdefault(element, []).append((row, tap))
        if not users:
            return
        least_tap, least_element = min(tap for tap, rows in met.items() if rows), min(users)
        line, kernel = (WindowPointer(p, a.dtype.bytes) for p, a in zip(pointers, self._arrays, strict=False))
        places = spaced(b, line.after(b, (least_element - origin) * axis.a).pointer, self._arrays[0].dtype, axis.a)
        taps = spaced(b, kernel.after(b, least_tap * axis.b).pointer, self._arrays[1].dtype, axis.b)
        weights = {tap: self._load(1, taps(tap - least_tap)) for tap, rows in met.items() if rows}
        for element in sorted(users):
            values = self._load(0, places(element - least_element))
            for row, tap in users[element]:
                for v, (value, weight) in enumerate(zip(values, weights[tap], strict=True)):
                    sums.set(b, row, v, self._arithmetic.multiply_add(b, value, weight, sums.get(b, row, v)))

    def _load(self, number: int, pointer: ir.Value) -> list[Parts]:
        """The vectors at a pointer to elements of an array."""
        b, dtype, apart = self._b, self._arrays[number].dtype, self._apart[number]
        return [
            self._arithmetic.load(b, pointer, dtype, i64(v * apart), self._arithmetic.lanes) for v in range(self.beside)
        ]

    def _one(self, at: Sequence[ir.Value], loops: Loops, position: ir.Value) -> None:
        """One output."""
        b, sums = self._b, self._wide
        (x, w, y), inner = self._moved(len(self._window) - 1, position, at)
        to = element_pointer(b, self._pointers[2], self._arrays[2].dtype, y)
        for v, value in enumerate(self._before(to)):
            sums.set(b, 0, v, value)

        def add(pointers: Sequence[ir.Value]) -> None:
            values, taps = (self._load(number, pointer) for number, pointer in enumerate(pointers))
            for v, (value, tap) in enumerate(zip(values, taps, strict=True)):
                sums.set(b, 0, v, self._arithmetic.multiply_add(b, value, tap, sums.get(b, 0, v)))

        walk_window(b, [*loops, inner], self._starts(x, w), add)
        for v in range(self.beside):
            self._arithmetic.store(b, to, self._arrays[2].dtype, i64(v * self._apart[2]), sums.get(b, 0, v))

    def _before(self, pointer: ir.Value) -> list[Parts]:
        """What products are added to, at a pointer to elements of the output."""
        if self._adds:
            return self._load(2, pointer)
        return [self._arithmetic.zero(self._arithmetic.lanes)] * self.beside

    def _starts(self, x: ir.Value, w: ir.Value) -> list[WindowPointer]:
        pairs = zip(self._arrays, self._pointers, (x, w), strict=False)
        return [WindowPointer(element_pointer(self._b, p, a.dtype, at), a.dtype.bytes) for a, p, at in pairs]


def _least_multiple(b: ir.IRBuilder, value: ir.Value, divisor: ir.Value) -> ir.Value:
    """How many steps it takes to reach a value from 0."""
    value = b.select(b.icmp_signed("<", value, i64(0)), i64(0), value)
    return b.udiv(b.add(value, b.sub(divisor, i64(1))), divisor)
