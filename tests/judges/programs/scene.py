"""A computation under construction: the values made so far, and how a new instruction finds its operands."""

from __future__ import annotations

import enum
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.judges.programs.numbers import random_array
from xloom.hlo.builder import Builder, ComputationBuilder
from xloom.hlo.dtype import DTYPES, DType, pred
from xloom.hlo.instruction import Instruction
from xloom.hlo.literal import literal
from xloom.hlo.shape import Shape

MOST_ELEMENTS = 400
_SIZES = (1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 16, 17, 33, 64)

FLOATS = ("f32", "f64", "bf16", "f16")
NARROW_FLOATS = ("f8e4m3fn", "f8e5m2", "f8e4m3b11fnuz", "f8e4m3", "f8e3m4", "f8e5m2fnuz", "f8e4m3fnuz")
COMPLEX = ("c64", "c128")
INTEGERS = ("s8", "s16", "s32", "s64", "u8", "u16", "u32", "u64")
SIGNED = ("s4", "s8", "s16", "s32", "s64")
TINY_INTEGERS = ("s4", "u4")
_COMMON = {"f32": 12, "s32": 5, "pred": 3, "f64": 4, "bf16": 4, "f16": 3, "c64": 2, "u8": 2, "s8": 2, "u32": 2}


class Bits(enum.IntEnum):
    """How much of a value the language fixes."""

    GIVEN = 0  # every bit, NaN payloads included: an input, an integer, or either moved
    EXACT = 1  # the number, but not which NaN
    ROUNDED = 2  # the number up to rounding: integers never are


@dataclass(eq=False)
class Value:
    """An instruction's array, and how exact it is."""

    instruction: Instruction
    bits: Bits

    @property
    def shape(self) -> Shape:
        """Its shape."""
        return self.instruction.shape

    @property
    def dtype(self) -> DType:
        """Its element type."""
        return self.instruction.shape.dtype


