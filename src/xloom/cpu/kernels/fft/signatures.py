"""What the functions are called that do phases of transforms, and what each reads of a table of numbers."""

from __future__ import annotations

from typing import NamedTuple

from llvmlite import ir

from xloom.hlo.dtype import DType
from xloom.llvm.types import I64, POINTER, VOID

PHASE = ir.FunctionType(VOID, [POINTER] * 5 + [I64] * 2)
"""void(source, target, tables, scratch, numbers, begin, end): items [begin, end) of a phase."""
TRANSFORM = ir.FunctionType(POINTER, [POINTER] * 4)
"""The result, data or spare, of (data, spare, tables, numbers): lines that lie in memory as vectors."""
STACK = (1 << 19) + (1 << 10)
"""Bytes of two buffers of points up to which they lie on the stack."""
CHUNK = 1 << 10
"""Points whose roots of unity are in one table; those of chunks are in another."""


def transform_symbol(dtype: DType, lanes: int) -> str:
    """The name of the function that transforms so many lines of any length."""
    return f"xloom_fft_{dtype.name}_{lanes}"


class LinePass(NamedTuple):
    """A pass over lines, of which `side` are side by side that have been cut to so many pieces (i64)."""

    radix: int
    side: int
    pieces: int


class LineTransform(NamedTuple):
    """What the function reads of a table, in this order; places are bytes in the array of tables."""

    n: int
    points: int
    """That passes transform, and that the memory must have room for: more than n where it is by a convolution."""
    passes: int
    rows: int
    """Where the passes are."""
    roots: int
    chirp: int = 0
    spectrum: int = 0


class LinesCode(NamedTuple):
    """What a function that transforms lines of an array depends on."""

    dtype: DType
    lanes: int
    source_tile: int
    """The sides of squares of elements in which lines become lanes; 0 where lines are neighbours."""
    target_tile: int
    backward: bool
    masked: bool
    """The last vector of lines has lanes that belong to the one before."""
    scaled: bool
    twiddled: bool
    united: bool
    halves: bool
    on_stack: bool
    """The memory for points is its own, and not the kernel's."""

    @property
    def symbol(self) -> str:
        """The function's name."""
        facts = "".join(str(int(x)) for x in self[4:])
        return f"xloom_fft_lines_{self.dtype.name}_{self.lanes}_{self.source_tile}_{self.target_tile}_{facts}"


class LinesNumbers(NamedTuple):
    """What the function reads of a table, in this order, after the numbers of a line's transform."""

    blocks: int
    """Vectors of lines in a group."""
    last: int
    """The first line of the last one."""
    half_bytes: int
    """Of memory for points: there are two such buffers."""
    source_points: int
    source_group: int
    source_point: int
    source_line: int
    target_points: int
    target_group: int
    target_point: int
    target_line: int
    scale: int = 0
    """Where the number is by which points are multiplied."""
    bits: int = 0
    """Products of a point and a line are cut in two there, of which each has a table of roots; lanes have a third."""
    low: int = 0
    high: int = 0
    near: int = 0
    united: int = 0
    """Points of what a spectrum is united to, and the roots of its columns and rows."""
    columns: int = 0
    rows: int = 0
    halves: int = 0
    """The roots by which points are separated or united."""


class WalkCode(NamedTuple):
    """What a function that walks over the points of lines does, by its name in `walk_module`, and in which type."""

    dtype: DType
    does: str

    @property
    def symbol(self) -> str:
        """The function's name."""
        return f"xloom_fft_{self.does}_{self.dtype.name}"


class WalkNumbers(NamedTuple):
    """What the function reads of a table, in this order."""

    chunks: int
    """Of a line, which has so many points: from the first one."""
    first: int
    count: int
    source_length: int
    target_length: int
    half: int
    near: int = 0
    far: int = 0
