"""Which arrays a product reads and writes, and conversions of them before and after it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from llvmlite import ir

from xloom.cpu.kernel_modules.kernel import Kernel, PhaseBuilder
from xloom.cpu.kernels.matmul.arithmetic import Arithmetic
from xloom.cpu.kernels.matmul.tile import at_most, rolled
from xloom.cpu.loops.panel_function import call_lines
from xloom.hlo.dtype import DType
from xloom.llvm.element_access import load, store
from xloom.llvm.loop import loop
from xloom.llvm.scalar.conversion import converted
from xloom.llvm.symbolic_dimension import divides
from xloom.llvm.types import constant, element_pointer, i64
from xloom.llvm.vectors import lanes_below

_RUN = 1 << 12
"""Elements that are made at once of an array that is made whole."""


@dataclass(frozen=True)
class Array:
    """A dense array of a kernel: an "operand", an "output", or "scratch" memory, by its number."""

    kind: str
    number: int
    dtype: DType
    is_made: bool = False
    """True when a function makes lines of it: then the pointer is to what `call_lines` takes."""
    has_epilogue: bool = False
    """True when a function computes the output of the sums that it is given: then the pointer is to what `call_lines`
    takes."""
    slack: int = 0
    """Elements behind its own that may be read, whatever they are."""

    def pointer(self, phase: PhaseBuilder) -> ir.Value:
        """The pointer to its elements in a phase; to the context of `call_lines` where a function makes them."""
        return getattr(phase, self.kind)(self.number)


def new_array(kernel: Kernel, dtype: DType, size: int, slack: int = 0) -> Array:
    """Scratch memory for `size` elements, and `slack` ones behind them."""
    return Array("scratch", kernel.add_scratch((max(1, size) + slack) * dtype.bytes), dtype, slack=slack)


def converted_array(kernel: Kernel, source: Array, size: int, target: Array, through: DType | None = None) -> None:
    """A phase that copies `size` elements from one array to another and converts them (first to `through`)."""
    with kernel.phase(size, 1 << 15) as phase:
        b = phase.b
        with loop(b, phase.begin, phase.end) as i:
            value, dtype = load(b, source.pointer(phase), source.dtype, i), source.dtype
            for following in (through or target.dtype, target.dtype):
                value, dtype = converted(b, value, dtype, following), following
            store(b, target.pointer(phase), target.dtype, i, value)


def stored_sums(kernel: Kernel, arithmetic: Arithmetic, sums: Array, size: int, target: Array) -> None:
    """A phase that stores sums in a narrower type."""
    if arithmetic.stores(target.dtype):
        _copied(kernel, arithmetic, sums, target, size)
    else:
        converted_array(kernel, sums, size, target)


def widened_array(kernel: Kernel, wide: Arithmetic, source: Array, size: int) -> Array:
    """A copy of `size` elements in the type of `wide`, which an additional phase makes."""
    copy = new_array(kernel, wide.dtype, size)
    _copied(kernel, wide, source, copy, size)
    return copy


def _copied(kernel: Kernel, arithmetic: Arithmetic, source: Array, target: Array, size: int) -> None:
    """A phase that copies `size` elements by vectors, of types that the arithmetic loads and stores."""
    with by_vectors(kernel, arithmetic, size) as (phase, at, mask):
        value = arithmetic.load(phase.b, source.pointer(phase), source.dtype, at, arithmetic.lanes, mask)
        arithmetic.store(phase.b, target.pointer(phase), target.dtype, at, value, mask)


@contextmanager
def by_vectors(
    kernel: Kernel, arithmetic: Arithmetic, size: int
) -> Iterator[tuple[PhaseBuilder, ir.Value, ir.Value | None]]:
    """A phase over `size` elements; yields it where a vector is done, with the first element and which lanes it has."""
    lanes = arithmetic.lanes
    with kernel.phase(-(-size // lanes), (1 << 15) // lanes) as phase:
        b = phase.b
        with rolled(b, phase.begin, phase.end) as item:
            at = b.mul(item, i64(lanes))
            yield phase, at, None if divides(lanes, size) else lanes_below(b, lanes, b.sub(i64(size), at))


def readable(kernel: Kernel, arithmetic: Arithmetic, source: Array, size: int, through: DType | None = None) -> Array:
    """The array itself when the product can load it, or a converted copy that an additional phase makes."""
    if through in (None, source.dtype) and arithmetic.loads(source.dtype):
        return source
    source = made_whole(kernel, source, size)
    copy = new_array(kernel, arithmetic.dtype, size)
    converted_array(kernel, source, size, copy, through)
    return copy


def made_whole(kernel: Kernel, array: Array, size: int) -> Array:
    """The array in memory: a made one is computed by an additional phase."""
    if not array.is_made:
        return array
    copy = new_array(kernel, array.dtype, size)
    _called_on_runs(kernel, array, size, copy)
    return copy


def given_whole(kernel: Kernel, sums: Array, size: int, target: Array) -> None:
    """A phase that gives sums, which are in memory, to the epilogue of the output."""
    _called_on_runs(kernel, target, size, sums)


def _called_on_runs(kernel: Kernel, called: Array, size: int, other: Array) -> None:
    """A phase that calls the function of an array on runs of another one, which lies whole in memory."""
    with kernel.phase(-(-size // _RUN), 1 << 15 // _RUN) as phase:
        b = phase.b
        with rolled(b, phase.begin, phase.end) as item:
            first = b.mul(item, i64(_RUN))
            length = at_most(b, b.sub(i64(size), first), _RUN)
            run = element_pointer(b, other.pointer(phase), other.dtype, first)
            call_lines(b, called.pointer(phase), [run, i64(0), first, i64(0), i64(1), length])


def cleared(kernel: Kernel, array: Array, size: int) -> None:
    """A phase that sets all elements to zero."""
    with kernel.phase(size, 1 << 15) as phase, loop(phase.b, phase.begin, phase.end) as i:
        store(phase.b, array.pointer(phase), array.dtype, i, constant(0, array.dtype))
