"""A function that makes outputs NaN whose zeros meet what is not finite in the kernel, for windows of any numbers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from math import nan

from llvmlite import ir

from xloom.cpu.emit.folding import FoldingBuilder
from xloom.cpu.emit.loop import allocate
from xloom.cpu.emit.types import I1, I64, POINTER, VOID, constant, store
from xloom.cpu.kernels.matmul.arithmetic import Arithmetic, Parts, accumulator
from xloom.cpu.kernels.matmul.tile import rolled
from xloom.hlo.dtype import DType

ROUTINE = ir.FunctionType(VOID, [POINTER, POINTER, POINTER, I64, I64])
"""`f(ptr numbers, ptr w, ptr y, i64 begin, i64 end)`: items [begin, end), a vector of features each."""
NUMBERS = ("features", "inputs", "images", "w_base", "w_feature", "w_input", "y_feature", "y_image", "is_seen")
"""What is passed (i64): how many there are, and how far apart they lie in kernel and output."""
PLACE_NUMBERS = (
    "size", "w", "y", "stride", "spread", "before", "extent", "dilation", "outputs", "seen", "seen_end",
)  # fmt: skip
"""And then of each spatial dimension, which outputs to look at before the kernel is read included."""


@dataclass(frozen=True)
class Spoiling:
    """What the function knows: types, the number of spatial dimensions, how many features it reads as a vector."""

    w: DType
    y: DType
    rank: int
    lanes: int
    """Of the kernel, which are those of an item."""
    y_lanes: int
    is_dilated: bool
    """Whether there are zeros between elements."""

    @property
    def symbol(self) -> str:
        """The function's name."""
        parts = "dilated" if self.is_dilated else "dense", self.w.name, self.y.name, self.rank, self.lanes, self.y_lanes
        return ".".join(map(str, ("xloom.convolution.zeros", *parts)))

    def text(self) -> str:
        """A module that has it."""
        return _text(self)


@lru_cache(maxsize=32)
def _text(key: Spoiling) -> str:
    module = ir.Module()
    function = ir.Function(module, ROUTINE, key.symbol)
    function.attributes.add("nounwind")
    for pointer in function.args[:3]:
        pointer.add_attribute("noalias")
    b = FoldingBuilder(function.append_basic_block("entry"))
    start = function.append_basic_block("start")
    b.position_at_end(start)
    _Emission(key, b).emit()
    b.ret_void()
    b.position_at_end(function.entry_basic_block)
    b.branch(start)
    return str(module)


