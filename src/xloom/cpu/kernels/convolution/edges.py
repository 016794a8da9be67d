"""Tiles whose windows reach past the edges of the input: what they meet is copied to the stack, zeros around it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from math import prod
from typing import NamedTuple

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import PhaseBuilder
from xloom.cpu.kernels.convolution.geometry import Convolution
from xloom.cpu.kernels.convolution.padding import unconverted
from xloom.cpu.kernels.convolution.tiling import Tiling
from xloom.cpu.kernels.matmul.operands import Array
from xloom.cpu.kernels.matmul.tile import rolled
from xloom.llvm.loop import allocate
from xloom.llvm.symbolic_dimension import SymbolicDimension
from xloom.llvm.types import I1, I8, I32, I64, POINTER, i64
from xloom.llvm.vectors import constant_vector, splat

_STACK_BYTES = 1 << 18
"""Of a copy at most."""

_MOST_GROUPS = 8
"""Of more, lines are too long: each group copies those of all."""


class _Outer(NamedTuple):
    """A spatial dimension of which a tile has one position: that of the input where its taps begin."""

    dim: int
    size: int | SymbolicDimension
    taps: int
    input: int | SymbolicDimension
    """From a tap to the next, in elements of the input."""
    tap_stride: int
    """The same in positions."""


class Edges(NamedTuple):
    """How a tile's window is copied: lines of adjacent positions along one dimension, for the taps of the others."""

    outer: tuple[_Outer, ...]
    dim: int
    """The number of the lines' dimension."""
    size: int | SymbolicDimension
    positions: int
    """Of a line, that are met."""
    stride: int | SymbolicDimension
    features: int | SymbolicDimension

    @property
    def line(self) -> int | SymbolicDimension:
        """Elements of a line in the copy."""
        return (self.positions - 1) * self.stride + self.features

    def tap_stride(self, number: int) -> int | SymbolicDimension:
        """Elements of the copy from a tap of outer dimension `number` to the next."""
        return self.line * prod(o.taps for o in self.outer[number + 1 :])


def edges_of(problem: Convolution, chosen: Tiling, sizes: Sequence[int | SymbolicDimension], x: Array) -> Edges | None:
    """How to copy what tiles meet of an input with these spatial sizes; None where all of it is better copied before.

    That is where features do not lie together, where tiles do not lie along lines, and where they meet much.
    """
    strides = [t.a for t in problem.taps]
    along, features = chosen.rows.dim, problem.feature.size
    if chosen.name == "channels":
        features *= problem.group.size  # of which a tile meets some, and those beside it the others
    if problem.group.size > _MOST_GROUPS and chosen.name == "features":
        return None
    if chosen.name == "spatial" or along is None or problem.feature.a != 1 or strides[along] != min(strides):
        return None
    if strides[along] < features:  # of a dimension of one element
        return None
    taps = [max(c.taps for c in dim.classes) for dim in problem.dims]
    outer = tuple(
        _Outer(k, sizes[k], taps[k], dim.tap_input_stride * strides[k], dim.tap_input_stride)
        for k, dim in enumerate(problem.dims)
        if k != along
    )
    dim = problem.dims[along]
    positions = (chosen.tile.rows - 1) * dim.input_stride + (taps[along] - 1) * dim.tap_input_stride + 1
    edges = Edges(outer, along, sizes[along], positions, strides[along], features)
    return edges if edges.line * prod(o.taps for o in outer) * x.dtype.bytes <= _STACK_BYTES else None


