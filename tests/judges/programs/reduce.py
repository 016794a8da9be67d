"""reduce, of one or several operands."""

from __future__ import annotations

import math

import numpy as np

from tests.judges.programs.combiners import combiner
from tests.judges.programs.numbers import integer_range
from tests.judges.programs.scene import FLOATS, INTEGERS, Bits, Scene, Value, family
from xloom.hlo.computation import Computation
from xloom.hlo.dtype import DTYPES, s32

_TYPES = ("pred", *INTEGERS, *FLOATS, "c64", "c128")


def _some_dimensions(scene: Scene, rank: int) -> tuple[int, ...]:
    count = scene.chance.randint(0 if scene.flip(0.05) else 1, rank) if rank else 0
    return tuple(sorted(scene.chance.sample(range(rank), count)))


def _count(x: Value, dimensions: tuple[int, ...]) -> int:
    return math.prod(x.shape.dims[k] for k in dimensions)


@family(6)
def reduce(scene: Scene) -> None:
    """One operand along any dimensions."""
    x = scene.any(*_TYPES, least_rank=1)
    dimensions = _some_dimensions(scene, x.shape.rank)
    combine = combiner(scene, x.dtype, _count(x, dimensions))
    scene.emit(
        "reduce",
        x,
        scene.constant(combine.identity_value),
        rounds=combine.rounds,
        dimensions=dimensions,
        to_apply=combine.computation,
    )


def _arg_extremum(scene: Scene, name: str, opcode: str) -> Computation:
    """(value, index), (value, index) -> the extremal one; a NaN wins, and among equals the lower index."""
    b = scene.module.computation("arg_" + opcode)
    dtype = DTYPES[name]
    v, i, w, j = b.parameter(dtype[()]), b.parameter(s32[()]), b.parameter(dtype[()]), b.parameter(s32[()])
    wins = b.compare(v, w, direction="GT" if opcode == "max" else "LT")
    if dtype.is_float:
        wins = b.or_(wins, b.compare(v, v, direction="NE"))
        both_nan = b.and_(b.compare(v, v, direction="NE"), b.compare(w, w, direction="NE"))
        tie = b.or_(b.compare(v, w, direction="EQ"), both_nan)
    else:
        tie = b.compare(v, w, direction="EQ")
    first = b.and_(tie, b.compare(i, j, direction="LT"))
    other_nan = b.compare(w, w, direction="NE") if dtype.is_float else None
    if other_nan is not None:
        wins = b.and_(wins, b.not_(b.and_(other_nan, b.compare(v, v, direction="EQ"))))
        wins = b.and_(wins, b.not_(tie))
    left = b.or_(wins, first)
    return b.finish(b.tuple_(b.select(left, v, w), b.select(left, i, j)))


@family(1.5)
def arg_extremum(scene: Scene) -> None:
    """argmax or argmin with its value."""
    name = scene.chance.choice(("f32", "f64", "bf16", "s32", "s8", "u32"))
    x = scene.any(name, least_rank=1, exact=Bits.GIVEN)
    opcode = scene.chance.choice(("max", "min"))
    dims = _some_dimensions(scene, x.shape.rank)
    dim = dims[0] if dims else 0
    index = scene.keep(scene.builder.iota(shape=s32[x.shape.dims], iota_dimension=dim), Bits.GIVEN)
    worst = scene.constant(_worst(opcode, name))
    scene.emit_many(
        "reduce",
        x,
        index,
        worst,
        scene.constant(2**31 - 1, s32),
        dimensions=(dim,),
        to_apply=_arg_extremum(scene, name, opcode),
    )


def _worst(opcode: str, name: str) -> np.ndarray:
    dtype = DTYPES[name]
    low, high = (-np.inf, np.inf) if dtype.is_float else integer_range(dtype)
    return np.asarray(low if opcode == "max" else high).astype(dtype.numpy)


@family(1)
def reduce_two(scene: Scene) -> None:
    """Two operands that are reduced side by side."""
    x = scene.any("f32", "s32", "u8", least_rank=1)
    y = scene.like(scene.dtype("f32", "s32", "u32")[x.shape.dims])
    dimensions = _some_dimensions(scene, x.shape.rank)
    first, second = (combiner(scene, v.dtype, _count(v, dimensions)) for v in (x, y))
    b = scene.module.computation("both")
    parameters = [b.parameter(d[()]) for d in (x.dtype, y.dtype, x.dtype, y.dtype)]
    root = b.tuple_(
        b.emit(first.opcode, parameters[0], parameters[2]), b.emit(second.opcode, parameters[1], parameters[3])
    )
    scene.emit_many(
        "reduce",
        x,
        y,
        scene.constant(first.identity_value),
        scene.constant(second.identity_value),
        rounds=True,
        dimensions=dimensions,
        to_apply=b.finish(root),
    )