class _Emission:
    def __init__(self, key: Spoiling, b: ir.IRBuilder):
        self._key, self._b, self._arithmetic = key, b, Arithmetic(accumulator(key.y))
        self._numbers, self._w, self._y, self._begin, self._end = b.function.args

    def _number(self, name: str, dim: int | None = None) -> ir.Value:
        b = self._b
        k = NUMBERS.index(name) if dim is None else PLACE_NUMBERS.index(name) + len(NUMBERS) + dim * len(PLACE_NUMBERS)
        return b.load(b.gep(self._numbers, [I64(k)], inbounds=True, source_etype=I64), typ=I64)

    def emit(self) -> None:
        b, key = self._b, self._key
        last = b.sub(self._number("features"), I64(key.lanes))
        is_seen = b.icmp_signed("!=", self._number("is_seen"), I64(0))
        across = self._number("y_feature")
        seen = [[self._number(name, dim) for name in ("seen", "seen_end", "y")] for dim in range(key.rank)]
        with rolled(b, self._begin, self._end, name="features") as item:
            first = b.mul(item, I64(key.lanes))
            first = b.select(b.icmp_signed("<", first, last), first, last)
            found = _Mask(b, key.y_lanes)
            with b.if_then(is_seen):
                self._look(first, found, across, seen)
            with b.if_then(b.or_(b.not_(is_seen), found.any())):
                self._read(first)

    def _look(self, first: ir.Value, found: _Mask, across: ir.Value, seen: Sequence[Sequence[ir.Value]]) -> None:
        """Which of some outputs are not finite."""
        b, key = self._b, self._key
        with ExitStack() as loops:
            lane = loops.enter_context(rolled(b, 0, key.lanes, key.y_lanes, name="lane"))
            at = b.mul(b.add(first, lane), across)
            for begin, end, step in seen:
                at = b.add(at, b.mul(loops.enter_context(rolled(b, begin, end, name="seen")), step))
            found.add(self._arithmetic.load(b, self._y, key.y, at, key.y_lanes))

    def _read(self, first: ir.Value) -> None:
        """Looks for what is not finite in the kernel of some features, a place of the window after the other."""
        b, key = self._b, self._key
        with ExitStack() as loops:
            taps = []
            at = b.add(self._number("w_base"), b.mul(first, self._number("w_feature")))
            for dim in range(key.rank):
                taps.append(loops.enter_context(rolled(b, 0, self._number("size", dim), name="tap")))
                at = b.add(at, b.mul(taps[-1], self._number("w", dim)))
            found, step = _Mask(b, key.lanes), self._number("w_input")
            with rolled(b, 0, self._number("inputs"), name="input") as k:
                here = b.add(at, b.mul(k, step))
                found.add(self._arithmetic.load(b, self._w, key.w, here, key.lanes))
            with b.if_then(found.any()), rolled(b, 0, key.lanes, name="lane") as lane, b.if_then(found.at(lane)):
                self._spoil(taps, b.add(first, lane))

    def _spoil(self, taps: Sequence[ir.Value], feature: ir.Value) -> None:
        """Makes a feature NaN wherever a place of the window meets no element."""
        b, key = self._b, self._key
        inside: ir.Value = I1(1)
        with ExitStack() as loops:
            at = b.mul(feature, self._number("y_feature"))
            for dim, tap in enumerate(taps):
                stride, extent, dilation, y = (self._number(n, dim) for n in ("stride", "extent", "dilation", "y"))
                first = b.sub(b.mul(tap, self._number("spread", dim)), self._number("before", dim))
                output = loops.enter_context(rolled(b, 0, self._number("outputs", dim), name="output"))
                place = b.add(first, b.mul(output, stride))
                inside = b.and_(inside, b.icmp_unsigned("<", place, extent))
                if key.is_dilated:
                    inside = b.and_(inside, b.icmp_signed("==", b.urem(place, dilation), I64(0)))
                at = b.add(at, b.mul(output, y))
            with b.if_then(b.not_(inside)), rolled(b, 0, self._number("images"), name="image") as image:
                to = b.add(at, b.mul(image, self._number("y_image")))
                value = complex(nan, nan) if key.y.is_complex else nan
                store(b, self._y, key.y, to, constant(value, key.y))


class _Mask:
    """The lanes of which something is not finite; none at first."""

    def __init__(self, b: ir.IRBuilder, lanes: int):
        self._b, self._lanes = b, lanes
        self._kind = I1 if lanes == 1 else ir.VectorType(I1, lanes)
        self._memory = allocate(b, self._kind)
        b.store(ir.Constant(self._kind, None), self._memory)

    def add(self, value: Parts) -> None:
        """Those of a value, too."""
        b = self._b
        differences = [b.fsub(x, x) for x in value]  # NaN of what is not finite, else 0
        found = b.fcmp_unordered("uno", differences[0], differences[-1])
        b.store(b.or_(self._get(), found), self._memory)

    def any(self) -> ir.Value:
        """Whether there are any."""
        if self._lanes == 1:
            return self._get()
        bits = ir.IntType(self._lanes)
        return self._b.icmp_unsigned("!=", self._b.bitcast(self._get(), bits), bits(0))

    def at(self, lane: ir.Value) -> ir.Value:
        """Whether a lane is one of them."""
        return self._get() if self._lanes == 1 else self._b.extract_element(self._get(), lane)

    def _get(self) -> ir.Value:
        return self._b.load(self._memory, typ=self._kind)
