"""Scalar computations that reductions, windows and scatters apply, with initial values that do not change them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.judges.programs.numbers import integer_range
from tests.judges.programs.scene import Scene
from xloom.hlo.computation import Computation
from xloom.hlo.dtype import DType


@dataclass
class Combiner:
    """An associative and commutative computation; `identity_value` may be combined any number of times, or not at all."""

    opcode: str
    computation: Computation
    identity_value: np.ndarray
    rounds: bool


def opcodes(dtype: DType) -> tuple[str, ...]:
    """The opcodes that combine values of a type whatever the order."""
    if dtype.name == "pred":
        return ("and", "or")
    if dtype.is_integer:
        return ("add", "add", "multiply", "maximum", "minimum", "and", "or", "xor")
    if dtype.is_complex:
        return ("add", "multiply")
    return ("add", "add", "add", "multiply", "maximum", "minimum")


def combiner(scene: Scene, dtype: DType, count: int, only: tuple[str, ...] = ()) -> Combiner:
    """A random one for a type, operands in either order; a product of `count` floats only if it does not overflow."""
    possible = only or opcodes(dtype)
    if count > 8 and (dtype.is_float or dtype.is_complex):
        possible = tuple(o for o in possible if o != "multiply")
    opcode = scene.chance.choice(possible)
    builder, (a, b) = scene.flat_scalars(opcode, 2, dtype)
    computation = builder.finish(builder.emit(opcode, a, b) if scene.flip(0.8) else builder.emit(opcode, b, a))
    floats = dtype.is_float or dtype.is_complex
    return Combiner(opcode, computation, _identity_value(opcode, dtype), floats and opcode in ("add", "multiply"))


def _identity_value(opcode: str, dtype: DType) -> np.ndarray:
    if dtype.name == "pred":
        return np.asarray(opcode == "and")
    low, high = (-np.inf, np.inf) if not dtype.is_integer else integer_range(dtype)
    number = {
        "add": 0,
        "xor": 0,
        "or": 0,
        "multiply": 1,
        "and": high if low == 0 else -1,
        "maximum": low,
        "minimum": high,
    }[opcode]
    return np.asarray(number, np.uint64 if dtype.name == "u64" else None).astype(dtype.numpy)