class CopiedWindow:
    """The memory for the copies, in a phase."""

    def __init__(self, phase: PhaseBuilder, edges: Edges, problem: Convolution, chosen: Tiling, x: Array):
        self._b, self._edges, self._problem, self._x = phase.b, edges, problem, x
        self._arithmetic, self._dtype = unconverted(chosen.tile.arithmetic, x.dtype)
        self._source = x.pointer(phase)
        past = 2 * phase.kernel.target.registers.nbytes  # complex numbers are in two vectors
        self._copy = allocate(phase.b, I8, _STACK_BYTES + past)
        self._copy.align, self._copy.type = 64, POINTER
        self._held = allocate(phase.b, I64)
        phase.b.store(I64(-1), self._held)

    def locate(
        self, number: ir.Value, at: ir.Value, first: Sequence[ir.Value]
    ) -> tuple[ir.Value, ir.Value, dict[int, ir.Value]]:
        """From where, and from which element on, to read a tile's window; and the steps of the outer dimensions' taps.

        In the input it begins at element `at`, at the positions `first` of the spatial dimensions. Tiles of one
        `number` have one window.
        """
        b, edges = self._b, self._edges
        outside = self._reaches_out(first[edges.dim], edges.dim, edges.positions - 1, edges.size)
        for o in edges.outer:
            outside = b.or_(outside, self._reaches_out(first[o.dim], o.dim, (o.taps - 1) * o.tap_stride, o.size))
        with b.if_then(b.and_(outside, b.icmp_unsigned("!=", number, b.load(self._held, typ=I64)))):
            self._fill(at, first)
            b.store(number, self._held)
        tap_strides = {
            o.dim: b.select(outside, i64(edges.tap_stride(k)), i64(o.input)) for k, o in enumerate(edges.outer)
        }
        return b.select(outside, self._copy, self._source), b.select(outside, i64(0), at), tap_strides

    def _reaches_out(self, first: ir.Value, number: int, extent: int, size: int | SymbolicDimension) -> ir.Value:
        b, dim = self._b, self._problem.dims[number]
        if dim.low >= 0 and dim.high < size:
            return I1(0)
        end = b.add(first, i64(extent))
        return b.or_(b.icmp_signed("<", first, i64(0)), b.icmp_signed(">=", end, i64(size)))

    def _fill(self, at: ir.Value, first: Sequence[ir.Value]) -> None:
        """Line by line in vectors, of which the next line overwrites what is behind the end of one."""
        b, edges, dtype = self._b, self._edges, self._dtype
        lanes = self._arithmetic.lanes
        numbers = constant_vector(list(range(lanes)))
        target: ir.Value = i64(0)
        present: ir.Value = I1(1)
        with ExitStack() as loops:
            for k, o in enumerate(edges.outer):
                tap = loops.enter_context(rolled(b, 0, o.taps, name="tap"))
                position = b.add(first[o.dim], b.mul(tap, i64(o.tap_stride)))
                present = b.and_(present, b.icmp_unsigned("<", position, i64(o.size)))
                at = b.add(at, b.mul(tap, i64(o.input)))
                target = b.add(target, b.mul(tap, i64(edges.tap_stride(k))))
            begin = first[edges.dim]
            low, high = (self._inside(x) for x in (b.neg(begin), b.sub(i64(edges.size), begin)))
            low, high = (b.select(present, b.mul(x, i64(edges.stride)), i64(0)) for x in (low, high))
            high = b.sub(high, i64(edges.stride - edges.features))
            low, high = (splat(b, b.trunc(x, I32), lanes) for x in (low, high))
            # masked elements are not read, but processors take long to see that where there is no memory
            source, at = b.select(present, self._source, self._copy), b.select(present, at, i64(0))
            with rolled(b, 0, edges.line, lanes, name="vector") as i:
                here = b.add(splat(b, b.trunc(i, I32), lanes), numbers)
                mask = b.and_(b.icmp_signed(">=", here, low), b.icmp_signed("<", here, high))
                value = self._arithmetic.load(b, source, dtype, b.add(at, i), lanes, mask)
                self._arithmetic.store(b, self._copy, dtype, b.add(target, i), value)

    def _inside(self, position: ir.Value) -> ir.Value:
        """The nearest position of a line."""
        b, most = self._b, i64(self._edges.positions)
        position = b.select(b.icmp_signed("<", position, i64(0)), i64(0), position)
        return b.select(b.icmp_signed("<", position, most), position, most)