class Scene:
    """The values of one computation. Only the entry's has `arguments`: it may add parameters."""

    def __init__(self, builder: ComputationBuilder, module: Builder, chance: random.Random, depth: int = 0):
        self.builder = builder
        self.module = module
        self.chance = chance
        self.numbers = np.random.default_rng(chance.getrandbits(64))
        self.depth = depth
        self.values: list[Value] = []
        self.arguments: list[np.ndarray] = []
        self.special = chance.choice((0, 0, 0.05, 0.3))
        self.usual: list[tuple[int, ...]] = []  # shapes that come back, so that values meet

    # -- choices -------------------------------------------------------------------------------------------------

    def flip(self, probability: float) -> bool:
        """True with that probability."""
        return self.chance.random() < probability

    def dtype(self, *names: str) -> DType:
        """One of the named element types (default: any), common ones more often."""
        pool = names or (*_COMMON, "s16", "u16", "s64", "u64", "c128", *TINY_INTEGERS, *NARROW_FLOATS[:2])
        return DTYPES[self.chance.choices(pool, [_COMMON.get(n, 1) for n in pool])[0]]

    def dims(self, rank: int | None = None, most: int = MOST_ELEMENTS, empty: bool = True) -> tuple[int, ...]:
        """Random dimensions of at most `most` elements, often ones used before; now and then one is 0."""
        known = [d for d in self.usual if (rank is None or len(d) == rank) and math.prod(d) <= most]
        if known and self.flip(0.6):
            return self.chance.choice(known)
        if rank is None:
            rank = self.chance.choices(range(6), (2, 5, 6, 4, 2, 1))[0]
        dims: list[int] = []
        for _ in range(rank):
            room = max(1, most // max(1, math.prod(dims)))
            dims.append(self.chance.choice([s for s in _SIZES if s <= room]))
        self.chance.shuffle(dims)
        if dims and empty and self.flip(0.03):
            dims[self.chance.randrange(rank)] = 0
        elif len(self.usual) < 3:
            self.usual.append(tuple(dims))
        return tuple(dims)

    # -- operands ------------------------------------------------------------------------------------------------

    def pick(
        self,
        accept: Callable[[Value], bool],
        shape: Callable[[], Shape],
        exact: Bits = Bits.ROUNDED,
        reuse: float = 0.85,
    ) -> Value:
        """A value that `accept` likes and that is at least as exact as `exact`; or a new one of `shape()`."""
        fitting = [v for v in self.values if v.bits <= exact and accept(v)]
        if fitting and self.flip(reuse):
            recent = fitting[-3:]
            return self.chance.choice(recent if self.flip(0.5) else fitting)
        return self.new(shape())

    def any(self, *names: str, rank: int | None = None, least_rank: int = 0, exact: Bits = Bits.ROUNDED) -> Value:
        """A value of one of the element types, of the rank asked for."""

        def accept(value: Value) -> bool:
            fits = value.shape.rank == rank if rank is not None else value.shape.rank >= least_rank
            return fits and (not names or value.dtype.name in names)

        def shape() -> Shape:
            wanted = rank
            if wanted is None and least_rank:
                wanted = least_rank + self.chance.choice((0, 0, 1, 2))
            return self.dtype(*names)[self.dims(wanted)]

        return self.pick(accept, shape, exact)

    def like(self, shape: Shape, exact: Bits = Bits.ROUNDED) -> Value:
        """A value of exactly that shape."""
        return self.pick(lambda v: v.shape.dims == shape.dims and v.dtype is shape.dtype, lambda: shape, exact)

    def new(self, shape: Shape) -> Value:
        """A new parameter, constant, iota or broadcast scalar."""
        dtype, dims = shape.dtype, shape.dims
        if self.depth == 0 and self.flip(0.75):
            return self.argument(random_array(self.numbers, dtype, dims, self.special))
        if dims and dtype is not pred and self.flip(0.2):
            dim = self.chance.randrange(len(dims))
            if dims[dim] < 8:  # every type counts so far
                iota = self.builder.iota(shape=dtype[dims], iota_dimension=dim)
                return self.keep(iota, Bits.GIVEN)
        if dims and self.flip(0.4):
            scalar = self.constant(random_array(self.numbers, dtype, (), self.special))
            return self.emit("broadcast", scalar, moves=True, shape=dtype[dims], dimensions=())
        return self.constant(random_array(self.numbers, dtype, dims, self.special))

    def argument(self, array: np.ndarray) -> Value:
        """A parameter of the entry (elsewhere, a constant) with that value."""
        if self.depth:
            return self.constant(array)
        self.arguments.append(array)
        return self.keep(self.builder.parameter(literal(array).shape), Bits.GIVEN)

    def constant(self, array: Any, dtype: DType | None = None) -> Value:
        """A constant."""
        return self.keep(self.builder.constant(np.asarray(array) if dtype is None else array, dtype), Bits.GIVEN)

    def scalar(self, number: float, dtype: DType) -> Value:
        """A constant number, with any dimensions left to a broadcast."""
        return self.constant(np.asarray(number).astype(dtype.numpy))

    def filled(self, number: float, shape: Shape) -> Value:
        """An array of one number."""
        scalar = self.scalar(number, shape.dtype)
        return self.emit("broadcast", scalar, moves=True, shape=shape, dimensions=()) if shape.rank else scalar

    # -- instructions ----------------------------------------------------------------------------------------------

    def emit(
        self, opcode: str, *operands: Value, rounds: bool = False, moves: bool = False, **attributes: Any
    ) -> Value:
        """An instruction of array shape. `rounds`: its result is rounded; `moves`: its operands' bits stay."""
        instruction = self.builder.emit(opcode, *(o.instruction for o in operands), **attributes)
        return self.keep(instruction, self.outcome(operands, rounds, moves))

    def outcome(self, operands: Sequence[Value], rounds: bool, moves: bool = False) -> Bits:
        """How exact a result is."""
        least = Bits.ROUNDED if rounds else Bits.GIVEN if moves else Bits.EXACT
        return max([least, *(o.bits for o in operands)])

    def emit_many(
        self, opcode: str, *operands: Value, rounds: bool = False, moves: bool = False, **attributes: Any
    ) -> None:
        """An instruction of tuple shape, each element of which becomes a value."""
        instruction = self.builder.emit(opcode, *(o.instruction for o in operands), **attributes)
        self.unpack(instruction, self.outcome(operands, rounds, moves))

    def unpack(self, instruction: Instruction, bits: Bits) -> list[Value]:
        """The (nested) elements of a tuple as values."""
        if not instruction.shape.is_tuple:
            return [self.keep(instruction, bits)]
        parts = [self.builder.get_tuple_element(instruction, index=k) for k in range(len(instruction.shape.elements))]
        return [value for part in parts for value in self.unpack(part, bits)]

    def keep(self, instruction: Instruction, bits: Bits) -> Value:
        """Adds an instruction to the values."""
        if not (instruction.shape.dtype.is_float or instruction.shape.dtype.is_complex):
            bits = Bits.GIVEN
        value = Value(instruction, bits)
        self.values.append(value)
        return value

    def convert(self, value: Value, dtype: DType) -> Value:
        """The value in another type, the caller having seen to it that this is fit."""
        if value.dtype is dtype:
            return value
        narrows = (value.dtype.is_integer and dtype.bits < 64) or value.dtype.bits > dtype.bits
        rounds = (dtype.is_float or dtype.is_complex) and narrows and value.dtype.name != "pred"
        return self.emit("convert", value, rounds=rounds, shape=value.shape.with_dtype(dtype))

    def nested(self, name: str) -> Scene:
        """The scene of a called computation."""
        inner = Scene(self.module.computation(name), self.module, self.chance, self.depth + 1)
        inner.special = 0
        inner.usual = self.usual
        return inner

    def flat_scalars(self, name: str, count: int, dtype: DType) -> tuple[ComputationBuilder, list[Instruction]]:
        """A builder of a computation of `count` scalar parameters of one type, and those."""
        builder = self.module.computation(name)
        return builder, [builder.parameter(dtype[()]) for _ in range(count)]


Family = Callable[[Scene], None]
FAMILIES: dict[str, tuple[Family, float]] = {}


def family(weight: float) -> Callable[[Family], Family]:
    """Registers what adds an instruction (or a few) to a scene, to be chosen with that weight."""

    def register(function: Family) -> Family:
        FAMILIES[function.__name__] = (function, weight)
        return function

    return register
